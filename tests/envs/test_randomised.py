"""Environments whose parameters are drawn for each episode."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from probes import MatchSign

from jaxagents import PPO
from jaxagents.envs import Episodes, FrameStack, RandomParams, as_environment
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
ENV, PARAMS = gymnax.make("Pendulum-v1")


def draw(key, params):
    return params.replace(m=jax.random.uniform(key, minval=0.5, maxval=2.0))


def mass(state):
    return state.envstate.past.m


def test_an_episode_is_that_of_its_parameters():
    episodes = Episodes(as_environment(RandomParams(ENV, draw, PARAMS)), 3)
    obs, state = jax.vmap(episodes.reset)(jax.random.split(KEY, 4))
    masses = mass(state)
    assert len(np.unique(masses)) == 4
    first = jax.tree.map(lambda x: x[0], state)
    _, reset_key = jax.random.split(jax.random.split(KEY, 4)[0])
    plain = as_environment(ENV, PARAMS.replace(m=masses[0]))
    expected_obs, expected = plain.reset(reset_key)
    np.testing.assert_array_equal(obs[0], expected_obs)
    action = jnp.array([0.7])
    step = episodes.play(KEY, first, action)
    plain_step = plain.step(KEY, expected, action)
    np.testing.assert_allclose(step.obs, plain_step.obs, rtol=1e-6)
    np.testing.assert_allclose(step.reward, plain_step.reward, rtol=1e-6)
    assert mass(step.envstate) == masses[0]


def test_each_reset_draws_anew_and_nothing_else_does():
    episodes = Episodes(as_environment(RandomParams(ENV, draw, PARAMS)), 3)
    _, state = episodes.reset(KEY)
    masses = [mass(state)]
    for key in jax.random.split(KEY, 6):
        state = episodes.step(key, state, jnp.zeros(1)).envstate
        masses.append(mass(state))
    assert masses[0] == masses[1] == masses[2] != masses[3] == masses[4] == masses[5] != masses[6]


def test_agents_train_in_it_and_equal_ones_are_equal():
    sizes = {"n_steps": 2, "batch_size": 4, "rollout_length": 8, "minibatch_size": 4, "n_evals": 2}

    def make():
        return PPO(FrameStack(RandomParams(ENV, draw, PARAMS), 2), None, AgentConfig(**sizes))

    first, second = (make().train(KEY, HyperParameters(), progress=False) for _ in range(2))
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
