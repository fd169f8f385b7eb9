"""Behavioural cloning against NumPy."""

import functools

import jax
import linear
import numpy as np
import pytest
from flax import linen as nn
from learner_registry import LEARNERS
from linear import ACTION_DIM, N_ACTIONS, log_prob_and_slopes, softmax
from trees import assert_close

from jaxagents.bc import BCLearner, DiscreteBCLearner


def test_an_update_is_a_step_up_the_log_likelihood():
    learner = linear.create(BCLearner, actor_network=linear.Policy(), actor_learning_rate=0.1)
    batch = linear.batch_with(BCLearner, ["weights"])
    moved, info = learner.update(batch)
    (weights,), log_std = linear.weights_of(learner, "actor"), learner.actor.params["log_std"]
    obs, actions, share = batch["observations"], batch["actions"], batch["weights"][:, None]
    log_prob, by_mean, by_log_std = log_prob_and_slopes(obs, actions, weights, np.float64(log_std))
    expected_info = {
        "actor_loss": -(batch["weights"] * log_prob).mean(),
        "log_likelihood": log_prob.mean(),
        "mse": ((actions - np.tanh(obs @ weights)) ** 2).mean(),
    }
    assert_close(info, expected_info)
    expected = {
        "log_std": log_std + 0.1 * (share * by_log_std).mean(axis=0),
        "weights": weights + 0.1 * obs.T @ (share * by_mean) / 16,
    }
    assert_close(moved.actor.params, expected)


def test_a_discrete_update_is_a_step_down_the_cross_entropy():
    network = linear.DiscretePolicy()
    learner = linear.create(DiscreteBCLearner, actor_network=network, actor_learning_rate=0.1)
    batch = linear.batch_with(DiscreteBCLearner, ["weights"])
    moved, info = learner.update(batch)
    (weights,), obs, share = (
        linear.weights_of(learner, "actor"),
        batch["observations"],
        batch["weights"],
    )
    probabilities, taken = softmax(obs @ weights), np.eye(N_ACTIONS)[batch["actions"]]
    log_prob = np.log((probabilities * taken).sum(axis=-1))
    expected_info = {
        "accuracy": ((obs @ weights).argmax(axis=-1) == batch["actions"]).mean(),
        "actor_loss": -(share * log_prob).mean(),
        "log_likelihood": log_prob.mean(),
    }
    assert_close(info, expected_info)
    expected = weights + 0.1 * obs.T @ (share[:, None] * (taken - probabilities)) / 16
    assert_close(moved.actor.params["weights"], expected)


def test_with_a_fixed_standard_deviation_the_loss_is_a_squared_error():
    row, std = LEARNERS["BC"], np.array([0.5, 2.0])
    learner, batch = row.create(fixed_std=std, features=()), row.batch()
    _, info = learner.update(batch)
    z = (batch["actions"] - np.asarray(learner.sample_actions(batch["observations"]))) / std
    constant = (np.log(std) + 0.5 * np.log(2 * np.pi)) * np.ones(ACTION_DIM)
    expected = 0.5 * (z**2).sum(axis=-1).mean() + constant.sum()
    np.testing.assert_allclose(info["actor_loss"], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["BC", "DiscreteBC", "IQL", "AWAC"])
def test_policies_drop_out_in_the_imitation_of_actions_alone(name):
    row, calls = LEARNERS[name], []
    network = linear.DiscretePolicy if row.learner.discrete_actions else linear.Policy

    class Recorded(network):
        """Records how it is called."""

        @nn.compact
        def __call__(self, observations, temperature=1.0, train=False):
            calls.append(train and self.has_rng("dropout"))
            return super().__call__(observations, temperature)

    create = functools.partial(row.create, actor_network=Recorded(), dropout_rate=0.5)
    learner = jax.eval_shape(create)
    assert set(calls) == {False}
    calls.clear()
    jax.eval_shape(type(learner)._update, learner, row.batch())
    assert calls.count(True) == 1


def test_dropout_is_drawn_anew_for_each_update():
    row = LEARNERS["BC"]
    learner, batch = row.create(dropout_rate=0.5, features=(8,)), row.batch()
    later, info = learner.replace(
        hyperparams=learner.hyperparams.replace(actor_learning_rate=0.0)
    ).update(batch)
    assert later.update(batch)[1]["actor_loss"] != info["actor_loss"]
