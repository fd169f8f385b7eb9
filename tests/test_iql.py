"""Implicit Q-learning against a reference in NumPy whose gradients are written out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from learner_registry import transitions
from trees import assert_close, assert_equal

from jaxagents import ops
from jaxagents.iql import IQLLearner

OBS_DIM, ACTION_DIM = 5, 2
NORMAL = nn.initializers.normal(1.0)


class Policy(nn.Module):
    """A Gaussian whose mean is the tanh of a linear function."""

    @nn.compact
    def __call__(self, observations, temperature=1.0):
        weights = self.param("weights", NORMAL, (OBS_DIM, ACTION_DIM))
        log_std = self.param("log_std", NORMAL, (ACTION_DIM,))
        return ops.Gaussian(jnp.tanh(observations @ weights), log_std + jnp.log(temperature))


class Critics(nn.Module):
    """Two linear functions of observation and action."""

    @nn.compact
    def __call__(self, observations, actions):
        weights = self.param("weights", NORMAL, (2, OBS_DIM + ACTION_DIM))
        return weights @ jnp.concatenate([observations, actions], axis=-1).T


class Value(nn.Module):
    """A linear function of the observation."""

    @nn.compact
    def __call__(self, observations):
        return observations @ self.param("weights", NORMAL, (OBS_DIM,))


LINEAR = {
    "actor_network": Policy(),
    "critic_network": Critics(),
    "value_network": Value(),
    "optimizer": optax.sgd,
}
RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2, "value_learning_rate": 0.3}


def linear_learner(batch, **kwargs):
    """A learner of linear networks, whose targets are not the critics."""
    fields = {**LINEAR, **RATES, **kwargs}
    learner = IQLLearner.create(0, batch["observations"], batch["actions"], **fields)
    target_params = {"weights": jax.random.normal(jax.random.key(1), (2, OBS_DIM + ACTION_DIM))}
    return learner.replace(target_critic=learner.target_critic.replace(params=target_params))


def default_learner(batch, **kwargs):
    return IQLLearner.create(0, batch["observations"], batch["actions"], features=(8,), **kwargs)


def parameters(learner):
    names = ("actor", "critic", "target_critic", "value")
    params = {name: getattr(learner, name).params for name in names}
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


def reference_update(params, batch, hp):
    """The update of the paper, in the order of the authors' code."""
    obs, actions, n = batch["observations"], batch["actions"], len(batch["rewards"])
    pairs = np.concatenate([obs, actions], axis=-1)
    q = (params["target_critic"]["weights"] @ pairs.T).min(axis=0)
    share = batch.get("weights", np.ones(n))

    error = q - obs @ params["value"]["weights"]
    slope = share * np.where(error < 0, 1 - hp.expectile, hp.expectile)
    value_loss = (slope * error**2).mean()
    value = (
        params["value"]["weights"] + RATES["value_learning_rate"] * 2 * (slope * error) @ obs / n
    )

    advantage = q - obs @ value
    weights = (share * np.minimum(np.exp(hp.beta * advantage), hp.max_weight))[:, None]
    actor, log_std = params["actor"]["weights"], params["actor"]["log_std"]
    mean, std = np.tanh(obs @ actor), np.exp(log_std)
    z = (actions - mean) / std
    log_prob = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    actor_loss = -(weights[:, 0] * log_prob).mean()
    rate = RATES["actor_learning_rate"]
    new_actor = actor + rate * obs.T @ (weights * z / std * (1 - mean**2)) / n
    new_log_std = log_std + rate * (weights * (z**2 - 1)).mean(axis=0)

    discounts = batch.get("discounts", hp.gamma)
    targets = batch["rewards"] + discounts * batch["masks"] * (batch["next_observations"] @ value)
    errors = params["critic"]["weights"] @ pairs.T - np.asarray(targets)
    critic_loss = (share * errors**2).mean(axis=-1).sum()
    slopes = 2 * (share * errors) @ pairs / n
    critic = params["critic"]["weights"] - RATES["critic_learning_rate"] * slopes
    target = hp.tau * critic + (1 - hp.tau) * params["target_critic"]["weights"]

    moved = {
        "actor": {"weights": new_actor, "log_std": new_log_std},
        "critic": {"weights": critic},
        "target_critic": {"weights": target},
        "value": {"weights": value},
    }
    losses = {"actor_loss": actor_loss, "critic_loss": critic_loss, "value_loss": value_loss}
    return moved, losses


