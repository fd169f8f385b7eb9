"""Advantage-weighted actor-critic against a reference in NumPy whose gradients are written out."""

import jax
import numpy as np
import optax
import pytest
from learner_registry import transitions
from test_iql import ACTION_DIM, OBS_DIM, Critics, Policy
from trees import assert_close

from jaxagents.awac import AWACLearner

RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2}
NETWORKS = {"actor_network": Policy(), "critic_network": Critics(), "optimizer": optax.sgd}


def linear_learner(batch, **kwargs):
    """A learner of linear networks, whose targets are not the critics."""
    fields = {**NETWORKS, **RATES, **kwargs}
    learner = AWACLearner.create(0, batch["observations"], batch["actions"], **fields)
    target_params = {"weights": jax.random.normal(jax.random.key(1), (2, OBS_DIM + ACTION_DIM))}
    return learner.replace(target_critic=learner.target_critic.replace(params=target_params))


def parameters(learner):
    params = {name: getattr(learner, name).params for name in ("actor", "critic", "target_critic")}
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


def reference_update(learner, batch):
    """The update of the paper's algorithm, with the actions that the learner draws."""
    params, hp, n = parameters(learner), learner.hyperparams, len(batch["rewards"])
    sample_weights = batch.get("weights", np.ones(n))
    obs, actions, next_obs = (batch[k] for k in ("observations", "actions", "next_observations"))
    _, next_key, own_key, _ = jax.random.split(learner.rng, 4)
    next_drawn = np.clip(learner.actor(next_obs).sample(next_key), -1.0, 1.0)
    drawn = np.clip(learner.actor(obs).sample(own_key), -1.0, 1.0)

    def least(weights, obs, actions):
        return (weights @ np.concatenate([obs, actions], axis=-1).T).min(axis=0)

    target_weights, weights = params["target_critic"]["weights"], params["critic"]["weights"]
    targets = batch["rewards"] + batch.get("discounts", hp.gamma) * batch["masks"] * least(
        target_weights, next_obs, next_drawn
    )
    pairs = np.concatenate([obs, actions], axis=-1)
    errors = weights @ pairs.T - np.asarray(targets)
    critic_loss = (sample_weights * errors**2).mean(axis=-1).sum()
    slopes = 2 * (sample_weights * errors) @ pairs / n
    critic = weights - RATES["critic_learning_rate"] * slopes

    advantage = least(critic, obs, actions) - least(critic, obs, drawn)
    share = (sample_weights * np.minimum(np.exp(hp.beta * advantage), hp.max_weight))[:, None]
    actor, log_std = params["actor"]["weights"], params["actor"]["log_std"]
    mean, std = np.tanh(obs @ actor), np.exp(log_std)
    z = (actions - mean) / std
    log_prob = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    rate = RATES["actor_learning_rate"]
    moved = {
        "actor": {
            "weights": actor + rate * obs.T @ (share * z / std * (1 - mean**2)) / n,
            "log_std": log_std + rate * (share * (z**2 - 1)).mean(axis=0),
        },
        "critic": {"weights": critic},
        "target_critic": {"weights": hp.tau * critic + (1 - hp.tau) * target_weights},
    }
    actor_loss = -(share[:, 0] * log_prob).mean()
    info = {"actor_loss": actor_loss, "critic_loss": critic_loss, "advantage": advantage.mean()}
    return moved, info


@pytest.mark.parametrize(
    ("hyperparams", "has_discounts"),
    [({}, False), ({"gamma": 0.5, "tau": 0.3, "beta": 3.0, "max_weight": 1.5}, True)],
)
def test_an_update_is_that_of_the_paper(hyperparams, has_discounts):
    batch = transitions(False, (16,))
    if has_discounts:
        batch["discounts"] = np.random.default_rng(1).uniform(size=16).astype(np.float32)
    learner = linear_learner(batch, **hyperparams)
    moved, info = learner.update(batch)
    expected, numbers = reference_update(learner, batch)
    assert_close(parameters(moved), expected)
    assert_close({name: info[name] for name in numbers}, numbers)


@pytest.mark.parametrize("largest", [0.0, 1.0])
def test_samples_are_weighed(largest):
    batch = transitions(False, (16,))
    weights = np.random.default_rng(1).uniform(high=largest, size=16)
    batch["weights"] = weights.astype(np.float32)
    learner = linear_learner(batch)
    moved, info = learner.update(batch)
    expected, numbers = reference_update(learner, batch)
    assert_close(parameters(moved), expected)
    assert_close({name: info[name] for name in numbers}, numbers)
    assert (info["actor_loss"] == 0.0) == (largest == 0.0)
