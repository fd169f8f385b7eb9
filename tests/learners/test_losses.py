"""The forms of losses that hooks return, and PPO's own metrics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import MatchSign
from registry import AGENTS

from jaxagents import PPO
from jaxagents.learners import fit as fitting
from jaxagents.learners.train_state import losses_and_info

KEY = jax.random.key(0)
(CASE,) = (case for case in AGENTS if case.name == "PPO")


def test_losses_come_alone_with_a_dict_or_with_a_divergence():
    losses, kl = jnp.arange(3.0), jnp.float32(0.1)
    assert losses_and_info(losses) == (losses, {})
    assert losses_and_info((losses, {"kl": kl})) == (losses, {"kl": kl})
    assert losses_and_info((losses, {"kl": 0.5}))[1]["kl"] == jnp.float32(0.5)
    assert losses_and_info((losses.mean(), kl)) == (losses.mean(), {"kl": kl})
    for wrong in (None, (losses, losses, losses), (losses, {"kl": "small"}), (losses, None)):
        with pytest.raises(TypeError, match="A loss hook must return an array of losses"):
            losses_and_info(wrong)
    for dtype in (bool, int):
        with pytest.raises(
            TypeError, match=f"floating-point losses, got {dtype.__name__}.*no gradient"
        ):
            losses_and_info((jnp.zeros(3, dtype), {}))


class Described(PPO):
    """Reports more, and needs to say nothing of parts."""

    def _actor_loss(self, *inputs):
        losses, info = super()._actor_loss(*inputs)
        return losses, {**info, "squared_advantage": inputs[-2] ** 2}


def make(agent_type):
    config = CASE.config(actor_epochs=7)
    return agent_type(MatchSign(), None, config, eval_during_training=False)


def test_what_a_loss_reports_is_in_the_metrics_and_epochs_stop_once_the_policy_moved_too_far():
    agent = make(Described)
    n_minibatches, critic_epochs = agent.config.n_minibatches, agent.config.critic_epochs

    def epochs(kl_threshold):
        hyperparams = CASE.hyperparams(2e-3, kl_threshold=kl_threshold, ent_coeff=0.1)
        runner = agent.advance(agent.start(KEY, hyperparams), 1)
        assert runner.critic_training.step == n_minibatches * critic_epochs
        return int(runner.actor_training.step) / n_minibatches, runner.info

    n_epochs, info = epochs(float("inf"))
    assert n_epochs == 7
    names = "actor_loss actor_gradient_norm critic_loss critic_gradient_norm kl entropy"
    assert set(info) == {
        *names.split(),
        "clip_fraction",
        "explained_variance",
        "squared_advantage",
    }
    assert np.isfinite(list(info.values())).all()
    assert info["kl"] > 0.0
    assert 0.0 < info["entropy"] <= np.log(2.0)
    assert 0.0 <= info["clip_fraction"] < 1.0
    np.testing.assert_allclose(info["squared_advantage"], 1.0, rtol=1e-3)  # standardised
    assert epochs(0.0)[0] == 1
    assert 1 < epochs(0.002)[0] < 7


def test_an_override_comes_in_parts_as_the_losses_of_the_library_do(monkeypatch):
    sizes = []

    class Watched(PPO):
        def _actor_loss(self, *inputs):
            sizes.append(len(inputs[-2]))
            return super()._actor_loss(*inputs)

    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", 8)
    program = make(Watched).program
    jax.eval_shape(lambda: program.advance(program.start(KEY, CASE.hyperparams()), 1))
    assert min(sizes) == 8
