"""Conservative Q-learning against references in NumPy whose gradients are written out."""

import functools

import jax
import jax.numpy as jnp
import linear
import numpy as np
import pytest
from linear import ACTION_DIM, N_ACTIONS, OBS_DIM, softmax
from trees import assert_close

from jaxagents.cql import CQLLearner, DiscreteCQLLearner
from jaxagents.networks import Policy

N_SAMPLES = 4
RATES = {
    "actor_learning_rate": 0.1,
    "critic_learning_rate": 0.2,
    "temperature_learning_rate": 0.3,
    "weight_learning_rate": 0.4,
}


def continuous_learner(**kwargs):
    fields = {"features": (), "critic_network": linear.Critics(), "n_action_samples": N_SAMPLES}
    return linear.create(CQLLearner, **{**fields, **RATES, **kwargs})


@jax.jit
def drawn_actions(learner, batch):
    """The draws of the next update: actions with their log-densities, and next actions for targets."""
    _, critic_key, _ = jax.random.split(learner.rng, 3)
    target_key, sample_key = jax.random.split(critic_key)
    next_policy = learner.actor(batch["next_observations"])
    return *learner._sampled_actions(sample_key, batch), next_policy.sample(target_key)


def reference_critic_update(learner, batch, weight):
    """Equation 4 of the paper, for the actions that the learner draws; no entropy is in the targets."""
    obs, n = batch["observations"], len(batch["rewards"])
    share = batch.get("weights", np.ones(n))
    sampled, log_probs, next_actions = map(np.asarray, drawn_actions(learner, batch))
    weights, target_weights = linear.weights_of(learner, "critic", "target_critic")

    next_pairs = np.concatenate([batch["next_observations"], next_actions], axis=-1)
    discounts = batch.get("discounts", learner.hyperparams.gamma)
    next_values = (target_weights @ next_pairs.T).min(axis=0)
    targets = np.float64(batch["rewards"] + discounts * batch["masks"] * next_values)

    pairs = np.concatenate([obs, batch["actions"]], axis=-1)
    tiled = np.broadcast_to(obs[:, None], (n, len(sampled), OBS_DIM))
    samples = np.concatenate([tiled, np.swapaxes(sampled, 0, 1)], axis=-1)
    values, sample_values = weights @ pairs.T, np.einsum("bsi,ci->cbs", samples, weights)
    logits = sample_values - np.float64(log_probs)
    penalties = np.log(np.exp(logits).sum(axis=-1)) - values
    bellman_loss = 0.5 * (share * (values - targets) ** 2).mean(axis=-1).sum()

    bellman_slope = share * (values - targets) @ pairs / n
    penalty_slope = np.einsum("b,cbs,bsi->ci", share, softmax(logits), samples) / n
    penalty_slope -= share @ pairs / n
    moved = weights - RATES["critic_learning_rate"] * (bellman_slope + weight * penalty_slope)
    tau = learner.hyperparams.tau
    info = {
        "bellman_loss": bellman_loss,
        "conservative_penalty": penalties.mean(),
        "critic_loss": bellman_loss + weight * (share * penalties).mean(axis=-1).sum(),
        "q": values.mean(),
    }
    return moved, tau * moved + (1.0 - tau) * target_weights, info


@pytest.mark.parametrize(
    ("kwargs", "further"),
    [
        ({"gamma": 0.5, "tau": 0.1, "conservative_weight": 0.5}, ()),
        ({"conservative_weight": 2.0, "target_action_gap": 1.0}, linear.ALL),
    ],
    ids=str,
)
def test_the_critics_are_updated_as_in_the_paper(kwargs, further):
    learner, batch = continuous_learner(**kwargs), linear.batch_with(CQLLearner, further)
    moved, info = learner.update(batch)
    weight = kwargs.get("conservative_weight", 5.0)
    critic, target, expected_info = reference_critic_update(learner, batch, weight)
    assert_close(linear.weights_of(moved, "critic", "target_critic"), [critic, target])
    assert_close({name: info[name] for name in expected_info}, expected_info)
    assert (moved.weight is None) == ("target_action_gap" not in kwargs)
    if moved.weight is not None:
        excess = expected_info["conservative_penalty"] - 1.0
        rate = RATES["weight_learning_rate"]
        np.testing.assert_allclose(moved.weight(), 2.0 * np.exp(rate * 2.0 * excess), rtol=1e-4)
        np.testing.assert_allclose(info["conservative_weight"], 2.0, rtol=1e-6)
        np.testing.assert_allclose(info["weight_loss"], -2.0 * excess, rtol=1e-4)
        assert info["td_errors"].shape == (16,)


