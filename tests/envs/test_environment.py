"""Objects and names that become environments, and custom environments."""

import dataclasses
import re
import tomllib
from pathlib import Path

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from probes import Box, Discrete, Probe
from suite_checks import played

import jaxagents
from jaxagents import IPPO, PPO, Environment
from jaxagents.cli.mistakes import MistakeError, check_environment
from jaxagents.core import extras
from jaxagents.envs import Episodes, Step, as_environment
from jaxagents.envs.adapters import Functional, native
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
CONFIG = AgentConfig(n_steps=2, batch_size=4, minibatch_size=2, rollout_length=4, n_evals=2)


@dataclasses.dataclass(frozen=True)
class Line(Environment):
    """A walk from 0 that terminates at a goal, and is truncated by wind."""

    goal: float = 3.0
    wind: float = np.inf

    action_space = Discrete(2)
    observation_space = Box(-np.inf, np.inf, (1,))

    def reset(self, key):
        return jnp.zeros(1), jnp.zeros(())

    def step(self, key, state, action):
        state = state + 2.0 * action - 1.0
        reached, blown = state >= self.goal, state >= self.wind
        return Step(state[None], state, -jnp.abs(self.goal - state), reached, blown, {"at": state})


class Meeting(Environment):
    """Two actors on a line that are rewarded for meeting."""

    n_actors = 2
    action_space = Discrete(2)

    def reset(self, key):
        positions = jax.random.uniform(key, (2,), minval=-1.0)
        return positions[:, None], positions

    def step(self, key, state, action):
        state = state + 0.1 * (2.0 * action - 1.0)
        distance = jnp.abs(state[0] - state[1])
        return Step(state[:, None], state, jnp.full(2, -distance), distance < 0.1, False, {})


def play(env, n):
    return played(Episodes(env, 100), [1] * n)[1]


def test_makes_an_environment_of_gymnax_ones_and_asks_whether_an_episode_is_cut():
    env, params = gymnax.make("MountainCar-v0")
    made = as_environment(env, params.replace(max_steps_in_episode=2))
    assert (made.env, made.name, made.max_steps, made.n_actors) == (env, "MountainCar-v0", 2, None)
    assert made.action_space.n == 3
    assert made.observation_space.shape == (2,)
    assert as_environment(env).params == params
    _, state = made.reset(KEY)
    first = made.step(KEY, state, 1)
    second = made.step(KEY, first.state, 1)
    assert (bool(first.truncated), bool(second.truncated)) == (False, True)
    assert not second.terminated


def test_makes_environments_of_names():
    env, params = gymnax.make("CartPole-v1")
    assert jaxagents.make("gymnax:CartPole-v1").name == "CartPole-v1"
    assert jaxagents.make("CartPole-v1").params == params
    agent, given = PPO("CartPole-v1", None, CONFIG), PPO(env, None, CONFIG)
    assert repr(agent) == "<PPO on CartPole-v1>"
    assert agent == PPO(jaxagents.make("CartPole-v1"), None, CONFIG)
    assert (given.env, given.env_params) == (env, params)
    assert as_environment("CartPole-v1", params.replace(max_steps_in_episode=7)).max_steps == 7


def test_says_which_command_installs_a_suite(monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda suite: False)
    with pytest.raises(ImportError, match="brax is not.*" + re.escape(extras.pip_install("brax"))):
        jaxagents.make("brax:ant")
    with pytest.raises(MistakeError, match=re.escape(extras.pip_install("pgx"))):
        check_environment("pgx:chess")
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())
    known = set(project["project"]["optional-dependencies"])
    assert {*extras.SUITES, "envs"} - {extras.GYMNASIUM} <= known


def test_tells_suites_apart_by_the_classes_that_environments_inherit_from(monkeypatch):
    suite = extras.Suite("Adapter", (f"{__name__}.{Line.__qualname__}",), "")
    monkeypatch.setitem(extras.SUITES, "own", suite)
    monkeypatch.setattr(native, "adapter_named", {"own": native.Native}.get)
    assert native.adapter_of(Meeting()) is None
    assert native.adapter_of(type("Own", (Line,), {})()) is native.Native


def test_makes_an_environment_of_objects_with_two_methods():
    made = as_environment(Probe(2))
    assert type(made) is Functional
    assert (made.name, made.params, made.max_steps, made.n_actors) == ("Probe", None, None, 2)
    assert made.action_space == Discrete(2)
    assert made.observation_space is None


@struct.dataclass
class Params:
    max_steps_in_episode: float = 9.0


