"""Environments with random parameters for each episode."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import MatchSign

from jaxagents import A2C
from jaxagents.envs import Episodes, FrameStack, RandomParams, as_environment

KEY = jax.random.key(0)
ENV, PARAMS = gymnax.make("Pendulum-v1")
ACTION = np.array([0.7], np.float32)


def draw(key, params):
    return params.replace(m=jax.random.uniform(key, minval=0.5, maxval=2.0))


def mass(state):
    return state.envstate.past.m


def test_each_reset_draws_anew_and_an_episode_has_its_parameters():
    episodes = Episodes(as_environment(RandomParams(ENV, draw, PARAMS)), 3)
    obs, state = jax.jit(episodes.reset)(KEY)
    step, masses = jax.jit(episodes.step), [mass(state)]
    plain = as_environment(ENV, PARAMS.replace(m=np.asarray(masses[0])))

    @jax.jit
    def first_step(key):
        obs, state = plain.reset(jax.random.split(key)[1])
        return obs, plain.step(key, state, ACTION)

    expected_obs, plain_step = first_step(KEY)
    np.testing.assert_array_equal(obs, expected_obs)
    taken = step(KEY, state, ACTION)
    np.testing.assert_allclose(taken.next_obs, plain_step.obs, rtol=1e-6)
    np.testing.assert_allclose(taken.reward, plain_step.reward, rtol=1e-6)
    for key in jax.random.split(KEY, 6):
        state = step(key, state, ACTION).envstate
        masses.append(mass(state))
    assert masses[0] == masses[1] == masses[2] != masses[3] == masses[4] == masses[5] != masses[6]


def test_agents_in_equal_ones_are_equal():
    envs = (FrameStack(RandomParams(ENV, draw, PARAMS), 2) for _ in range(2))
    first, second = (A2C(env, None, A2C._config_type()) for env in envs)
    assert first == second


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(TypeError, match="MatchSign holds its own: draw them in its reset"):
        RandomParams(MatchSign(), draw)
    for wrapped in (FrameStack(ENV, 2, PARAMS), RandomParams(ENV, draw, PARAMS)):
        kind = type(wrapped).__name__
        with pytest.raises(TypeError, match=rf"as in {kind}\(RandomParams\(env, draw, params\)\)"):
            RandomParams(wrapped, draw)
    with pytest.raises(ValueError, match="the parameters"):
        RandomParams(ENV, lambda key, params: params.replace(m=jnp.ones(2)), PARAMS)
    with pytest.raises(
        ValueError, match=r"the parameters of params and draw differ in structure: .*'m'"
    ):
        RandomParams(ENV, lambda key, params: {"m": 1.0}, PARAMS)


def test_fractions_are_not_cut_off():
    with pytest.raises(ValueError, match=r"at m are of dtype int32, but draw returns float32"):
        RandomParams(ENV, draw, PARAMS.replace(m=1))
    whole = RandomParams(ENV, lambda key, params: params.replace(m=2), PARAMS)
    assert jax.eval_shape(Episodes(whole, 3).reset, KEY)[1].envstate.past.m.dtype == np.float32
