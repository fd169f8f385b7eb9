"""Evaluations: by greedy actions, or by actions drawn from the policy, as every agent's in the suite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import BestAction, MatchSign
from registry import AGENTS

from jaxagents.engine.behaviour import Behaviour
from jaxagents.envs.play import play_episodes

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


class ThreeToOne(nn.Module):
    """Logits by which action 1 has a probability of 3/4."""

    config: object

    @nn.compact
    def __call__(self, obs):
        bias = self.param("bias", lambda key: jnp.zeros(2))
        return bias + jnp.array([0.0, jnp.log(3.0)])


def fresh(name, env=BestAction, hyper=None, **fields):
    """An agent that acts as it began."""
    case = CASES[name]
    agent = case.make(env, False, n_steps=1, **fields)
    start = jax.jit(agent.program.start)  # without what updates would need
    agent.collect_training(start(KEY, case.hyperparams(**(hyper or {}))), {})
    return agent


class ThreeSteps(BestAction):
    n_steps = 3


@pytest.fixture(scope="module")
def drawing():
    """An agent that takes the action that is rewarded with a probability of 3/4."""
    return fresh("PPO", ThreeSteps, actor_network=ThreeToOne)


def test_draws_actions_as_often_as_the_policy_says_for_each_step_and_episode_anew(drawing):
    returns = np.asarray(drawing.eval(KEY, n_evals=4096, deterministic=False)["returns"])
    binomial = [1 / 64, 9 / 64, 27 / 64, 27 / 64]
    np.testing.assert_allclose(np.bincount(returns.astype(int)) / 4096, binomial, atol=0.03)
    np.testing.assert_allclose(returns.mean() / 3.0, 0.75, atol=0.03)
    np.testing.assert_array_equal(drawing.eval(KEY, n_evals=64)["returns"], 3.0)


def test_draws_the_same_for_the_same_key(drawing):
    first, second, other = (
        drawing.eval(jax.random.key(seed), n_evals=4096, deterministic=False) for seed in (1, 1, 2)
    )
    trees.assert_equal(first, second)
    assert not trees.equal(first["returns"], other["returns"])


def test_draws_epsilon_greedily():
    agent = fresh("DQN", hyper={"epsilon": 1.0})
    drawn = agent.eval(KEY, n_evals=4096, deterministic=False)["returns"]
    np.testing.assert_allclose(drawn.mean(), 0.5, atol=0.03)


def test_evaluations_during_training_draw_if_configured():
    case = CASES["PPO"]
    agent = case.make(MatchSign, n_steps=2, n_evals=64, eval_rng=KEY, eval_deterministic=False)
    _, metrics = agent.train(jax.random.key(1), case.hyperparams(), progress=False)
    for deterministic in (True, False):
        returns = agent.eval(KEY, n_evals=64, deterministic=deterministic)["returns"]
        assert np.array_equal(returns, metrics["returns"][-1]) != deterministic


def test_a_policy_that_draws_nothing_is_given_no_key():
    agent = CASES["PPO"].make(MatchSign)
    seen = []

    def policy(carry, obs, *keys):
        seen.append(len(keys))
        return carry, jnp.zeros((), jnp.int32)

    for deterministic in (True, False):
        play_episodes(agent.episodes, policy, (), KEY, 2, deterministic=deterministic)
    assert seen == [0, 1]


def test_a_family_that_does_not_draw_is_greedy(drawing):
    agent = drawing
    obs = jnp.zeros(2)
    carry, action = Behaviour.act(agent, agent.actor_training, (), obs)
    assert carry == ()
    assert action == agent.policy(agent.actor_training, obs)
    with pytest.raises(NotImplementedError, match=r"PPO does not draw actions: override act\("):
        Behaviour.act(agent, agent.actor_training, (), obs, KEY)