@pytest.mark.parametrize(
    "hyperparams",
    [
        {},
        {"gamma": 0.5, "tau": 0.3, "expectile": 0.9, "beta": 0.5},
        {"expectile": 0.2, "beta": 10.0, "max_weight": 1.5},
    ],
    ids=str,
)
def test_an_update_is_that_of_the_paper(hyperparams):
    batch = transitions(False, (16,))
    learner = linear_learner(batch, **hyperparams)
    moved, info = learner.update(batch)
    expected, losses = reference_update(parameters(learner), batch, learner.hyperparams)
    assert_close(parameters(moved), expected)
    assert_close({name: info[name] for name in losses}, losses)


@pytest.mark.parametrize("largest", [0.0, 1.0])
def test_samples_are_weighed(largest):
    batch = transitions(False, (16,))
    weights = np.random.default_rng(1).uniform(high=largest, size=16)
    batch["weights"] = weights.astype(np.float32)
    learner = linear_learner(batch)
    moved, info = learner.update(batch)
    expected, losses = reference_update(parameters(learner), batch, learner.hyperparams)
    assert_close(parameters(moved), expected)
    assert_close({name: info[name] for name in losses}, losses)
    assert info["td_errors"].shape == (16,)
    assert (info["actor_loss"] == 0.0) == (largest == 0.0)


def test_further_scalars():
    batch = transitions(False, (16,))
    learner = linear_learner(batch)
    moved, info = learner.update(batch)
    obs, actions = batch["observations"], batch["actions"]
    advantage = learner.target_critic(obs, actions).min(axis=0) - moved.value(obs)
    expected = {
        "v": learner.value(obs).mean(),
        "q": learner.critic(obs, actions).mean(),
        "advantage": advantage.mean(),
    }
    assert_close({name: info[name] for name in expected}, expected)


def test_n_step_transitions_bring_their_own_discounts():
    batch = transitions(False, (16,))
    batch["discounts"] = np.random.default_rng(1).uniform(size=16).astype(np.float32)
    learner = linear_learner(batch)
    moved, _ = learner.update(batch)
    expected, _ = reference_update(parameters(learner), batch, learner.hyperparams)
    assert_close(parameters(moved), expected)


def test_nothing_follows_a_termination():
    batch = {**transitions(False, (16,)), "masks": np.zeros(16, np.float32)}
    other = {**batch, "next_observations": batch["next_observations"] + 1.0}
    learner = linear_learner(batch)
    assert_equal(learner.update(batch)[0], learner.update(other)[0])


def test_rewards_reach_the_policy_through_the_targets_alone():
    batch = transitions(False, (16,))
    moved, rewarded = (
        linear_learner(batch).update({**batch, "rewards": batch["rewards"] + shift})[0]
        for shift in (0.0, 1.0)
    )
    assert_equal((moved.actor, moved.value), (rewarded.actor, rewarded.value))
    assert not np.allclose(moved.critic.params["weights"], rewarded.critic.params["weights"])


def test_the_smallest_of_several_default_critics_is_taken():
    batch = jax.tree.map(jnp.asarray, transitions(False, (16,)))
    learner = default_learner(batch, n_critics=3)

    @jax.jit
    def values_of(learner, obs, actions):
        return learner.critic(obs, actions), learner.value(obs)

    q, v = map(np.asarray, values_of(learner, batch["observations"], batch["actions"]))
    assert q.shape == (3, 16)
    _, info = learner.update(batch)
    expected = ops.expectile_loss(jnp.zeros(16), jnp.asarray(q.min(axis=0) - v), 0.7).mean()
    np.testing.assert_allclose(info["value_loss"], expected, rtol=1e-5)


