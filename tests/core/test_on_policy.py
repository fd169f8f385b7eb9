"""What on-policy agents compute of a rollout before they learn from it."""

import math

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import struct

from jaxagents import PPO, ops
from jaxagents.core import fitting, on_policy
from jaxagents.ppo import AgentConfig, HyperParameters

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)


CONFIG = AgentConfig(n_steps=1, rollout_length=5, batch_size=6, minibatch_size=2)


@pytest.mark.parametrize(
    ("largest", "backend", "expected"),
    [(30, "cpu", 2), (17, "cpu", 2), (7, "cpu", 1), (7, "gpu", 2)],
)
def test_values_come_in_parts_of_a_minibatch_or_of_what_fits_into_the_caches_of_a_cpu(
    monkeypatch, largest, backend, expected
):
    agent = PPO(*gymnax.make("CartPole-v1"), CONFIG, eval_during_training=False)
    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", largest)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert agent._steps_at_once() == expected


@pytest.mark.parametrize("largest", [30, 7])
def test_values_are_the_critics_in_parts_that_do_not_divide_the_rollout(monkeypatch, largest):
    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", largest)
    pairs = []

    class Watched(PPO):
        def _actor_loss_input(self, runner, traj):
            values = jax.vmap(jax.vmap(runner.critic_training))
            for obs, found in ((traj.obs, traj.value), (traj.next_obs, traj.next_value)):
                jax.debug.callback(
                    lambda *pair: pairs.append(pair), values(obs).reshape(found.shape), found
                )
            return super()._actor_loss_input(runner, traj)

    agent = Watched(*gymnax.make("CartPole-v1"), CONFIG, eval_during_training=False)
    agent.train(KEY, HyperParameters(), progress=False)
    jax.effects_barrier()
    assert len(pairs) == 2
    for expected, found in pairs:
        assert found.shape == (5, 6)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def rollout_of(agent):
    runner = agent.start(KEY, HyperParameters())
    return jax.jit(agent._rollout)(runner, KEY)[1]


@pytest.mark.parametrize(("name", "shape"), [("CartPole-v1", (2,)), ("Pendulum-v1", (1,))])
def test_noise_drawn_ahead_makes_the_actions_of_the_keys(monkeypatch, name, shape):
    def noise_and_rollout():
        agent = PPO(*gymnax.make(name), CONFIG, eval_during_training=False)
        obs, _ = agent.episodes.reset(KEY)
        runner = jax.eval_shape(agent.start, KEY, HyperParameters())
        noise_of, _ = agent._sampling(runner.actor_training, obs)
        return noise_of(KEY), rollout_of(agent)

    noise, ahead = noise_and_rollout()
    monkeypatch.setattr(on_policy, "_MOST_NOISE", math.prod(shape) - 1)
    key, by_keys = noise_and_rollout()
    assert noise.shape == shape
    assert key is KEY
    assert len(np.unique(ahead.action)) > 1
    trees.assert_close(ahead, by_keys)


class FirstOfTwo(struct.PyTreeNode):
    """A policy that is no `ops.Distribution`."""

    logits: jax.Array

    def sample(self, key):
        return jnp.zeros((), int)

    def log_prob(self, action):
        return jnp.zeros(())

    def entropy(self):
        return jnp.zeros(())

    def mode(self):
        return jnp.zeros((), int)


class FirstOfCategorical(ops.Categorical):
    """Draws in its own way."""

    def sample(self, key):
        return jnp.zeros((), int)


class FirstAction(PPO):
    """Draws actions by a hook."""

    def _sample_actions(self, rng, training, obs):
        return jnp.zeros((), int)


class ByDistribution(PPO):
    """Has a policy of one's own."""

    kind = FirstOfTwo

    def _distribution(self, training, params, obs):
        return self.kind(training.apply_fn(params, obs))


class ByCategorical(ByDistribution):
    """Has a policy that inherits."""

    kind = FirstOfCategorical


@pytest.mark.parametrize("agent_type", [FirstAction, ByDistribution, ByCategorical])
def test_policies_draw_in_their_own_way(agent_type):
    agent = agent_type(*gymnax.make("CartPole-v1"), CONFIG, eval_during_training=False)
    assert (rollout_of(agent).action == 0).all()
