"""Environments of brax."""

import numpy as np
import pytest
from suite_checks import check_steps, check_suite_environment, lasts

import jaxagents
from jaxagents import PPO, ppo
from jaxagents.envs import as_environment
from jaxagents.envs.adapters.native import adapter_named

pytest.importorskip("brax")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def native():
    from brax import envs

    return envs.get_environment("inverted_pendulum", backend="spring")


def test_steps_as_brax_does_and_gives_the_true_successor(native):
    def step(key, state, action):
        state = native.step(state, action)
        return state.obs, state.reward, state.done

    assert check_steps(as_environment(native), step, np.ones(1, np.float32))[1].terminated


def test_the_episode_length_truncates(native):
    env = jaxagents.make("brax:fast", episode_length=3)
    assert lasts(env, np.zeros(1), 4) == [(False, False)] * 2 + [(False, True)] * 2
    assert jaxagents.make("brax:fast").max_steps == 1000
    assert as_environment(native).max_steps is None


def test_takes_wrappers_off_that_reset_and_count():
    from brax import envs

    made = as_environment(envs.create("fast", episode_length=7))
    assert type(made.env) is envs.fast.Fast
    assert made.max_steps == 7
    repeats = as_environment(envs.create("fast", episode_length=6, action_repeat=2))
    assert lasts(repeats, np.zeros(1), 3) == [(False, False)] * 2 + [(False, True)]
    with pytest.raises(
        TypeError, match=r"VmapWrapper makes one environment into many: pass env.env"
    ):
        as_environment(envs.create("fast", batch_size=4))
    with pytest.raises(TypeError, match="Fast holds its own parameters: pass None"):
        as_environment(envs.fast.Fast(), 3)


def test_agents_take_native_environments_and_names(native):
    trained = check_suite_environment(as_environment(native, None), trains=True)
    assert repr(trained) == "<PPO on InvertedPendulum>"
    assert isinstance(PPO("brax:fast", None, ppo.AgentConfig()).env, adapter_named("brax"))
    with pytest.raises(ValueError, match=r"no environment 'humanid'. Did you mean 'humanoid'"):
        jaxagents.make("brax:humanid")
