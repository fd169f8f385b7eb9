"""Advantage-weighted actor-critic against a reference in NumPy whose gradients are written out."""

import jax
import linear
import numpy as np
from linear import log_prob_and_slopes
from trees import assert_close

from jaxagents.awac import AWACLearner

RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2}
LINEAR = {"actor_network": linear.Policy(), "critic_network": linear.Critics(), **RATES}


def reference_update(learner, batch):
    """The update of the paper's algorithm, with the actions that the learner draws."""
    hp, n = learner.hyperparams, len(batch["rewards"])
    actor, weights, target_weights = linear.weights_of(learner, "actor", "critic", "target_critic")
    log_std = np.asarray(learner.actor.params["log_std"], np.float64)
    share = batch["weights"]
    obs, actions, next_obs = (batch[k] for k in ("observations", "actions", "next_observations"))
    _, next_key, own_key, _ = jax.random.split(learner.rng, 4)
    next_drawn = np.clip(learner.actor(next_obs).sample(next_key), -1.0, 1.0)
    drawn = np.clip(learner.actor(obs).sample(own_key), -1.0, 1.0)

    def least(weights, obs, actions):
        return (weights @ np.concatenate([obs, actions], axis=-1).T).min(axis=0)

    next_values = least(target_weights, next_obs, next_drawn)
    targets = batch["rewards"] + batch["discounts"] * batch["masks"] * next_values
    pairs = np.concatenate([obs, actions], axis=-1)
    errors = weights @ pairs.T - np.asarray(targets)
    critic = weights - RATES["critic_learning_rate"] * 2 * (share * errors) @ pairs / n

    advantage = least(critic, obs, actions) - least(critic, obs, drawn)
    imitation = (share * np.minimum(np.exp(hp.beta * advantage), hp.max_weight))[:, None]
    log_prob, by_mean, by_log_std = log_prob_and_slopes(obs, actions, actor, log_std)
    rate = RATES["actor_learning_rate"]
    moved = {
        "actor": {
            "log_std": log_std + rate * (imitation * by_log_std).mean(axis=0),
            "weights": actor + rate * obs.T @ (imitation * by_mean) / n,
        },
        "critic": {"weights": critic},
        "target_critic": {"weights": hp.tau * critic + (1 - hp.tau) * target_weights},
    }
    actor_loss = -(imitation[:, 0] * log_prob).mean()
    critic_loss = (share * errors**2).mean(axis=-1).sum()
    return moved, {
        "actor_loss": actor_loss,
        "advantage": advantage.mean(),
        "critic_loss": critic_loss,
    }


def test_an_update_is_that_of_the_paper():
    hyperparams = {"gamma": 0.5, "tau": 0.3, "beta": 3.0, "max_weight": 1.5}
    learner = linear.create(AWACLearner, **LINEAR, **hyperparams)
    batch = linear.batch_with(AWACLearner, linear.ALL)
    expected, numbers = reference_update(learner, batch)
    moved, info = learner.update(batch)
    assert_close({name: getattr(moved, name).params for name in expected}, expected)
    assert_close({name: info[name] for name in numbers}, numbers)
