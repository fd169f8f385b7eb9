"""Environments of craftax."""

import jax
import numpy as np
import pytest
from suite_checks import KEY, assert_equal_trees, check_suite_environment

import jaxagents
from jaxagents.envs import Episodes, as_environment

pytest.importorskip("craftax")
pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "Craftax-Classic-Symbolic-v1"


def test_steps_as_craftax_does_and_truncates_after_its_limit():
    env = jaxagents.make(f"craftax:{NAME}", max_timesteps=3)
    assert env.max_steps == 3
    episodes = Episodes(env, 1000)
    step, native_step = jax.jit(episodes.step), jax.jit(env.env.step_env)
    _, state = jax.jit(episodes.reset)(KEY)
    for i in range(3):
        key = jax.random.split(jax.random.key(i))[0]
        obs, _, reward, done, _ = native_step(key, state.envstate, 2, env.params)
        timestep = step(jax.random.key(i), state, np.int32(2))
        assert_equal_trees(timestep.next_obs, obs)
        assert timestep.reward == reward
        assert not timestep.terminated
        assert bool(timestep.truncated) == bool(done) == (i == 2)
        state = timestep.envstate
    assert not np.allclose(timestep.obs, timestep.next_obs)


def test_trains_in_native_environments_that_reset_themselves_or_not():
    from craftax.craftax_env import make_craftax_env_from_name

    made = as_environment(make_craftax_env_from_name(NAME, auto_reset=True))
    assert made.name == NAME
    assert made.max_steps == made.params.max_timesteps
    assert check_suite_environment(made).env == made
