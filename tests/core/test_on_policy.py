"""What on-policy agents compute of a rollout before they learn from it."""

import gymnax
import jax
import numpy as np
import pytest

from jaxagents import PPO
from jaxagents.core import fitting
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
