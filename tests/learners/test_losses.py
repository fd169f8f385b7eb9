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
    assert losses_and_info((losses.mean(), kl)) == (losses.mean(), {"kl": kl})
    for wrong in (None, (losses, losses, losses), (losses, {"kl": "small"}), (losses, None)):
        with pytest.raises(TypeError, match="A loss hook must return an array of losses"):
            losses_and_info(wrong)


@pytest.mark.parametrize("dtype", [bool, int])
def test_losses_without_a_gradient_are_refused(dtype):
    with pytest.raises(TypeError, match=f"real numbers, got {dtype.__name__}.*no gradient"):
        losses_and_info((jnp.zeros(3, dtype), {}))


def test_what_is_reported_may_be_a_number():
    _, info = losses_and_info((jnp.arange(3.0), {"kl": 0.5}))
    assert info["kl"] == jnp.float32(0.5)


def broadcast_critic(hook):
    class Broadcast(PPO):
        def _critic_loss(self, training, obs, targets, hyperparams):
            values = self._values(training, obs)
            return hook(values, targets)

    return Broadcast


@pytest.mark.parametrize(
    ("hook", "shape"),
    [
        (lambda values, targets: (values[:, None] - targets[None]) ** 2, r"\(16, 16\)"),
        (lambda values, targets: ((values - targets) ** 2)[:, None], r"\(16, 1\)"),
        (lambda values, targets: ((values - targets) ** 2)[:8], r"\(8,\)"),
    ],
)
def test_losses_that_are_not_of_samples_are_refused(hook, shape):
    message = rf"Broadcast._critic_loss must give one loss .* shape \(16,\), .* got shape {shape}"
    with pytest.raises(ValueError, match=message):
        updated(broadcast_critic(hook))


class Silent(PPO):
    """Reports no divergence."""

    def _actor_loss(self, *inputs):
        return super()._actor_loss(*inputs)[0]


def test_a_divergence_that_nothing_reports_cannot_stop_a_fit():
    with pytest.raises(TypeError, match=r"Silent._actor_loss must report 'kl'.*approximate_kl"):
        train(Silent)


def test_what_nothing_stops_needs_no_divergence():
    class Unlimited(Silent):
        def _kl_threshold(self, hyperparams):
            return None

    updated(Unlimited)


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
    runner, _ = train(Watched)
    assert min(sizes) == 8
    trees.assert_close(runner.actor_training.params, train(Described)[0].actor_training.params)


def test_refuses_two_numbers_of_one_name():
    class Twice(PPO):
        def _critic_loss(self, *inputs):
            losses = super()._critic_loss(*inputs)
            return losses, {"entropy": losses}

    with pytest.raises(ValueError, match=r"both report \['entropy'\]: rename one of each"):
        updated(Twice)


def test_refuses_names_of_other_metrics():
    class Taken(PPO):
        def _actor_loss(self, *inputs):
            losses, info = super()._actor_loss(*inputs)
            return losses, {**info, "returns": losses}

    with pytest.raises(ValueError, match=r"reports \['returns'\], which names another metric"):
        updated(Taken)
