"""Environments around others."""

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Allowed, Box, Discrete

from jaxagents import DQN, IPPO, Environment, dqn, ppo
from jaxagents.core.observed import action_mask, network_input
from jaxagents.envs import Episodes, FrameStack, Step, WithPrevious, as_environment, check_env
from jaxagents.envs.spaces import Composite

KEY = jax.random.key(0)


class Counting(Environment):
    """Shows the time and its tenfold, and pays the action times the time; ends after three steps."""

    action_space = Discrete(3)
    observation_space = Box(0.0, 100.0, (2,))

    def __init__(self, n_actors=None):
        self.n_actors = n_actors
        if n_actors is not None:
            self.observation_space = Box(0.0, 100.0, (n_actors, 2))

    def reset(self, key):
        return self._obs(jnp.zeros(())), jnp.zeros(())

    def step(self, key, state, action):
        reward = action * (state + 1.0)
        return Step(self._obs(state + 1), state + 1, reward, state >= 2, False, {"at": state})

    def render(self, state):
        return np.full((4, 4, 3), np.uint8(state))

    def _obs(self, time):
        obs = jnp.stack([time, 10.0 * time])
        return obs if self.n_actors is None else jnp.broadcast_to(obs, (self.n_actors, 2))


class Pictures(Counting):
    """Shows a picture, a kind and a number."""

    observation_space = None

    def _obs(self, time):
        return {
            "picture": jnp.full((4, 4, 2), time).astype(jnp.uint8),
            "number": time,
        }


class Lift(Counting):
    """Shows a floor beside the time."""

    observation_space = gymnasium.spaces.Dict(
        {"floor": gymnasium.spaces.Discrete(9), "time": gymnasium.spaces.Box(0, 100, (2,))}
    )

    def _obs(self, time):
        return {"floor": time.astype(jnp.int32), "time": super()._obs(time)}


class Room(Counting):
    """Shows which of five places."""

    observation_space = Discrete(5)

    def _obs(self, time):
        return time.astype(jnp.int32)


def played(env, actions, max_steps=100):
    episodes = Episodes(env, max_steps)
    step = jax.jit(lambda state, action: episodes.step(KEY, state, action))
    obs, state = jax.jit(episodes.reset)(KEY)
    shown, steps = [obs], []
    for action in actions:
        steps.append(step(state, np.int32(action)))
        state = steps[-1].envstate
        shown.append(steps[-1].obs)
    return shown, steps


def test_frames_are_those_of_the_episode_alone():
    shown, steps = played(FrameStack(Counting(), 3), [0] * 4)
    times = [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 0], [0, 0, 1]]
    for obs, expected in zip(shown, times, strict=True):
        np.testing.assert_array_equal(obs[::2], expected)
        np.testing.assert_array_equal(obs[1::2], 10 * np.array(expected))
    assert steps[2].terminated
    np.testing.assert_array_equal(steps[2].next_obs[::2], [1, 2, 3])


def test_frames_start_anew_where_a_time_limit_cuts():
    shown, steps = played(FrameStack(Counting(), 2), [0] * 3, max_steps=2)
    assert steps[1].truncated
    np.testing.assert_array_equal(steps[1].next_obs[::2], [1, 2])
    np.testing.assert_array_equal(shown[2][::2], [0, 0])


def test_frames_of_any_structure():
    shown, _ = played(FrameStack(Pictures(), 2), [0])
    assert shown[1]["picture"].shape == (4, 4, 4)
    assert shown[1]["picture"].dtype == jnp.uint8
    np.testing.assert_array_equal(shown[1]["picture"][0, 0], [0, 0, 1, 1])
    np.testing.assert_array_equal(shown[1]["number"], [0, 1])


def test_kinds_are_one_hot():
    shown, _ = played(FrameStack(Room(), 2), [0])
    np.testing.assert_array_equal(shown[1], [1, 0, 0, 0, 0, 0, 1, 0, 0, 0])
    shown, _ = played(WithPrevious(Room()), [0])
    np.testing.assert_array_equal(shown[1]["observation"], [0, 1, 0, 0, 0])


@pytest.mark.parametrize("wrap", [FrameStack, WithPrevious])
def test_kinds_among_others_stay_numbers(wrap):
    with pytest.warns(match="whatever the random keys"):
        report = check_env(wrap(Lift()), n_steps=2)
    assert len(report.warnings) == 1
    shown, _ = played(FrameStack(Lift(), 2), [0])
    np.testing.assert_array_equal(shown[1]["floor"], [0, 1])