def test_the_default_policy_is_that_of_the_authors():
    obs = jnp.asarray(transitions(False, (16,))["observations"])
    learner = default_learner(transitions(False, (16,)))
    policy = learner.actor(1e3 * obs)
    assert isinstance(policy, ops.Gaussian)
    assert (jnp.abs(policy.mean) <= 1.0).all()
    np.testing.assert_array_equal(policy.log_std, np.zeros((16, ACTION_DIM)))
    narrow = {**learner.actor.params, "log_std": jnp.full(ACTION_DIM, -9.0)}
    log_std = learner.actor(obs, params=narrow).log_std
    np.testing.assert_array_equal(log_std, np.full((16, ACTION_DIM), -5.0))


def test_dropout_is_active_in_updates_alone():
    batch = transitions(False, (16,))
    learner = default_learner(batch, dropout_rate=0.5)
    updated = [learner.replace(rng=jax.random.key(i)).update(batch)[1] for i in range(2)]
    assert updated[0]["actor_loss"] != updated[1]["actor_loss"]
    assert updated[0]["critic_loss"] == updated[1]["critic_loss"]
    undropped = learner.replace(config=learner.config.replace(dropout_rate=0.0))
    obs = batch["observations"]
    np.testing.assert_array_equal(learner.sample_actions(obs), undropped.sample_actions(obs))


def cosine_adam(learning_rate):
    return optax.adam(optax.cosine_decay_schedule(learning_rate, 2))


@pytest.mark.parametrize(
    ("optimizers", "decaying"),
    [
        ({"optimizer": cosine_adam}, ("actor", "critic", "value")),
        ({"optimizer": optax.adam, "actor_optimizer": cosine_adam}, ("actor",)),
    ],
    ids=["of all networks", "of the policy alone"],
)
def test_learning_rates_can_decay(optimizers, decaying):
    batch = transitions(False, (16,))
    learners = [linear_learner(batch, **optimizers)]
    for _ in range(3):
        learners.append(learners[-1].update(batch)[0])
    for name in ("actor", "critic", "value"):
        weights = [getattr(learner, name).params["weights"] for learner in learners]
        first, _, third = [jnp.abs(b - a).max() for a, b in itertools.pairwise(weights)]
        np.testing.assert_allclose(first, RATES[f"{name}_learning_rate"], rtol=1e-3)
        assert (third == 0.0) == (name in decaying)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"expectile": 1.5}, r"expectile must lie in \[0, 1\]"),
        ({"beta": -1.0}, "beta must lie in"),
        ({"n_critics": 0}, "n_critics must be a positive integer"),
        ({"dropout_rate": 1.0}, r"dropout_rate must lie in \[0, 1\), got 1.0"),
    ],
)
def test_numbers_out_of_range_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        IQLLearner.create(0, np.zeros(OBS_DIM), np.zeros(ACTION_DIM), **kwargs)


def test_an_optimizer_of_the_policy_that_is_none_is_refused():
    with pytest.raises(TypeError, match="optimizer must be a function"):
        IQLLearner.create(0, np.zeros(OBS_DIM), np.zeros(ACTION_DIM), actor_optimizer=3e-4)


def test_learns_the_better_of_two_actions_though_it_is_rarer():
    rng = np.random.default_rng(0)
    good = rng.uniform(size=(400, 64)) < 0.3
    actions = np.where(good, 0.5, -0.5)[..., None] + rng.normal(0.0, 0.05, (400, 64, 1))
    ones = np.ones((400, 64, 1), np.float32)
    batches = {
        "observations": ones,
        "actions": actions.astype(np.float32),
        "rewards": good.astype(np.float32),
        "next_observations": ones,
        "masks": np.zeros((400, 64), np.float32),
    }
    rates = dict.fromkeys(RATES, 1e-2)
    fields = {"features": (16,), "expectile": 0.9, "beta": 10.0, "tau": 0.05, **rates}
    learner = IQLLearner.create(0, ones[0], batches["actions"][0], **fields)
    learner, _ = learner.update_many(batches)
    np.testing.assert_allclose(learner.sample_actions(ones[0, 0]), 0.5, atol=0.1)
    values = learner.critic(jnp.ones((2, 1)), jnp.array([[0.5], [-0.5]]))
    np.testing.assert_allclose(values, [[1.0, 0.0]] * 2, atol=0.1)
    assert learner.value(jnp.ones(1)) > 0.7
