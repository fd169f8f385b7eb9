"""Wrappers of environments."""

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Allowed, Box, Discrete
from suite_checks import played, trace_updates

from jaxagents import A2C, Environment
from jaxagents.core.observed import action_mask, network_input
from jaxagents.envs import Episodes, FrameStack, Step, WithPrevious, as_environment
from jaxagents.envs.spaces import MultiDiscrete

KEY = jax.random.key(0)


class Counting(Environment):
    """Observes the time and ten times the time; the reward is action times time; three steps."""

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
    """Observes an image, a category and a number."""

    observation_space = None

    def _obs(self, time):
        return {
            "picture": jnp.full((4, 4, 2), time).astype(jnp.uint8),
            "number": time,
        }


class Lift(Counting):
    """Observes a floor and the time."""

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


def shown_in(env, actions, max_steps=100):
    """The observations of an episode, and the outcomes of its steps."""
    obs, steps = played(Episodes(env, max_steps), actions)
    return jax.tree.map(lambda x, xs: np.concatenate([x[None], xs]), obs, steps.obs), steps


def test_frames_are_those_of_the_episode_alone():
    shown, steps = shown_in(FrameStack(Counting(), 3), [0] * 4)
    times = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(shown[:, ::2], times)
    np.testing.assert_array_equal(shown[:, 1::2], 10 * times)
    np.testing.assert_array_equal(steps.next_obs[2, ::2], [1, 2, 3])


def test_frames_of_any_structure():
    shown, _ = shown_in(FrameStack(Pictures(), 2), [0])
    assert shown["picture"].shape == (2, 4, 4, 4)
    assert shown["picture"].dtype == jnp.uint8
    np.testing.assert_array_equal(shown["picture"][1, 0, 0], [0, 0, 1, 1])
    np.testing.assert_array_equal(shown["number"][1], [0, 1])


def test_kinds_are_one_hot():
    shown, _ = shown_in(FrameStack(Room(), 2), [0])
    np.testing.assert_array_equal(shown[1], [1, 0, 0, 0, 0, 0, 1, 0, 0, 0])
    shown, _ = shown_in(WithPrevious(Room()), [0])
    np.testing.assert_array_equal(shown["observation"][1], [0, 1, 0, 0, 0])


def test_kinds_among_others_stay_numbers():
    wrapped = WithPrevious(FrameStack(Lift(), 2))
    shown, _ = shown_in(wrapped, [0])
    np.testing.assert_array_equal(shown["observation"]["floor"][1], [0, 1])
    space = wrapped.observation_space.spaces["observation"].spaces["floor"]
    assert isinstance(space, MultiDiscrete)
    assert space.nvec == (9, 9)
    assert np.issubdtype(space.dtype, np.integer)


def test_actions_and_rewards_before_are_shown_and_forgotten_with_the_episode():
    shown, steps = shown_in(WithPrevious(Counting()), [2, 1, 1, 0])
    actions = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_array_equal(shown["previous_action"], actions)
    np.testing.assert_array_equal(shown["previous_reward"], [[0], [2], [2], [0], [0]])
    np.testing.assert_array_equal(steps.next_obs["previous_reward"][2], [3])
    np.testing.assert_array_equal(shown["observation"][1], [1, 10])
    _, steps = played(Episodes(WithPrevious(FrameStack(Counting(2), 2)), 9, (2,)), [[2, 1]])
    np.testing.assert_array_equal(steps.obs["previous_action"][0], [[0, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(steps.obs["previous_reward"][0], [[2], [1]])
    np.testing.assert_array_equal(steps.obs["observation"][0], [[0, 0, 1, 10]] * 2)


@pytest.mark.parametrize("shown", ["action", "reward"])
def test_only_what_is_wanted_is_shown(shown):
    env = WithPrevious(Counting(), action=shown == "action", reward=shown == "reward")
    assert set(env.reset(KEY)[0]) == {"observation", f"previous_{shown}"}
    with pytest.raises(ValueError, match="shows nothing"):
        WithPrevious(Counting(), action=False, reward=False)
    env = Counting()
    env.action_space = None
    with pytest.raises(ValueError, match=r"Counting is None: pass action=False"):
        WithPrevious(env)


def test_environments_of_gymnax_with_their_spaces():
    env, params = gymnax.make("Pendulum-v1")
    frames = FrameStack(env, 3, params)
    wrapped = WithPrevious(frames)
    assert wrapped.max_steps == as_environment(env, params).max_steps
    assert wrapped.name == "Pendulum-v1, 3 frames, previous action and reward"
    assert wrapped.can_draw
    assert frames.observation_space.shape == (9,)
    assert wrapped.observation_space.spaces["previous_action"].low == -2.0


def test_draws_as_the_environment_inside():
    env = FrameStack(WithPrevious(Counting()), 2)
    _, state = jax.jit(env.reset)(KEY)
    state = jax.jit(env.step)(KEY, state, np.int32(1)).state
    np.testing.assert_array_equal(env.render(state), np.ones((4, 4, 3), np.uint8))


def test_agents_learn_in_wrapped_environments():
    env = FrameStack(WithPrevious(Counting()), 2)
    fields = {"batch_size": 4, "rollout_length": 6, "normalise_observations": True}
    trace_updates(A2C(env, None, A2C._config_type(**fields)))


class MaskInside(Counting):
    """Has a mask in its observations that allows one action, a different one at each time."""

    def _obs(self, time):
        return {"clock": super()._obs(time), "action_mask": jnp.arange(3) == time}


@pytest.mark.parametrize("inside", [Allowed(None), MaskInside()], ids=["method", "observation"])
def test_masks_of_actions_are_those_of_the_environment_inside(inside):
    expected, _ = shown_in(as_environment(inside), [0])
    obs, _ = shown_in(WithPrevious(FrameStack(inside, 2)), [0])
    np.testing.assert_array_equal(action_mask(obs), action_mask(expected))
    assert action_mask(network_input(obs)) is None
