"""Environments of navix and of xminigrid."""

import jax
import numpy as np
import pytest
from suite_checks import KEY, check_suite_environment, lasts

import jaxagents
from jaxagents import DQN, dqn
from jaxagents.envs import as_environment
from jaxagents.envs.drawings import draw_states

pytestmark = pytest.mark.filterwarnings("ignore")
CONFIG = dqn.AgentConfig()


def check_play(env, native_step, actions):
    """Steps have the observations, rewards and ends of native ones; returns the last."""
    step, native_step = jax.jit(env.step), jax.jit(native_step)
    _, state = jax.jit(env.reset)(KEY)
    first = state
    for action in actions:
        obs, reward, over = native_step(state, action)
        taken = step(KEY, state, action)
        np.testing.assert_array_equal(taken.obs, obs)
        assert taken.reward == reward
        assert (taken.terminated | taken.truncated) == over
        state = taken.state
    assert draw_states(env, jax.tree.map(lambda x: x[None], first), 1).std() > 1
    return taken


def test_navix():
    navix = pytest.importorskip("navix")
    env = jaxagents.make("navix:Navix-Empty-5x5-v0", max_steps=6)
    assert lasts(env, 0, 6) == [(False, False)] * 5 + [(False, True)]

    def native_step(state, action):
        step = env.env.step(state, action)
        return step.observation, step.reward, step.is_termination()

    last = check_play(env, native_step, (2, 2, 1, 2, 2))  # to the goal in the corner
    assert (last.terminated, last.truncated, last.reward) == (True, False, 1.0)
    assert last.obs.dtype == np.float32
    made = check_suite_environment(as_environment(navix.make("Navix-Empty-5x5-v0")))
    again = as_environment(navix.make("Navix-Empty-5x5-v0"))
    assert made == type(made)(again, None, made.config)
    assert DQN("navix:Navix-Empty-5x5-v0", None, CONFIG) != DQN(env, None, CONFIG)


def test_xminigrid():
    xminigrid = pytest.importorskip("xminigrid")
    from xminigrid.wrappers import GymAutoResetWrapper

    native, params = xminigrid.make("MiniGrid-Empty-5x5")
    env = as_environment(GymAutoResetWrapper(native), params.replace(max_steps=4))
    assert env.env is native
    assert lasts(env, 1, 4) == [(False, False)] * 3 + [(False, True)]

    def native_step(state, action):
        step = native.step(env.params, state, action)
        return step.observation, step.reward, step.last()

    check_play(env, native_step, (0, 0, 1, 0, 0))
    check_suite_environment(as_environment(native, params))
    assert DQN(native, params, CONFIG) == DQN(native, params, CONFIG)
    assert DQN(native, params, CONFIG) != DQN(native, env.params, CONFIG)
