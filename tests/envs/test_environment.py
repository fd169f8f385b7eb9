"""Objects that become environments, and environments of one's own."""

import dataclasses
import re

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnax.environments import spaces
from probes import Box, Discrete, Probe

from jaxagents import IPPO, PPO, Environment, check_env
from jaxagents.envs import Episodes, FrameStack, Step, as_environment
from jaxagents.envs.adapters import Functional
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
CONFIG = AgentConfig(n_steps=2, batch_size=4, minibatch_size=2, rollout_length=4, n_evals=2)


@dataclasses.dataclass(frozen=True)
class Line(Environment):
    """A walk from 0, which ends at a goal, and is cut where a wind blows."""

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
    """Two actors on a line that are paid to meet."""

    n_actors = 2
    action_space = Discrete(2)

    def reset(self, key):
        positions = jax.random.uniform(key, (2,), minval=-1.0)
        return positions[:, None], positions

    def step(self, key, state, action):
        state = state + 0.1 * (2.0 * action - 1.0)
        distance = jnp.abs(state[0] - state[1])
        return Step(state[:, None], state, jnp.full(2, -distance), distance < 0.1, False, {})


def play(env, n, max_steps=100):
    episodes = Episodes(env, max_steps)
    step = jax.jit(lambda state: episodes.step(KEY, state, jnp.ones((), jnp.int32)))
    _, state = jax.jit(episodes.reset)(KEY)
    steps = []
    for _ in range(n):
        steps.append(step(state))
        state = steps[-1].envstate
    return jax.tree.map(lambda *x: np.stack(x), *steps)


def test_makes_an_environment_of_gymnax_ones():
    env, params = gymnax.make("CartPole-v1")
    made = as_environment(env, params.replace(max_steps_in_episode=7))
    assert isinstance(made, Functional)
    assert (made.env, made.name, made.max_steps, made.n_actors) == (env, "CartPole-v1", 7, None)
    assert made.action_space.n == 2
    assert made.observation_space.shape == (4,)
    assert as_environment(env).params == params


def test_asks_gymnax_whether_an_episode_is_cut():
    env, params = gymnax.make("MountainCar-v0")
    made = as_environment(env, params.replace(max_steps_in_episode=2))
    _, state = made.reset(KEY)
    first = made.step(KEY, state, 1)
    second = made.step(KEY, first.state, 1)
    assert (bool(first.truncated), bool(second.truncated)) == (False, True)
    assert not second.terminated


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


def test_does_not_ask_for_a_truncation_that_the_states_cannot_tell():
    class Inherits(Probe):
        def is_truncated(self, state, params):
            return state.no_such_field > params.max_steps_in_episode

    assert type(as_environment(Inherits())) is Functional


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


def test_passes_an_environment_through():
    env = Line()
    assert as_environment(env) is env
    assert env.name == "Line"
    assert as_environment(Meeting()).max_steps is None


def test_episodes_of_an_own_environment():
    steps = play(Line(), 4)
    np.testing.assert_array_equal(steps.next_obs[:, 0], [1, 2, 3, 1])
    np.testing.assert_array_equal(steps.obs[:, 0], [1, 2, 0, 1])
    np.testing.assert_array_equal(steps.terminated, [0, 0, 1, 0])
    np.testing.assert_array_equal(steps.truncated, False)
    np.testing.assert_array_equal(steps.info["at"], [1, 2, 3, 1])


def test_an_own_environment_may_cut_its_episodes():
    np.testing.assert_array_equal(play(Line(wind=2.0), 4).truncated, [0, 1, 0, 1])
    both = play(Line(wind=3.0), 3)
    assert both.terminated[-1]
    assert not both.truncated[-1]


def test_the_shorter_of_two_limits_cuts():
    class Limited(Line):
        max_steps = 2

    np.testing.assert_array_equal(play(Limited(), 4).truncated, [0, 1, 0, 1])
    np.testing.assert_array_equal(play(Limited(), 2, max_steps=1).truncated, [1, 1])


@pytest.mark.parametrize(("agent", "env"), [(PPO, Line()), (IPPO, Meeting())])
@pytest.mark.slow_except("PPO")
def test_trains_in_an_own_environment(agent, env):
    agent = agent(env, None, CONFIG.replace(max_episode_steps=10), eval_during_training=False)
    assert agent.env is env
    assert agent.env_params is None
    runner, metrics = agent.train(KEY, HyperParameters(), progress=False)
    assert runner.update_step == 2
    assert np.isfinite(metrics["actor_loss"][-1])
    jax.eval_shape(agent.program.play, KEY, agent._acting(runner))
    assert str(agent).startswith(f"{type(agent).__name__} on {env.name}")


def test_an_agent_keeps_what_it_was_given():
    env, params = gymnax.make("CartPole-v1")
    agent = PPO(env, None, CONFIG)
    assert agent.env is env
    assert agent.env_params == params
    assert repr(agent) == "<PPO on CartPole-v1>"


def test_agents_with_equal_environments_are_equal():
    def of_gymnax(**values):
        env, params = gymnax.make("CartPole-v1")
        return PPO(env, params.replace(**values), CONFIG)

    assert of_gymnax() == of_gymnax()
    assert hash(of_gymnax()) == hash(of_gymnax())
    assert of_gymnax() != of_gymnax(gravity=5.0)
    assert PPO(Line(), None, CONFIG) == PPO(Line(), None, CONFIG)
    assert PPO(Line(), None, CONFIG) != PPO(Line(goal=4.0), None, CONFIG)


