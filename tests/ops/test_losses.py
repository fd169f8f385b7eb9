"""Losses against NumPy, their gradients, and the divergence they estimate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

EPS = 0.2


def normal_samples(seed, n_arrays, shape=(40, 3)):
    return np.random.default_rng(seed).normal(size=(n_arrays, *shape)).astype(np.float32)


def test_policy_gradient_follows_the_advantage():
    log_prob, advantage = map(jnp.asarray, normal_samples(0, 2))
    np.testing.assert_array_equal(ops.policy_gradient(log_prob, advantage), log_prob * advantage)
    gradient = jax.grad(lambda log_prob: ops.policy_gradient(log_prob, advantage).sum())
    np.testing.assert_array_equal(gradient(log_prob), advantage)


@pytest.mark.parametrize("shape", [(), (40,), (40, 3)], ids=str)
def test_clipped_surrogate_is_the_smaller_of_two_products(shape):
    log_prob, log_prob_old, advantage = normal_samples(1, 3, shape)
    ratio = np.exp(np.float64(log_prob) - log_prob_old)
    expected = np.minimum(ratio * advantage, np.clip(ratio, 1 - EPS, 1 + EPS) * advantage)
    objective = ops.clipped_surrogate(*map(jnp.asarray, (log_prob, log_prob_old, advantage)), EPS)
    assert objective.shape == shape
    np.testing.assert_allclose(objective, expected, rtol=1e-4, atol=1e-6)


def test_clipped_surrogate_of_an_unchanged_policy_is_the_advantage():
    log_prob, advantage = map(jnp.asarray, normal_samples(2, 2))
    objective = ops.clipped_surrogate(log_prob, log_prob, advantage, EPS)
    np.testing.assert_array_equal(objective, advantage)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [
        (1.0, 2.0, 2.0),
        (1.0, -2.0, -2.0),
        (1.1, 2.0, 2.2),
        (0.9, -2.0, -1.8),
        (1.5, 2.0, 0.0),
        (0.5, -2.0, 0.0),
        (0.5, 2.0, 1.0),
        (1.5, -2.0, -3.0),
    ],
)
def test_clipped_surrogate_rewards_no_ratio_beyond_the_clip(ratio, advantage, slope):
    gradient = jax.grad(ops.clipped_surrogate)(
        jnp.log(ratio), jnp.array(0.0), jnp.array(advantage), EPS
    )
    np.testing.assert_allclose(gradient, slope, rtol=1e-6)


def test_clip_can_be_traced():
    log_prob, log_prob_old, advantage = map(jnp.asarray, normal_samples(3, 3))
    losses = (ops.clipped_surrogate, ops.clipped_value_loss)
    for loss in losses:
        swept = jax.vmap(loss, in_axes=(None, None, None, 0))(
            log_prob, log_prob_old, advantage, jnp.array([0.1, 0.5])
        )
        for i, eps in enumerate([0.1, 0.5]):
            single = loss(log_prob, log_prob_old, advantage, eps)
            np.testing.assert_allclose(swept[i], single, rtol=1e-5, atol=1e-6)


def test_approximate_kl_against_numpy():
    log_prob, log_prob_old = normal_samples(4, 2)
    log_prob[0], log_prob_old[0] = [1e-2, -1e-2, 0.0], 0.0  # where few digits of the ratio are left
    log_ratio = np.float64(log_prob) - log_prob_old
    estimate = ops.approximate_kl(jnp.asarray(log_prob), jnp.asarray(log_prob_old))
    np.testing.assert_allclose(estimate, np.expm1(log_ratio) - log_ratio, rtol=1e-4, atol=1e-9)


def test_approximate_kl_is_never_negative_and_zero_for_an_unchanged_policy():
    log_ratio = jnp.concatenate([jnp.linspace(-10.0, 10.0, 1001), jnp.linspace(-1e-3, 1e-3, 1001)])
    assert (ops.approximate_kl(log_ratio, jnp.zeros_like(log_ratio)) >= 0.0).all()
    np.testing.assert_array_equal(ops.approximate_kl(log_ratio, log_ratio), 0.0)


def test_expected_approximate_kl_is_the_divergence_of_two_categoricals():
    old, new = (ops.Categorical(jnp.asarray(logits)) for logits in normal_samples(5, 2, (6,)))
    p, q = (np.float64(jax.nn.softmax(policy.logits)) for policy in (old, new))
    estimates = ops.approximate_kl(*map(jax.nn.log_softmax, (new.logits, old.logits)))
    np.testing.assert_allclose((p * estimates).sum(), (p * np.log(p / q)).sum(), rtol=1e-5)


def test_value_loss_is_the_squared_error():
    value, target = map(jnp.asarray, normal_samples(6, 2))
    np.testing.assert_allclose(ops.value_loss(value, target), (value - target) ** 2, rtol=1e-6)
    gradient = jax.grad(lambda value: ops.value_loss(value, target).sum())(value)
    np.testing.assert_allclose(gradient, 2.0 * (value - target), rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (40,), (40, 3)], ids=str)
def test_clipped_value_loss_is_the_larger_of_two_errors(shape):
    value, value_old, target = normal_samples(7, 3, shape)
    clipped = value_old + np.clip(np.float64(value) - value_old, -EPS, EPS)
    expected = np.maximum((np.float64(value) - target) ** 2, (clipped - target) ** 2)
    loss = ops.clipped_value_loss(*map(jnp.asarray, (value, value_old, target)), EPS)
    assert loss.shape == shape
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "target", "slope"),
    [(0.1, 1.0, -1.8), (0.5, 1.0, 0.0), (-0.5, -1.0, 0.0), (0.5, -1.0, 3.0), (-0.5, 1.0, -3.0)],
)
def test_clipped_value_loss_rewards_no_change_beyond_the_clip(value, target, slope):
    gradient = jax.grad(ops.clipped_value_loss)(
        jnp.array(value), jnp.array(0.0), jnp.array(target), EPS
    )
    np.testing.assert_allclose(gradient, slope, rtol=1e-6)


def test_is_clipped_is_where_the_ratio_leaves_the_range():
    log_prob_old = np.log([0.5, 0.5, 0.5, 0.5])
    log_prob = np.log([0.5, 0.59, 0.61, 0.39])
    clipped = ops.is_clipped(jnp.array(log_prob), jnp.array(log_prob_old), 0.2)
    np.testing.assert_array_equal(clipped, np.abs(np.exp(log_prob - log_prob_old) - 1.0) > 0.2)
    np.testing.assert_array_equal(clipped, [False, False, True, True])


def test_explained_variance_is_that_of_numpy_for_each_actor():
    rng = np.random.default_rng(0)
    target = rng.normal(size=(5, 3, 2)).astype(np.float32)
    value = (target + 0.3 * rng.normal(size=target.shape)).astype(np.float32)
    expected = 1.0 - np.var(target - value, axis=(0, 1)) / np.var(target, axis=(0, 1))
    found = ops.explained_variance(jnp.array(value), jnp.array(target))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("constant", [0.1, -3.3, 1e3])
@pytest.mark.parametrize("weighs", [False, True])
def test_explained_variance_is_zero_where_returns_do_not_vary(constant, weighs):
    rng = np.random.default_rng(0)
    target, weights = np.full((37, 3, 2), constant, np.float32), rng.integers(0, 2, (37, 3, 2))
    weights[..., 1] = 0
    if weighs:
        target[weights == 0] = 7.0
    arrays = rng.normal(size=target.shape), target, *([weights] if weighs else [])
    found = ops.explained_variance(*(jnp.asarray(x, jnp.float32) for x in arrays))
    np.testing.assert_array_equal(found, 0.0)


def test_explained_variance_counts_the_samples_that_weigh_something():
    rng = np.random.default_rng(1)
    target = rng.normal(50.0, 2.0, (9, 4)).astype(np.float32)
    value = target + rng.normal(size=target.shape).astype(np.float32)
    weights = rng.integers(0, 2, target.shape).astype(np.float32)
    counts = weights > 0.0
    expected = 1.0 - np.var((target - value)[counts]) / np.var(target[counts])
    found = ops.explained_variance(*map(jnp.asarray, (value, target, weights)))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_explained_variance_of_known_values():
    target = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(ops.explained_variance(target, target), 1.0)
    np.testing.assert_allclose(ops.explained_variance(jnp.ones((3, 2)), target), 0.0, atol=1e-6)
    np.testing.assert_allclose(ops.explained_variance(-target, target), -3.0, rtol=1e-6)
    np.testing.assert_array_equal(ops.explained_variance(target, jnp.ones((3, 2))), 0.0)