def test_takes_default_parameters_and_their_limit():
    class Limited(Probe):
        default_params = Params()

    assert as_environment(Limited()).max_steps == 9
    assert as_environment(Limited(), Params(max_steps_in_episode=4)).max_steps == 4
    with pytest.raises(ValueError, match="max_steps_in_episode must be a positive integer, got 0"):
        as_environment(Limited(), Params(max_steps_in_episode=0))


def test_does_not_ask_for_a_truncation_that_the_states_cannot_tell():
    class Inherits(Probe):
        def is_truncated(self, state, params):
            return state.no_such_field > params.max_steps_in_episode

    made = as_environment(Inherits())
    assert not made.step(KEY, made.reset(KEY)[1], 0).truncated


@pytest.mark.parametrize(
    ("done", "info", "terminated", "truncated"),
    [
        (True, {}, True, False),
        (True, {"truncated": True}, False, True),
        (True, {"truncated": False}, True, False),
        (True, {"truncated": True, "terminated": True}, True, True),
        (True, {"terminated": False}, False, False),
        (False, {"truncated": np.array([True])}, False, True),
    ],
)
def test_reads_what_ended_an_episode(done, info, terminated, truncated):
    class Reports(Probe):
        def step_env(self, *args):
            obs, state, reward, _, _ = super().step_env(*args)
            return obs, state, reward, done, info

    made = as_environment(Reports())
    step = made.step(KEY, made.reset(KEY)[1], 0)
    assert (step.terminated.shape, step.truncated.shape) == ((), ())
    assert (bool(step.terminated), bool(step.truncated)) == (terminated, truncated)


def test_episodes_of_an_own_environment():
    assert as_environment(Line()).name == "Line"
    steps = play(Line(), 4)
    np.testing.assert_array_equal(steps.next_obs[:, 0], [1, 2, 3, 1])
    np.testing.assert_array_equal(steps.obs[:, 0], [1, 2, 0, 1])
    np.testing.assert_array_equal(steps.terminated, [0, 0, 1, 0])
    np.testing.assert_array_equal(steps.truncated, False)
    np.testing.assert_array_equal(steps.info["at"], [1, 2, 3, 1])


def test_an_own_environment_may_cut_its_episodes_and_the_shorter_limit_does():
    np.testing.assert_array_equal(play(Line(wind=2.0), 4).truncated, [0, 1, 0, 1])
    both = play(Line(wind=3.0), 3)
    assert both.terminated[-1]
    assert not both.truncated[-1]
    env = Meeting()
    assert Episodes(env, 100).max_steps == 100
    env.max_steps = np.int64(30)
    assert (Episodes(env, 100).max_steps, Episodes(env, 9).max_steps) == (30, 9)


def test_an_agent_takes_an_own_environment():
    env = Meeting()
    agent = IPPO(env, None, CONFIG.replace(max_episode_steps=10))
    assert (agent.env, agent.env_params) == (env, None)
    assert str(agent).startswith("IPPO on Meeting")


def test_agents_with_equal_environments_are_equal():
    def of_gymnax(**values):
        env, params = gymnax.make("CartPole-v1")
        return PPO(env, params.replace(**values), CONFIG)

    agent, same, other = of_gymnax(), of_gymnax(), of_gymnax(gravity=5.0)
    assert agent == same != other
    assert hash(agent) == hash(same)
    agent, same, other = (PPO(Line(goal=goal), None, CONFIG) for goal in (3.0, 3.0, 4.0))
    assert agent == same != other


@pytest.mark.parametrize(
    ("done", "message"),
    [
        (None, "terminated must be one boolean, got None"),
        (jnp.zeros, "got a function: step_env returns (obs, state, reward, terminated, info), in "),
        ({"__all__": False}, 'terminated must be one boolean, such as done["__all__"], got a dict'),
    ],
)
def test_names_flags_that_are_none_or_dicts_or_no_numbers(done, message):
    class Done(Probe):
        def terminated(self, state):
            return done

    with pytest.raises(ValueError, match=re.escape(message)):
        PPO(Done(), None, CONFIG)


@pytest.mark.parametrize(("declared", "found"), [("uint8", "int32"), ("int32", "float32")])
def test_observations_of_a_wider_kind_than_their_space_are_named(declared, found):
    class Wide(Probe):
        def observation_space(self, params):
            return Box(0, 255, (2,), np.dtype(declared))

        def observe(self, state):
            return super().observe(state).astype(found)

    message = f"has dtype {declared}, but reset_env returns dtype {found}, which is"
    with pytest.warns(UserWarning, match=message):
        PPO(Wide(), None, CONFIG)


def test_further_arguments_may_have_defaults():
    class Extra(Line):
        @jax.jit
        def reset(self, key):
            return jnp.zeros(1), jnp.zeros(())

        def step(self, key, state, action, params=None):
            return super().step(key, state, action)

    assert as_environment(Extra()) == Extra()