def refused(message, env):
    with pytest.raises(ValueError, match=re.escape(message)):
        PPO(env, None, CONFIG)


@pytest.mark.parametrize(
    ("done", "message"),
    [
        (lambda state: None, "terminated must be one boolean, got None"),
        (
            lambda state: state,
            "got a ProbeState: step_env returns (obs, state, reward, terminated, i",
        ),
        (
            lambda state: {"__all__": jnp.array(False)},
            'terminated must be one boolean, such as done["__all__"], got a dict',
        ),
    ],
)
def test_names_flags_that_are_none_or_dicts_or_states(done, message):
    class Done(Probe):
        def terminated(self, state):
            return done(state)

    refused(message, Done())


def test_refuses_states_that_change_and_names_the_leaf():
    class Casts(Probe):
        def step_env(self, *args):
            obs, state, *rest = super().step_env(*args)
            return (obs, state.replace(time=state.time.astype(float)), *rest)

    refused("the state at time is shape () and dtype int32", Casts())


def test_refuses_observations_outside_of_their_space_and_names_the_part():
    class Spaces(Line):
        observation_space = spaces.Dict({"at": Box(-1.0, 1.0, (2,))})

        def reset(self, key):
            obs, state = super().reset(key)
            return {"at": obs}, state

        def step(self, *args):
            step = super().step(*args)
            return step._replace(obs={"at": step.obs})

    refused("Spaces['at']: observation_space has shape (2,)", Spaces())
    refused("but reset returns shape (1,)", Spaces())


@pytest.mark.parametrize(("declared", "found"), [("uint8", "int32"), ("int32", "float32")])
def test_observations_of_a_wider_kind_than_their_space_are_named(declared, found):
    class Casts(Line):
        observation_space = Box(0, 255, (1,), np.dtype(declared))

        def reset(self, key):
            obs, state = super().reset(key)
            return obs.astype(found), state

        def step(self, *args):
            step = super().step(*args)
            return step._replace(obs=step.obs.astype(found))

    message = f"has dtype {declared}, but reset returns dtype {found}, which is"
    with pytest.warns(UserWarning, match=message):
        PPO(Casts(), None, CONFIG)


def test_a_limit_among_parameters_is_named_as_there():
    env, params = gymnax.make("CartPole-v1")
    with pytest.raises(ValueError, match="max_steps_in_episode must be a positive integer, got 0"):
        as_environment(env, params.replace(max_steps_in_episode=0))


def test_a_limit_is_a_number_or_none():
    env = Meeting()
    assert Episodes(env, 100).max_steps == 100
    env.max_steps = np.int64(30)
    assert Episodes(env, 100).max_steps == 30


class Leaking(Meeting):
    """Keeps its first positions in itself."""

    def reset(self, key):
        self.kept = super().reset(key)
        return self.kept


class LeakingFunctional(Probe):
    """The same beside parameters, where truncations are asked for before anything else."""

    def reset_env(self, key, params):
        self.kept = super().reset_env(key, params)
        return self.kept

    def is_truncated(self, state, params):
        return state.time > 3


def test_an_environment_that_keeps_something_in_itself_is_refused_wherever_it_is():
    for env, agent in (
        (Leaking(), IPPO),
        (FrameStack(Leaking(), 2), IPPO),
        (LeakingFunctional(), PPO),
    ):
        name = "LeakingFunctional" if agent is PPO else "Leaking"
        with pytest.raises(
            ValueError, match=rf"A reset or a step writes to {name}\.kept\. They are"
        ):
            agent(env, None, CONFIG)
    with pytest.raises(ValueError, match="writes to") as error:
        check_env(LeakingFunctional())
    assert str(error.value).count("writes to") == 1


def test_arguments_are_those_that_are_given():
    class Extra(Line):
        def step(self, key, state, action, params=None):
            return super().step(key, state, action)

    class Compiled(Line):
        @jax.jit
        def reset(self, key):
            return jnp.zeros(1), jnp.zeros(())

    class Undeclared(Line):
        def reset(self, key, params):
            return super().reset(key)

    assert as_environment(Extra()) == Extra()
    assert as_environment(Compiled()) == Compiled()
    with pytest.raises(TypeError, match=r"Undeclared\.reset must be .*, got reset\(key, p"):
        FrameStack(Undeclared())


def test_arguments_of_functional_environments_are_given_in_their_order():
    class Turned(Probe):
        def step_env(self, state, action, key, params):
            return super().step_env(key, state, action, params)

    class Short(Probe):
        def reset_env(self, key):
            return super().reset_env(key, None)

    with pytest.raises(
        TypeError, match=r"step_env\(self, key, state, action, params\), got step_env\(state, act"
    ):
        as_environment(Turned())
    with pytest.raises(TypeError, match=r"reset_env\(self, key, params\), got reset_env\(key\): "):
        check_env(Short())


@pytest.mark.parametrize(("place", "value"), [("obs", np.array("left")), ("state", object())])
def test_compiled_environments_return_arrays(place, value):
    class Talking(Line):
        def step(self, key, state, action):
            step = super().step(key, state, action)
            return step._replace(**{place: {"message": value, "number": 1}})

    with pytest.raises(
        TypeError, match=rf"Talking\.step returns .* in {place}\.message, but what com"
    ):
        PPO(Talking(), None, CONFIG)
