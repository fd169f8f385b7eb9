"""Behavioural cloning against NumPy, and the policies that are most likely."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from learner_registry import transitions
from trees import assert_close, assert_equal

from jaxagents import ops
from jaxagents.bc import BCLearner, DiscreteBCLearner

OBS_DIM, ACTION_DIM, N_ACTIONS = 5, 2, 3
NORMAL = nn.initializers.normal(1.0)


class Policy(nn.Module):
    """A Gaussian whose mean is the tanh of a linear function."""

    @nn.compact
    def __call__(self, observations, temperature=1.0):
        weights = self.param("weights", NORMAL, (OBS_DIM, ACTION_DIM))
        log_std = self.param("log_std", NORMAL, (ACTION_DIM,))
        return ops.Gaussian(jnp.tanh(observations @ weights), log_std + jnp.log(temperature))


class DiscretePolicy(nn.Module):
    """Linear logits."""

    @nn.compact
    def __call__(self, observations, temperature=1.0):
        weights = self.param("weights", NORMAL, (OBS_DIM, N_ACTIONS))
        return ops.Categorical(observations @ weights).tempered(temperature)


class Flat(nn.Module):
    """The smallest encoder of images."""

    @nn.compact
    def __call__(self, images):
        return nn.Dense(8)(images.astype(jnp.float32).reshape(*images.shape[:-3], -1) / 255.0)


def create(learner, batch, **kwargs):
    sizes = {"n_actions": N_ACTIONS} if learner.discrete_actions else {}
    fields = {"features": (8,), "actor_learning_rate": 0.1, **sizes, **kwargs}
    return learner.create(0, batch["observations"], batch["actions"], **fields)


def test_an_update_is_a_step_up_the_log_likelihood():
    batch = transitions(False, (16,))
    learner = create(BCLearner, batch, actor_network=Policy(), optimizer=optax.sgd)
    moved, info = learner.update(batch)

    weights, log_std = (
        np.asarray(learner.actor.params[name], np.float64) for name in ("weights", "log_std")
    )
    obs, actions = batch["observations"], batch["actions"]
    mean, std = np.tanh(obs @ weights), np.exp(log_std)
    z = (actions - mean) / std
    likelihood = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(axis=-1).mean()
    assert_close(
        info,
        {
            "actor_loss": -likelihood,
            "log_likelihood": likelihood,
            "mse": ((actions - mean) ** 2).mean(),
        },
    )
    expected = {
        "log_std": log_std + 0.1 * (z**2 - 1).mean(axis=0),
        "weights": weights + 0.1 * obs.T @ (z / std * (1 - mean**2)) / 16,
    }
    assert_close(moved.actor.params, expected)


def test_a_discrete_update_is_a_step_down_the_cross_entropy():
    batch = transitions(True, (16,))
    learner = create(DiscreteBCLearner, batch, actor_network=DiscretePolicy(), optimizer=optax.sgd)
    moved, info = learner.update(batch)

    weights = np.asarray(learner.actor.params["weights"], np.float64)
    logits = batch["observations"] @ weights
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    taken = np.eye(N_ACTIONS)[batch["actions"]]
    likelihood = np.log((probabilities * taken).sum(axis=-1)).mean()
    accuracy = (logits.argmax(axis=-1) == batch["actions"]).mean()
    assert_close(
        info, {"accuracy": accuracy, "actor_loss": -likelihood, "log_likelihood": likelihood}
    )
    expected = weights + 0.1 * batch["observations"].T @ (taken - probabilities) / 16
    assert_close(moved.actor.params["weights"], expected)


@pytest.mark.parametrize("learner", [BCLearner, DiscreteBCLearner])
def test_samples_are_weighed(learner):
    batch = transitions(learner.discrete_actions, (16,))
    learner = create(learner, batch, optimizer=optax.sgd)
    weights = np.repeat(np.float32([2.0, 0.0]), 8)
    moved, info = learner.update({**batch, "weights": weights})
    of_half, half_info = learner.update(jax.tree.map(lambda x: x[:8], batch))
    assert_close(moved.actor.params, of_half.actor.params)
    assert_close(info["actor_loss"], half_info["actor_loss"])
    moved, info = learner.update({**batch, "weights": 0 * weights})
    assert info["actor_loss"] == 0.0
    assert_equal(moved.actor.params, learner.actor.params)


@pytest.mark.parametrize("std", [0.5, (0.5, 2.0)], ids=str)
def test_with_a_fixed_standard_deviation_the_loss_is_a_squared_error(std):
    batch = transitions(False, (16,))
    learner = create(BCLearner, batch, fixed_std=np.asarray(std))
    _, info = learner.update(batch)
    errors = batch["actions"] - np.asarray(learner.sample_actions(batch["observations"]))
    z = errors / np.float64(std)
    constant = (np.log(np.float64(std)) + 0.5 * np.log(2 * np.pi)) * np.ones(ACTION_DIM)
    expected = 0.5 * (z**2).sum(axis=-1).mean() + constant.sum()
    np.testing.assert_allclose(info["actor_loss"], expected, rtol=1e-5)


def repeated(n_updates, observation, actions):
    """Batches of all of the actions at one observation."""
    batch = {"observations": np.tile(observation, (len(actions), 1)), "actions": actions}
    return jax.tree.map(lambda x: np.broadcast_to(x, (n_updates, *x.shape)), batch)


def test_learns_the_mean_and_the_spread_of_the_actions():
    actions = np.random.default_rng(0).normal([0.3, -0.6], [0.2, 0.05], size=(100, 2))
    batches = repeated(400, np.ones(1, np.float32), actions.astype(np.float32))
    learner = BCLearner.create(0, np.ones(1), np.zeros(2), features=(8,), actor_learning_rate=3e-2)
    learner, _ = learner.update_many(batches)
    np.testing.assert_allclose(learner.sample_actions(np.ones(1)), actions.mean(axis=0), atol=0.01)
    drawn = learner.sample_actions(np.ones((4000, 1)), seed=jax.random.key(0))
    np.testing.assert_allclose(drawn.std(axis=0), actions.std(axis=0), rtol=0.1)


def test_learns_how_frequent_discrete_actions_are():
    actions = np.repeat([0, 1, 2], [70, 30, 0])
    learner = DiscreteBCLearner.create(
        0, np.ones(1), 0, n_actions=3, features=(8,), actor_learning_rate=3e-2
    )
    learner, info = learner.update_many(repeated(300, np.ones(1, np.float32), actions))
    assert learner.sample_actions(np.ones(1)) == 0
    np.testing.assert_allclose(info["accuracy"][-1], 0.7, rtol=1e-6)
    drawn = learner.sample_actions(np.ones((4000, 1)), seed=jax.random.key(0))
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4000, [0.7, 0.3, 0.0], atol=0.03)


def test_learns_to_tell_images_apart():
    images = np.random.default_rng(0).integers(256, size=(3, 4, 4, 3)).astype(np.uint8)
    batch = {"observations": np.tile(images, (5, 1, 1, 1)), "actions": np.tile(np.arange(3), 5)}
    learner = create(DiscreteBCLearner, batch, encoder=Flat(), actor_learning_rate=1e-2)
    learner, info = learner.update_many(
        jax.tree.map(lambda x: np.broadcast_to(x, (100, *x.shape)), batch)
    )
    assert info["accuracy"][-1] == 1.0
    np.testing.assert_array_equal(learner.sample_actions(images), [0, 1, 2])


def test_weights_can_decay():
    batch = transitions(True, (16,))
    fields = {"actor_network": DiscretePolicy(), "actor_learning_rate": 0.1}
    plain, _ = create(DiscreteBCLearner, batch, **fields).update(batch)
    adamw = functools.partial(optax.adamw, weight_decay=0.5)
    learner = create(DiscreteBCLearner, batch, optimizer=adamw, **fields)
    decayed, _ = learner.update(batch)
    difference = decayed.actor.params["weights"] - plain.actor.params["weights"]
    np.testing.assert_allclose(
        difference, -0.1 * 0.5 * learner.actor.params["weights"], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("learner", [BCLearner, DiscreteBCLearner])
def test_dropout_is_active_in_updates_alone(learner):
    batch = transitions(learner.discrete_actions, (16,))
    learner = create(learner, batch, dropout_rate=0.5)
    losses = [
        learner.replace(rng=jax.random.key(i)).update(batch)[1]["actor_loss"] for i in range(2)
    ]
    assert losses[0] != losses[1]
    undropped = learner.replace(config=learner.config.replace(dropout_rate=0.0))
    obs = batch["observations"]
    np.testing.assert_array_equal(learner.sample_actions(obs), undropped.sample_actions(obs))


@pytest.mark.parametrize("learner", [BCLearner, DiscreteBCLearner])
def test_dropout_rates_out_of_range_are_refused(learner):
    batch = transitions(learner.discrete_actions, (16,))
    with pytest.raises(ValueError, match=r"dropout_rate must lie in \[0, 1\), got 1.0"):
        create(learner, batch, dropout_rate=1.0)


@pytest.mark.parametrize("learner", [BCLearner, DiscreteBCLearner])
def test_a_critic_is_refused_where_there_is_none(learner):
    with pytest.raises(TypeError, match="no field 'critic_network'"):
        create(learner, transitions(learner.discrete_actions, (16,)), critic_network=Policy())


def test_the_number_of_discrete_actions_is_required_and_positive():
    with pytest.raises(TypeError, match=r"number of discrete actions is missing.*n_actions="):
        DiscreteBCLearner.create(0, np.zeros(OBS_DIM), 0)
    with pytest.raises(ValueError, match="n_actions must be a positive integer"):
        DiscreteBCLearner.create(0, np.zeros(OBS_DIM), 0, n_actions=0)
