"""Environments of craftax."""

import numpy as np
import pytest
from suite_checks import check_steps, trace_updates

import jaxagents
from jaxagents import PPO, ppo
from jaxagents.envs import as_environment

pytest.importorskip("craftax")
pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "Craftax-Classic-Symbolic-v1"


def test_steps_as_craftax_does_and_truncates_after_its_limit():
    env = jaxagents.make(f"craftax:{NAME}", max_timesteps=3)

    def step(key, state, action):
        obs, _, reward, over, _ = env.env.step_env(key, state, action, env.params)
        return obs, reward, over

    n_steps, last = check_steps(env, step, np.int32(2))
    assert n_steps == env.max_steps == 3
    assert last.truncated


def test_takes_native_environments_that_reset_themselves_or_not():
    from craftax.craftax_env import make_craftax_env_from_name

    made = as_environment(make_craftax_env_from_name(NAME, auto_reset=True))
    assert made.name == NAME
    assert made.max_steps == made.params.max_timesteps
    trace_updates(PPO(made, None, ppo.AgentConfig()))
