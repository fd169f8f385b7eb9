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


def test_navix():
    navix = pytest.importorskip("navix")
    env = jaxagents.make("navix:Navix-Empty-5x5-v0", max_steps=6)
    assert lasts(env, 0, 6) == [(False, False)] * 5 + [(False, True)]
    _, state = env.reset(KEY)
    for action in (2, 2, 1, 2, 2):  # to the goal in the corner
        native, step = env.env.step(state, action), env.step(KEY, state, action)
        np.testing.assert_array_equal(step.obs, native.observation)
        assert step.reward == native.reward
        assert step.terminated == native.is_termination()
        state = step.state
    assert (step.terminated, step.truncated, step.reward) == (True, False, 1.0)
    assert step.obs.dtype == np.float32
    trained = check_suite_environment(as_environment(navix.make("Navix-Empty-5x5-v0")))
    assert trained == type(trained)(
        as_environment(navix.make("Navix-Empty-5x5-v0")), None, trained.config
    )
    assert DQN("navix:Navix-Empty-5x5-v0", None, CONFIG) != DQN(env, None, CONFIG)
    _, states = jax.vmap(env.reset)(KEY[None])
    assert draw_states(env, states, 1).std() > 1


def test_xminigrid():
    xminigrid = pytest.importorskip("xminigrid")
    from xminigrid.wrappers import GymAutoResetWrapper

    native, params = xminigrid.make("MiniGrid-Empty-5x5")
    env = as_environment(GymAutoResetWrapper(native), params.replace(max_steps=4))
    assert env.env is native
    assert lasts(env, 1, 4) == [(False, False)] * 3 + [(False, True)]
    _, state = env.reset(KEY)
    for action in (0, 0, 1, 0, 0):
        expected = native.step(env.params, state, action)
        step = env.step(KEY, state, action)
        np.testing.assert_array_equal(step.obs, expected.observation)
        assert step.reward == expected.reward
        assert (step.terminated | step.truncated) == expected.last()
        state = step.state
    check_suite_environment(as_environment(native, params))
    assert DQN(native, params, CONFIG) == DQN(native, params, CONFIG)
    assert DQN(native, params, CONFIG) != DQN(native, env.params, CONFIG)
    _, states = jax.vmap(env.reset)(KEY[None])
    assert draw_states(env, states, 1).std() > 1
