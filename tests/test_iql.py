"""Implicit Q-learning against a reference in NumPy whose gradients are written out."""

import itertools

import jax
import jax.numpy as jnp
import linear
import numpy as np
import optax
import trees
from linear import log_prob_and_slopes
from trees import assert_close

from jaxagents import ops
from jaxagents.bc import ImitationConfig, gaussian_policy
from jaxagents.iql import IQLLearner

RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2, "value_learning_rate": 0.3}
LINEAR = {
    "actor_network": linear.Policy(),
    "critic_network": linear.Critics(),
    "value_network": linear.Value(),
    **RATES,
}


def reference_update(learner, batch):
    """The update of the paper, in the order of the authors' code."""
    hp, n = learner.hyperparams, len(batch["rewards"])
    actor, critic, target, value = linear.weights_of(
        learner, "actor", "critic", "target_critic", "value"
    )
    log_std = np.asarray(learner.actor.params["log_std"], np.float64)
    obs, actions, next_obs = (batch[k] for k in ("observations", "actions", "next_observations"))
    share, pairs = batch["weights"], np.concatenate([obs, actions], axis=-1)
    q = (target @ pairs.T).min(axis=0)

    error = q - obs @ value
    slope = share * np.where(error < 0, 1 - hp.expectile, hp.expectile)
    new_value = value + RATES["value_learning_rate"] * 2 * (slope * error) @ obs / n

    advantage = q - obs @ new_value
    weights = (share * np.minimum(np.exp(hp.beta * advantage), hp.max_weight))[:, None]
    log_prob, by_mean, by_log_std = log_prob_and_slopes(obs, actions, actor, log_std)
    rate = RATES["actor_learning_rate"]

    targets = batch["rewards"] + batch["discounts"] * batch["masks"] * (next_obs @ new_value)
    values = critic @ pairs.T
    errors = values - np.asarray(targets)
    new_critic = critic - RATES["critic_learning_rate"] * 2 * (share * errors) @ pairs / n
    moved = {
        "actor": {
            "log_std": log_std + rate * (weights * by_log_std).mean(axis=0),
            "weights": actor + rate * obs.T @ (weights * by_mean) / n,
        },
        "critic": {"weights": new_critic},
        "target_critic": {"weights": hp.tau * new_critic + (1 - hp.tau) * target},
        "value": {"weights": new_value},
    }
    info = {
        "actor_loss": -(weights[:, 0] * log_prob).mean(),
        "advantage": advantage.mean(),
        "critic_loss": (share * errors**2).mean(axis=-1).sum(),
        "q": values.mean(),
        "v": (obs @ value).mean(),
        "value_loss": (slope * error**2).mean(),
    }
    return moved, {**info, "td_errors": np.abs(errors).mean(axis=0)}


def test_an_update_is_that_of_the_paper():
    """Also where weights of advantages are limited, and others are not."""
    hyperparams = {"gamma": 0.5, "tau": 0.3, "expectile": 0.2, "beta": 2.0, "max_weight": 1.5}
    learner = linear.create(IQLLearner, **LINEAR, **hyperparams)
    batch = linear.batch_with(IQLLearner, linear.ALL)
    expected, numbers = reference_update(learner, batch)
    moved, info = learner.update(batch)
    assert_close({name: getattr(moved, name).params for name in expected}, expected)
    assert info.keys() == numbers.keys()
    assert_close(info, {name: numbers[name] for name in info})


def test_the_default_policy_is_that_of_the_authors():
    obs = jnp.asarray(linear.batch_with(IQLLearner)["observations"])
    network = gaussian_policy(ImitationConfig(features=(4,)), linear.ACTION_DIM)
    params = trees.variables(network, obs)["params"] | {"log_std": np.float32([0.0, -9.0])}
    policy = jax.jit(lambda params: network.apply({"params": params}, 1e3 * obs))(params)
    assert isinstance(policy, ops.Gaussian)
    assert (np.abs(policy.mean) <= 1.0).all()
    np.testing.assert_array_equal(policy.log_std, np.tile([0.0, -5.0], (16, 1)))


def test_the_learning_rate_of_the_policy_alone_can_decay():
    def stopping_sgd(learning_rate):
        return optax.sgd(optax.piecewise_constant_schedule(learning_rate, {1: 0.0}))

    batch = linear.batch_with(IQLLearner)
    learners = [linear.create(IQLLearner, **LINEAR, actor_optimizer=stopping_sgd)]
    for _ in range(2):
        learners.append(learners[-1].update(batch)[0])
    for name in ("actor", "critic", "value"):
        weights = [getattr(learner, name).params["weights"] for learner in learners]
        first, second = [np.abs(b - a).max() for a, b in itertools.pairwise(weights)]
        assert first > 0.0
        assert (second == 0.0) == (name == "actor")
