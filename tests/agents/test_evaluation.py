"""Evaluations: by greedy actions, or by actions drawn from the policy, as every agent's in the suite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from probes import BestAction
from registry import AGENTS

from jaxagents.engine.behaviour import Behaviour
from jaxagents.envs.play import play_episodes

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
N = 4096


class ThreeToOne(nn.Module):
    """Logits by which action 1 has a probability of 3/4."""

    config: object

    @nn.compact
    def __call__(self, obs):
        bias = self.param("bias", lambda key: jnp.zeros(2))
        return bias + jnp.array([0.0, jnp.log(3.0)])


def fresh(name, env, hyper=None, **fields):
    """An agent that acts as it began."""
    case = CASES[name]
    agent = case.make(env, n_steps=1, **fields)
    start = jax.jit(agent.program.start)  # without what updates would need
    agent.collect_training(start(KEY, case.hyperparams(**(hyper or {}))), {})
    return agent


class ThreeSteps(BestAction):
    n_steps = 3


@pytest.fixture(scope="module")
def drawing():
    """An agent that takes the action that is rewarded with a probability of 3/4."""
    evaluation = {"n_evals": N, "eval_rng": jax.random.key(1), "eval_deterministic": False}
    return fresh("PPO", ThreeSteps, actor_network=ThreeToOne, **evaluation)


def test_draws_actions_as_often_as_the_policy_says_for_each_step_and_episode_anew(drawing):
    returns = np.asarray(drawing.eval(0, n_evals=N, deterministic=False)["returns"])
    binomial = [1 / 64, 9 / 64, 27 / 64, 27 / 64]
    np.testing.assert_allclose(np.bincount(returns.astype(int)) / N, binomial, atol=0.03)
    np.testing.assert_array_equal(drawing.eval(KEY, n_evals=64)["returns"], 3.0)


def test_evaluations_during_training_draw_if_configured_by_the_configured_key(drawing):
    found = drawing.evaluate(drawing.training_runner)["returns"]
    same, other = (drawing.eval(seed, N, deterministic=False)["returns"] for seed in (1, 2))
    np.testing.assert_array_equal(found, same)
    assert (found != other).any()


def test_draws_epsilon_greedily():
    agent = fresh("DQN", BestAction, {"epsilon": 1.0})
    drawn = agent.eval(KEY, n_evals=N, deterministic=False)["returns"]
    np.testing.assert_allclose(drawn.mean(), 0.5, atol=0.03)


def test_a_policy_that_draws_nothing_is_given_no_key(drawing):
    seen = []

    def policy(carry, obs, *keys):
        seen.append(len(keys))
        return carry, jnp.zeros((), jnp.int32)

    for deterministic in (True, False):

        def play(deterministic=deterministic):
            return play_episodes(drawing.episodes, policy, (), KEY, 2, deterministic=deterministic)

        jax.eval_shape(play)
    assert set(seen[: len(seen) // 2]) == {0}
    assert set(seen[len(seen) // 2 :]) == {1}


def test_a_family_that_does_not_draw_is_greedy(drawing):
    agent = drawing
    obs = jnp.zeros(2)
    carry, action = Behaviour.act(agent, agent.actor_training, (), obs)
    assert carry == ()
    assert action == agent.policy(agent.actor_training, obs)
    with pytest.raises(NotImplementedError, match=r"PPO does not draw actions: override act\("):
        Behaviour.act(agent, agent.actor_training, (), obs, KEY)
