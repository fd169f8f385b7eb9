"""The forms in which hooks give losses."""

import functools

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents import PPO, ops
from jaxagents.learners import fit as fitting
from jaxagents.learners.train_state import losses_and_info
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
CONFIG = AgentConfig(n_steps=1, batch_size=4, rollout_length=8, minibatch_size=2, actor_epochs=4)


def test_losses_come_alone_with_a_dict_or_with_a_divergence():
    losses, kl = jnp.arange(3.0), jnp.float32(0.1)
    assert losses_and_info(losses) == (losses, {})
    assert losses_and_info((losses, {"kl": kl})) == (losses, {"kl": kl})
    assert losses_and_info((losses, {"kl": 0.5}))[1]["kl"] == jnp.float32(0.5)
    assert losses_and_info((losses.mean(), kl)) == (losses.mean(), {"kl": kl})
    for wrong in (None, (losses, losses, losses), (losses, {"kl": "small"}), (losses, None)):
        with pytest.raises(TypeError, match="A loss hook must return an array of losses"):
            losses_and_info(wrong)


@pytest.mark.parametrize("dtype", [bool, int])
def test_losses_without_a_gradient_are_refused(dtype):
    with pytest.raises(TypeError, match=f"real numbers, got {dtype.__name__}.*no gradient"):
        losses_and_info((jnp.zeros(3, dtype), {}))


class OfTheWhole(PPO):
    """PPO by losses of whole minibatches."""

    def _actor_loss(self, training, obs, actions, log_prob_old, advantage, hyperparams):
        log_prob, entropy = self._log_probs_and_entropies(training, obs, actions)
        advantage = ops.standardise(advantage)
        objective = ops.clipped_surrogate(log_prob, log_prob_old, advantage, hyperparams.eps_clip)
        loss = -objective.mean() - hyperparams.ent_coeff * entropy.mean()
        return loss, ops.approximate_kl(log_prob, log_prob_old).mean()

    def _critic_loss(self, *inputs):
        return super()._critic_loss(*inputs).mean()


class Described(PPO):
    """Reports more, and needs to say nothing of parts."""

    def _actor_loss(self, *inputs):
        losses, info = super()._actor_loss(*inputs)
        return losses, {**info, "largest_advantage": inputs[-2].max()}


@functools.cache
def make(agent_type):
    return agent_type(*gymnax.make("CartPole-v1"), CONFIG, eval_during_training=False)


@functools.cache
def train(agent_type, hyperparams=HyperParameters(ent_coeff=0.1)):  # noqa: B008
    return make(agent_type).train(KEY, hyperparams, progress=False)


def updated(agent_type):
    """The shapes of a runner after an update, for which nothing is compiled."""
    program = make(agent_type).program
    return jax.eval_shape(lambda: program.advance(program.start(KEY, HyperParameters()), 1))


def test_a_loss_of_the_whole_minibatch_does_what_one_of_each_sample_does():
    (whole, metrics), (of_each, _) = train(OfTheWhole), train(Described)
    trees.assert_close(whole.actor_training.params, of_each.actor_training.params)
    trees.assert_close(whole.critic_training.params, of_each.critic_training.params)
    assert metrics["kl"][1] > 0.0
    assert "entropy" not in metrics


def test_a_loss_of_the_whole_minibatch_stops_early_too():
    stopped, _ = make(OfTheWhole).train(KEY, HyperParameters(kl_threshold=0.0), progress=False)
    assert 0 < stopped.actor_training.step < 4 * 2


def test_what_a_loss_reports_is_in_the_metrics():
    _, metrics = train(Described)
    names = "actor_loss actor_gradient_norm critic_loss critic_gradient_norm kl entropy"
    expected = {*names.split(), "clip_fraction", "explained_variance", "largest_advantage"}
    assert set(metrics) == expected | {"update_step"}
    assert all(np.isnan(metrics[name][0]) and np.isfinite(metrics[name][1]) for name in expected)
    assert 0.0 < metrics["entropy"][1] <= np.log(2.0)
    assert 0.0 <= metrics["clip_fraction"][1] < 1.0
    assert metrics["largest_advantage"][1] > 1.0  # it is given standardised advantages


def test_an_override_comes_in_parts_as_the_losses_of_the_library_do(monkeypatch):
    sizes = []

    class Watched(PPO):
        def _actor_loss(self, *inputs):
            sizes.append(len(inputs[-2]))
            return super()._actor_loss(*inputs)

    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", 8)
    updated(Watched)
    assert min(sizes) == 8
