"""Environments whose parameters are drawn for each episode."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from probes import MatchSign

from jaxagents import A2C, a2c
from jaxagents.envs import Episodes, FrameStack, RandomParams, as_environment

KEY = jax.random.key(0)
ENV, PARAMS = gymnax.make("Pendulum-v1")


def draw(key, params):
    return params.replace(m=jax.random.uniform(key, minval=0.5, maxval=2.0))


def mass(state):
    return state.envstate.past.m


def test_an_episode_is_that_of_its_parameters():
    episodes = Episodes(as_environment(RandomParams(ENV, draw, PARAMS)), 3)
    keys = jax.random.split(KEY, 4)
    masses = np.asarray(mass(jax.jit(jax.vmap(episodes.reset))(keys)[1]))
    assert len(np.unique(masses)) == 4
    obs, first = jax.jit(episodes.reset)(keys[0])
    assert mass(first) == masses[0]
    _, reset_key = jax.random.split(keys[0])
    plain = as_environment(ENV, PARAMS.replace(m=masses[0]))
    expected_obs, expected = jax.jit(plain.reset)(reset_key)
    np.testing.assert_array_equal(obs, expected_obs)
    action = np.array([0.7], np.float32)
    step = jax.jit(episodes.play)(KEY, first, action)
    plain_step = jax.jit(plain.step)(KEY, expected, action)
    np.testing.assert_allclose(step.obs, plain_step.obs, rtol=1e-6)
    np.testing.assert_allclose(step.reward, plain_step.reward, rtol=1e-6)
    assert mass(step.envstate) == masses[0]


def test_each_reset_draws_anew_and_nothing_else_does():
    episodes = Episodes(as_environment(RandomParams(ENV, draw, PARAMS)), 3)
    _, state = jax.jit(episodes.reset)(KEY)
    step = jax.jit(episodes.step)
    masses = [mass(state)]
    for key in jax.random.split(KEY, 6):
        state = step(key, state, np.zeros(1, np.float32)).envstate
        masses.append(mass(state))
    assert masses[0] == masses[1] == masses[2] != masses[3] == masses[4] == masses[5] != masses[6]


def test_agents_train_in_it_and_equal_ones_are_equal():
    config = a2c.AgentConfig(n_steps=2, batch_size=4, rollout_length=8, n_evals=2)

    def make():
        return A2C(FrameStack(RandomParams(ENV, draw, PARAMS), 2), None, config)

    first, second = (make().train(KEY, a2c.HyperParameters(), progress=False) for _ in range(2))
    trees.assert_equal(first, second)
    assert make() == make()


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
    with pytest.raises(ValueError, match=r"at m are of dtype int32, but draw gives float32"):
        RandomParams(ENV, draw, PARAMS.replace(m=1))
    whole = RandomParams(ENV, lambda key, params: params.replace(m=2), PARAMS)
    assert mass(Episodes(whole, 3).reset(KEY)[1]) == 2.0