def test_actions_are_drawn_from_three_distributions():
    network = Policy(features=(), action_dim=ACTION_DIM, fixed_std=0.3)
    learner = continuous_learner(n_action_samples=40, actor_network=network)
    batch = jax.tree.map(
        lambda x: np.tile(0.3 * x, (4,) + (1,) * (x.ndim - 1)), linear.batch_with(CQLLearner)
    )

    @jax.jit
    def drawn(learner, batch):
        actions, log_probs = learner._sampled_actions(jax.random.key(1), batch)
        policies = [learner.actor(batch[k]) for k in ("observations", "next_observations")]
        means = [policy.base.mean for policy in policies]
        own = [p.log_prob(x) for p, x in zip(policies, jnp.split(actions, 3)[1:], strict=True)]
        return actions, log_probs, means, own

    actions, log_probs, means, own = jax.tree.map(np.asarray, drawn(learner, batch))
    uniform, *others = np.split(actions, 3)
    uniform_densities, *densities = np.split(log_probs.T, 3)
    assert uniform.shape == (40, 64, ACTION_DIM)
    assert (np.abs(uniform) <= 1.0).all()
    np.testing.assert_allclose(uniform.mean(), 0.0, atol=0.05)
    np.testing.assert_allclose(uniform.std(), 1.0 / np.sqrt(3.0), atol=0.02)
    np.testing.assert_allclose(uniform_densities, ACTION_DIM * np.log(0.5), rtol=1e-6)
    for i in range(2):
        z = (np.arctanh(others[i]) - means[i][None]) / 0.3
        np.testing.assert_allclose([z.mean(), z.std()], [0.0, 1.0], atol=0.05)
        np.testing.assert_allclose(densities[i], own[i], rtol=1e-3, atol=1e-3)


def continuous_learner_of(network, **fields):
    batch = linear.batch_with(CQLLearner)
    fields = {"features": (), "critic_network": network, **fields}
    return CQLLearner.create(0, batch["observations"], batch["actions"], **fields)


def test_a_gap_is_refused_where_the_weight_has_been_fixed():
    learner = jax.eval_shape(lambda: continuous_learner_of(linear.Critics()))
    later = learner.replace(hyperparams=learner.hyperparams.replace(target_action_gap=1.0))
    with pytest.raises(ValueError, match="set target_action_gap from the start of a run"):
        jax.eval_shape(CQLLearner.update, later, linear.batch_with(CQLLearner))


def reference_discrete_update(learner, batch, weight):
    """Equation 4 of the paper, on top of (double) Q-learning."""
    obs, actions, n = batch["observations"], batch["actions"], len(batch["rewards"])
    hp, rows, share = learner.hyperparams, np.arange(n), batch.get("weights", np.ones(n))
    weights, target_weights = linear.weights_of(learner, "critic", "target_critic")
    next_values = batch["next_observations"] @ target_weights
    chooser = weights if learner.config.double else target_weights
    chosen = (batch["next_observations"] @ chooser).argmax(axis=-1)
    discounts = batch.get("discounts", hp.gamma)
    targets = batch["rewards"] + discounts * batch["masks"] * next_values[rows, chosen]

    values, taken = obs @ weights, np.eye(N_ACTIONS)[actions]
    q = values[rows, actions]
    penalties = np.log(np.exp(values).sum(axis=-1)) - q
    slope = (q - targets)[:, None] * taken + weight * (softmax(values) - taken)
    moved = weights - hp.critic_learning_rate * obs.T @ (share[:, None] * slope) / n
    bellman_losses = 0.5 * (q - targets) ** 2
    info = {
        "bellman_loss": bellman_losses.mean(),
        "conservative_penalty": penalties.mean(),
        "critic_loss": (share * (bellman_losses + weight * penalties)).mean(),
        "q": q.mean(),
    }
    if "weights" in batch:
        info["td_errors"] = np.abs(q - targets)
    return moved, hp.tau * moved + (1.0 - hp.tau) * target_weights, info


discrete_learner = functools.partial(
    linear.create,
    DiscreteCQLLearner,
    critic_network=linear.ActionValues(),
    gamma=0.9,
    tau=0.1,
    critic_learning_rate=0.1,
)


@pytest.mark.parametrize(
    ("kwargs", "further"),
    [({}, ()), ({"double": False, "conservative_weight": 2.0}, linear.ALL)],
    ids=str,
)
def test_discrete_updates_are_those_of_the_paper(kwargs, further):
    learner, batch = discrete_learner(**kwargs), linear.batch_with(DiscreteCQLLearner, further)
    moved, info = learner.update(batch)
    weight = kwargs.get("conservative_weight", 1.0)
    critic, target, expected_info = reference_discrete_update(learner, batch, weight)
    assert_close(linear.weights_of(moved, "critic", "target_critic"), [critic, target])
    assert info.keys() == expected_info.keys()
    assert_close(info, {name: expected_info[name] for name in info})


def test_discrete_actions_are_drawn_by_their_values():
    learner, obs = discrete_learner(), linear.batch_with(DiscreteCQLLearner)["observations"][:2]
    many, values = np.broadcast_to(obs, (4000, 2, OBS_DIM)), np.float64(learner.critic(obs))
    for temperature in (0.5, 1.0, 2.0):
        actions = learner.sample_actions(many, seed=jax.random.key(0), temperature=temperature)
        frequencies = np.eye(N_ACTIONS)[np.asarray(actions)].mean(axis=0)
        np.testing.assert_allclose(frequencies, softmax(values / temperature), atol=0.03)
    np.testing.assert_array_equal(learner.sample_actions(obs), values.argmax(axis=-1))