@pytest.mark.parametrize("wrap", [FrameStack, WithPrevious, check_env])
@pytest.mark.parametrize("nested", [False, True])
def test_kinds_that_do_not_start_at_0_are_refused(wrap, nested):
    env, kinds = Room(), gymnasium.spaces.Discrete(5, start=2)
    env.observation_space = Composite({"room": kinds}) if nested else kinds
    with pytest.raises(
        ValueError, match=r"Room\.observation_space must hold integers that start at"
    ):
        wrap(env)


def test_actions_and_rewards_before_are_shown_and_forgotten_with_the_episode():
    shown, steps = played(WithPrevious(Counting()), [2, 1, 1, 0])
    actions = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_array_equal([obs["previous_action"] for obs in shown], actions)
    rewards = [[0], [2], [2], [0], [0]]
    np.testing.assert_array_equal([obs["previous_reward"] for obs in shown], rewards)
    np.testing.assert_array_equal(steps[2].next_obs["previous_reward"], [3])
    np.testing.assert_array_equal(shown[1]["observation"], [1, 10])


@pytest.mark.parametrize("shown", ["action", "reward"])
def test_only_what_is_wanted_is_shown(shown):
    env = WithPrevious(Counting(), action=shown == "action", reward=shown == "reward")
    assert set(env.reset(KEY)[0]) == {"observation", f"previous_{shown}"}
    with pytest.raises(ValueError, match="shows nothing"):
        WithPrevious(Counting(), action=False, reward=False)


def test_actions_that_cannot_be_shown_are_refused():
    env = Counting()
    env.action_space = None
    with pytest.raises(ValueError, match=r"Counting is None: pass action=False"):
        WithPrevious(env)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.slow_except("Pendulum")
def test_environments_of_gymnax_with_their_spaces(name):
    env, params = gymnax.make(name)
    for wrapped in (FrameStack(env, 3, params), WithPrevious(env, params)):
        check_env(wrapped)
        assert wrapped.max_steps == as_environment(env, params).max_steps
        assert name in wrapped.name
        assert wrapped.can_draw
    n = env.observation_space(params).shape[0]
    assert FrameStack(env, 3, params).observation_space.shape == (3 * n,)
    assert isinstance(WithPrevious(env, params).observation_space, Composite)


def test_draws_as_the_environment_inside():
    env = FrameStack(WithPrevious(Counting()), 2)
    _, state = jax.jit(env.reset)(KEY)
    state = jax.jit(env.step)(KEY, state, np.int32(1)).state
    np.testing.assert_array_equal(env.render(state), np.ones((4, 4, 3), np.uint8))


@pytest.mark.slow
def test_several_actors_learn_in_wrapped_environments():
    env = FrameStack(WithPrevious(Counting(2)), 2)
    sizes = {"n_steps": 2, "batch_size": 4, "rollout_length": 6, "n_evals": 2}
    config = ppo.AgentConfig(**sizes, normalise_observations=True)
    _, metrics = IPPO(env, None, config).train(KEY, ppo.HyperParameters(), progress=False)
    assert np.isfinite(metrics["returns"]).all()


def test_agents_of_one_actor_learn_in_wrapped_environments():
    sizes = {"n_steps": 2, "eval_frequency": 2, "n_evals": 2, "batch_size": 2, "features": (8,)}
    config = dqn.AgentConfig(buffer_size=64, learning_starts=8, minibatch_size=8, **sizes)
    agent = DQN(WithPrevious(FrameStack(Counting(), 2)), None, config)
    _, metrics = agent.train(KEY, dqn.HyperParameters(), progress=False)
    assert np.isfinite(metrics["returns"]).all()


class MaskInside(Counting):
    """Says in its observations that one action is allowed, another one at each time."""

    def _obs(self, time):
        shown = {"clock": super()._obs(time), "ten": 10.0 * jnp.ones(1)}
        return {**shown, "action_mask": jnp.arange(3) == time}


def masks_shown(env):
    """The masks of three steps, which networks are not given."""
    episodes = Episodes(as_environment(env), 10)

    @jax.jit
    def play():
        obs, state = episodes.reset(KEY)
        seen = [obs]
        for _ in range(2):
            step = episodes.play(KEY, state, jnp.int32(0))
            state = step.envstate
            seen.append(step.obs)
        assert all(action_mask(network_input(obs)) is None for obs in seen)
        return [action_mask(obs) for obs in seen]

    return np.asarray(play())


@pytest.mark.parametrize("inside", [Allowed(None), MaskInside()], ids=["method", "observation"])
def test_masks_of_actions_are_those_of_the_environment_inside(inside):
    expected = masks_shown(inside)
    assert expected.shape[0] == 3
    for wrap in (FrameStack, WithPrevious):
        np.testing.assert_array_equal(masks_shown(wrap(inside)), expected)
