"""Environments of MuJoCo Playground."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from suite_checks import KEY, check_steps, check_suite_environment, lasts

import jaxagents
from jaxagents.envs import Episodes, as_environment
from jaxagents.envs.adapters.native import adapter_named

registry = pytest.importorskip("mujoco_playground").registry
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def native():
    return registry.load("CartpoleBalance", config_overrides={"impl": "jax"})


def test_steps_as_playground_does_and_gives_the_true_successor(native):
    def step(key, state, action):
        state = native.step(state, action)
        return state.obs, state.reward, jnp.ones(())

    n_steps, last = check_steps(as_environment(native), step, np.ones(1, np.float32), max_steps=1)
    assert (n_steps, bool(last.truncated)) == (1, True)


def test_many_at_once_are_each_as_alone(native):
    episodes, actions = Episodes(as_environment(native), 2), np.float32([[1.0], [-1.0], [0.5]])
    _, states = jax.jit(jax.vmap(episodes.reset))(jax.random.split(KEY, 3))
    step_all, step = jax.jit(episodes.step_all), jax.jit(episodes.step)
    for keys in jax.random.split(KEY, (2, 3, 2)):
        alone = step(keys[0, 0], jax.tree.map(lambda x: x[0], states), actions[0])
        timestep = step_all(keys, states, actions)
        np.testing.assert_allclose(alone.next_obs, timestep.next_obs[0], rtol=1e-4, atol=1e-4)
        states = timestep.envstate
    assert timestep.truncated.all()


def test_the_limit_is_that_of_the_configuration(native):
    made = as_environment(native)
    assert isinstance(made, adapter_named("playground"))
    assert made.max_steps == native._config.episode_length
    check_suite_environment(made)
    env = jaxagents.make("playground:CartpoleBalance", episode_length=2)
    assert lasts(env, np.zeros(1), 3) == [(False, False), (False, True), (False, True)]


def test_refuses_warp():
    warp = registry.load("CartpoleBalance", config_overrides={"impl": "warp"})
    with pytest.raises(TypeError, match=r'config_overrides=\{"impl": "jax"\}'):
        as_environment(warp)
