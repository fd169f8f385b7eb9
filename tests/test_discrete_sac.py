"""Discrete soft actor-critic against a reference in NumPy whose gradients are written out."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from learner_registry import LEARNERS, transitions
from trees import assert_close, assert_equal

from jaxagents import ops
from jaxagents.networks import DiscreteCritic
from jaxagents.sac import DiscreteSACLearner, expected_soft_value

OBS_DIM, N_ACTIONS = 5, 3
NORMAL = nn.initializers.normal(1.0)
RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2, "temperature_learning_rate": 0.3}
NETWORKS = ("actor", "critic", "target_critic")
ROW = LEARNERS["DiscreteSAC"]


class Policy(nn.Module):
    """Linear logits, of which some are of actions that are not allowed."""

    forbidden: tuple[int, ...] = ()

    @nn.compact
    def __call__(self, observations, temperature=1.0):
        logits = observations @ self.param("weights", NORMAL, (OBS_DIM, N_ACTIONS))
        logits = logits.at[..., jnp.array(self.forbidden, int)].set(-jnp.inf)
        return ops.Categorical(logits).tempered(temperature)


class Critics(nn.Module):
    """Two linear functions of the observation for each action."""

    @nn.compact
    def __call__(self, observations):
        return observations @ self.param("weights", NORMAL, (2, OBS_DIM, N_ACTIONS))


def linear_learner(batch, **kwargs):
    """A learner of linear networks, whose targets are not the critics."""
    fields = {
        "n_actions": N_ACTIONS,
        "actor_network": Policy(),
        "critic_network": Critics(),
        "optimizer": optax.sgd,
        **RATES,
        **kwargs,
    }
    learner = DiscreteSACLearner.create(0, batch["observations"], batch["actions"], **fields)
    weights = jax.random.normal(jax.random.key(1), (2, OBS_DIM, N_ACTIONS))
    return learner.replace(target_critic=learner.target_critic.replace(params={"weights": weights}))


def parameters(learner):
    params = {name: getattr(learner, name).params["weights"] for name in NETWORKS}
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def reference_update(params, temperature, batch, learner):
    """Equations 4, 12 and 11 of the paper, with the expectations of equation 10."""
    hp, n = learner.hyperparams, len(batch["rewards"])
    obs, next_obs, taken = batch["observations"], batch["next_observations"], batch["actions"]
    next_probs = softmax(next_obs @ params["actor"])
    next_values = (next_obs @ params["target_critic"]).min(axis=0)
    if learner.config.backup_entropy:
        next_values = next_values - temperature * np.log(next_probs)
    discounts = batch.get("discounts", hp.gamma)
    targets = batch["rewards"] + discounts * batch["masks"] * (next_probs * next_values).sum(-1)

    values = (obs @ params["critic"])[:, np.arange(n), taken]
    errors = values - np.asarray(targets)
    weighted_errors = batch.get("weights", 1.0) * errors
    slope = weighted_errors[..., None] * np.eye(N_ACTIONS)[taken]
    critic = params["critic"] - hp.critic_learning_rate * obs.T @ slope / n

    probs = softmax(obs @ params["actor"])
    losses = temperature * np.log(probs) - (obs @ critic).min(axis=0)
    expected_loss = (probs * losses).sum(axis=-1, keepdims=True)
    slope = probs * (losses - expected_loss)
    actor = params["actor"] - hp.actor_learning_rate * obs.T @ slope / n

    entropy = -(probs * np.log(probs)).sum(axis=-1).mean()
    temperature_loss = temperature * (entropy - hp.target_entropy)
    moved = {
        "actor": actor,
        "critic": critic,
        "target_critic": hp.tau * critic + (1 - hp.tau) * params["target_critic"],
    }
    info = {
        "actor_loss": expected_loss.mean(),
        "critic_loss": 0.5 * (weighted_errors * errors).mean(axis=-1).sum(),
        "entropy": entropy,
        "q": values.mean(),
        "temperature": temperature,
        "temperature_loss": temperature_loss,
    }
    if "weights" in batch:
        info["td_errors"] = np.abs(errors).mean(axis=0)
    return moved, temperature * np.exp(-hp.temperature_learning_rate * temperature_loss), info


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"gamma": 0.5, "tau": 0.3, "initial_temperature": 0.5, "target_entropy": 0.2},
        {"backup_entropy": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("further", [(), ("discounts",), ("weights",)], ids=str)
def test_an_update_is_that_of_the_paper(kwargs, further):
    rng = np.random.default_rng(1)
    batch = transitions(True, (16,))
    batch |= {key: rng.uniform(size=16).astype(np.float32) for key in further}
    learner = linear_learner(batch, **kwargs)
    initial = kwargs.get("initial_temperature", 1.0)
    expected, temperature, expected_info = reference_update(
        parameters(learner), initial, batch, learner
    )
    moved, info = learner.update(batch)
    assert info.keys() == expected_info.keys()
    assert_close({name: info[name] for name in expected_info}, expected_info)
    assert_close(parameters(moved), expected)
    np.testing.assert_allclose(moved.temperature(), temperature, rtol=1e-5)


def test_the_soft_value_is_the_mean_of_those_of_samples():
    rng = np.random.default_rng(0)
    logits, values = (jnp.asarray(rng.normal(size=(4, N_ACTIONS)), jnp.float32) for _ in range(2))
    policy = ops.Categorical(logits)

    @jax.jit
    @jax.vmap
    def soft_values(key):
        action = policy.sample(key)
        return ops.soft_value(ops.values_of(values, action), policy.log_prob(action), 0.7)

    samples = np.asarray(soft_values(jax.random.split(jax.random.key(0), 40_000)))
    expected = expected_soft_value(policy, values, 0.7)
    np.testing.assert_allclose(samples.mean(axis=0), expected, atol=0.02)


def test_the_soft_value_of_the_best_policy_is_a_soft_maximum():
    values = jnp.asarray(np.random.default_rng(0).normal(size=(4, N_ACTIONS)), jnp.float32)
    policy = ops.Categorical(values / 0.7)
    expected = 0.7 * np.log(np.exp(np.asarray(values) / 0.7).sum(axis=-1))
    np.testing.assert_allclose(expected_soft_value(policy, values, 0.7), expected, rtol=1e-5)


def test_actions_may_be_forbidden():
    batch = transitions(True, (16,))
    learner = linear_learner(batch, actor_network=Policy(forbidden=(1,)))
    moved, info = learner.update(batch)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((parameters(moved), info)))
    drawn = moved.sample_actions(batch["observations"], seed=jax.random.key(0))
    assert 1 not in np.asarray(drawn)


def test_the_temperature_rises_where_the_policy_is_too_sure():
    for target_entropy, rises in [(2.0, True), (0.0, False)]:
        learner = linear_learner(ROW.batch(), target_entropy=target_entropy)
        learner, info = learner.update(ROW.batch())
        assert (learner.temperature() > info["temperature"]) == rises


def test_the_target_entropy_is_a_share_of_the_largest():
    default, given = (linear_learner(ROW.batch(), **x) for x in ({}, {"target_entropy": 0.5}))
    np.testing.assert_allclose(default.hyperparams.target_entropy, 0.98 * np.log(3), rtol=1e-6)
    assert given.hyperparams.target_entropy == 0.5


def test_the_entropy_is_steered_to_its_target():
    batch = transitions(True, (16,))
    rates = dict.fromkeys(RATES, 3e-2)
    learner = ROW.create(target_entropy=0.7, gamma=0.0, **rates)
    _, info = learner.update_many(jax.tree.map(lambda x: np.stack([x] * 500), batch))
    np.testing.assert_allclose(info["entropy"][-100:].mean(), 0.7, atol=0.05)


@pytest.mark.parametrize("n_critics", [1, 3])
def test_any_number_of_critics(n_critics):
    def values_after_an_update():
        learner, _ = ROW.create(n_critics=n_critics).update(ROW.batch())
        return learner.critic(jnp.asarray(ROW.batch()["observations"]))

    assert jax.eval_shape(values_after_an_update).shape == (n_critics, 16, N_ACTIONS)


def test_critics_of_other_shapes_are_refused():
    with pytest.raises(
        ValueError, match=r"values of shape \(critics, 16, 3\), got \(16, 3\): make several"
    ):
        ROW.create(critic_network=DiscreteCritic(features=(8,), n_actions=N_ACTIONS))


def test_the_targets_start_as_the_critics():
    learner = ROW.create()
    assert_equal(learner.critic.params, learner.target_critic.params)


def test_the_number_of_actions_is_required_and_positive():
    with pytest.raises(TypeError, match=r"number of discrete actions is missing.*n_actions="):
        DiscreteSACLearner.create(0, np.zeros(OBS_DIM), 0)
    with pytest.raises(ValueError, match="n_actions must be a positive integer"):
        ROW.create(n_actions=0)


def test_a_bandit_of_several_arms_is_solved():
    rng = np.random.default_rng(0)
    obs = np.ones((400, 64, 1), np.float32)
    actions = rng.integers(N_ACTIONS, size=(400, 64))
    means = np.array([0.0, 1.0, 0.5], np.float32)
    batches = {
        "observations": obs,
        "actions": actions,
        "rewards": means[actions] + rng.normal(0.0, 0.1, size=(400, 64)).astype(np.float32),
        "next_observations": obs,
        "masks": np.zeros((400, 64), np.float32),
    }
    rates = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2}
    fixed = {"temperature_learning_rate": 0.0, "initial_temperature": 0.25}
    learner = DiscreteSACLearner.create(
        0, obs[0], actions[0], n_actions=N_ACTIONS, features=(32,), **rates, **fixed
    )
    learner, _ = learner.update_many(batches)
    assert learner.sample_actions(obs[0, 0]) == 1
    np.testing.assert_allclose(learner.critic(jnp.ones(1)), [means] * 2, atol=0.1)
    policy = jax.nn.softmax(learner.actor(jnp.ones(1)).logits)
    np.testing.assert_allclose(policy, softmax(means / 0.25), atol=0.05)
