"""Losses against NumPy, their gradients, and the divergence they estimate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

EPS = 0.2
X, Y, Z = np.random.default_rng(0).normal(size=(3, 40, 3)).astype(np.float32)
X[0, 0], Y[0, 0] = 1e-2, 0.0  # where few digits of the ratio are left
RATIO = np.exp(np.float64(X) - Y)


def squared(x, y):
    return (np.float64(x) - y) ** 2


FORMULAS = {
    "policy_gradient": ((X, Y), X * Y),
    "clipped_surrogate": (
        (X, Y, Z, EPS),
        np.minimum(RATIO * Z, np.clip(RATIO, 1 - EPS, 1 + EPS) * Z),
    ),
    "is_clipped": ((X, Y, EPS), np.abs(RATIO - 1.0) > EPS),
    "approximate_kl": ((X, Y), np.expm1(np.float64(X) - Y) - (np.float64(X) - Y)),
    "value_loss": ((X, Y), squared(X, Y)),
    "clipped_value_loss": (
        (X, Y, Z, EPS),
        np.maximum(squared(X, Z), squared(Y + np.clip(np.float64(X) - Y, -EPS, EPS), Z)),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    inputs, expected = FORMULAS[name]
    found = jax.jit(getattr(ops, name))(*inputs)
    assert found.shape == (40, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-8)


RATIO_SLOPES = [  # ratio, advantage, slope
    (1.0, 2.0, 2.0),
    (1.0, -2.0, -2.0),
    (1.1, 2.0, 2.2),
    (0.9, -2.0, -1.8),
    (1.5, 2.0, 0.0),
    (0.5, -2.0, 0.0),
    (0.5, 2.0, 1.0),
    (1.5, -2.0, -3.0),
]
VALUE_SLOPES = [  # value, target, slope
    (0.1, 1.0, -1.8),
    (0.5, 1.0, 0.0),
    (-0.5, -1.0, 0.0),
    (0.5, -1.0, 3.0),
    (-0.5, 1.0, -3.0),
]


@pytest.mark.parametrize(
    ("loss", "slopes"),
    [(ops.clipped_surrogate, RATIO_SLOPES), (ops.clipped_value_loss, VALUE_SLOPES)],
)
def test_nothing_is_gained_beyond_the_clip(loss, slopes):
    x, y, expected = np.float32(slopes).T
    x = np.log(x) if loss is ops.clipped_surrogate else x
    gradient = jax.jit(jax.grad(lambda x: loss(x, jnp.zeros(len(x)), jnp.asarray(y), EPS).sum()))
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-6, atol=1e-7)


def test_approximate_kl_is_never_negative_and_zero_for_an_unchanged_policy():
    log_ratio = np.float32([*np.linspace(-10.0, 10.0, 1001), *np.linspace(-1e-3, 1e-3, 1001)])
    kl = jax.jit(ops.approximate_kl)
    assert (kl(log_ratio, np.zeros_like(log_ratio)) >= 0.0).all()
    np.testing.assert_array_equal(kl(log_ratio, log_ratio), 0.0)


explained_variance = jax.jit(ops.explained_variance)


@pytest.mark.parametrize("weighs", [False, True])
def test_explained_variance_is_that_of_numpy_for_each_actor(weighs):
    rng = np.random.default_rng(0)
    target = rng.normal(50.0, 2.0, (9, 4, 2)).astype(np.float32)
    value = (target + 0.3 * rng.normal(size=target.shape)).astype(np.float32)
    weights = rng.integers(0, 2, target.shape).astype(np.float32) if weighs else None
    counts = np.ones(target.shape, bool) if weights is None else weights > 0.0
    found = explained_variance(value, target, weights)
    for actor in range(2):
        error, of_actor = ((x[..., actor])[counts[..., actor]] for x in (target - value, target))
        expected = 1.0 - np.var(error) / np.var(of_actor)
        np.testing.assert_allclose(found[actor], expected, rtol=1e-4)


@pytest.mark.parametrize("weighs", [False, True])
def test_explained_variance_is_zero_where_returns_do_not_vary(weighs):
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 2, (37, 3, 2)).astype(np.float32)
    weights[..., 1] = 0
    for constant in (0.1, -3.3, 1e3):
        target = np.full((37, 3, 2), constant, np.float32)
        target[weights == 0] = 7.0 if weighs else constant
        value = rng.normal(size=target.shape).astype(np.float32)
        found = explained_variance(value, target, weights if weighs else None)
        np.testing.assert_array_equal(found, 0.0)
