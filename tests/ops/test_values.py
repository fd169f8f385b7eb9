"""Targets and losses of action values against NumPy, and by the properties that define them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

RNG = np.random.default_rng(0)
SUPPORT = np.linspace(-2.0, 3.0, 11, dtype=np.float32)
X, Y = RNG.normal(size=(2, 40, 3)).astype(np.float32)
MASK = np.float32(np.arange(40)[:, None] % 2 * np.ones(3))
DISCOUNTS = np.float32(0.9) ** np.arange(120, dtype=np.float32).reshape(40, 3)

FORMULAS = {
    "td_target": ((X, DISCOUNTS, MASK, Y), X + np.where(MASK, DISCOUNTS * Y, 0.0)),
    "soft_value": ((X, Y, 0.2), X - 0.2 * Y),
    "expectile_loss": ((X, Y, 0.8), np.where(Y > X, 0.8, 0.2) * (np.float64(Y) - X) ** 2),
    "advantage_weights": ((3.0 * X, 2.0, 20.0), np.minimum(np.exp(6.0 * np.float64(X)), 20.0)),
    "conservative_penalty": (
        (X, Y, X[:, 0]),
        np.log((np.exp(np.float64(X)) / np.exp(Y)).sum(axis=-1)) - X[:, 0],
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    inputs, expected = FORMULAS[name]
    found = jax.jit(getattr(ops, name))(*inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_actions_that_there_are_not_have_no_value_and_teach_nothing():
    values, actions = X[:4, :2], jnp.array([0, 1, 2, -1])

    def loss(values):
        found = ops.values_of(values, actions)
        return jnp.square(found).sum(), found

    gradient, found = jax.jit(jax.grad(loss, has_aux=True))(values)
    np.testing.assert_array_equal(found, [values[0, 0], values[1, 1], np.nan, np.nan])
    np.testing.assert_array_equal(gradient.any(axis=-1), [True, True, False, False])
    assert np.isfinite(gradient).all()


# Distributions of returns.


def distributions(*shape, low=-4.0, high=5.0):
    """Atoms and probabilities."""
    probs = RNG.exponential(size=shape)
    probs /= probs.sum(axis=-1, keepdims=True)
    return RNG.uniform(low, high, size=shape).astype(np.float32), probs.astype(np.float32)


project = jax.jit(ops.categorical_projection)
quantile_huber_loss = jax.jit(ops.quantile_huber_loss)


def projected(atoms, probs, support=SUPPORT):
    return np.asarray(project(support, atoms, probs))


def projected_by_loop(atoms, probs):
    """Algorithm 1 of the paper, for one distribution."""
    m = np.zeros(len(SUPPORT))
    for z, p in zip(np.float64(atoms), probs, strict=True):
        b = (np.clip(z, SUPPORT[0], SUPPORT[-1]) - SUPPORT[0]) / (SUPPORT[1] - SUPPORT[0])
        lower, upper = int(np.floor(b)), int(np.ceil(b))
        m[lower] += p * (upper - b) if lower < upper else p
        m[upper] += p * (b - lower)
    return m


@pytest.mark.parametrize("shape", [(2, 3, 11), (6, 4)], ids=str)
def test_projection_is_that_of_the_paper(shape):
    atoms, probs = distributions(*shape)
    expected = [
        projected_by_loop(*pair)
        for pair in zip(atoms.reshape(-1, shape[-1]), probs.reshape(-1, shape[-1]), strict=True)
    ]
    projection = projected(atoms, probs)
    assert projection.shape == (*shape[:-1], 11)
    np.testing.assert_allclose(projection.reshape(-1, 11), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n", [2, 51])
def test_projection_preserves_mass_and_mean(n):
    for size in (1e-2, 1e4):
        support = np.linspace(-size, 2.0 * size, n, dtype=np.float32)
        atoms, probs = distributions(20, 51, low=-size, high=2.0 * size)
        projection = projected(atoms, probs, support)
        assert (projection >= 0.0).all()
        np.testing.assert_allclose(projection.sum(axis=-1), 1.0, rtol=1e-5)
        mean = (probs * atoms).sum(axis=-1)
        np.testing.assert_allclose(projection @ support, mean, atol=1e-5 * size)


def test_atoms_beyond_the_support_count_as_its_ends():
    atoms = np.array([-np.inf, -1e30, -2.0, 3.0, 1e30, np.inf], np.float32)
    probs = np.array([0.1, 0.2, 0.1, 0.2, 0.1, 0.3], np.float32)
    expected = np.zeros(11)
    expected[[0, -1]] = 0.4, 0.6
    np.testing.assert_allclose(projected(atoms, probs), expected, rtol=1e-6)


def huber(u, kappa):
    if kappa == 0.0:
        return abs(u)
    return 0.5 * u**2 if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)


@pytest.mark.parametrize(("n", "m"), [(5, 3), (1, 4)])
def test_quantile_huber_loss_is_a_double_sum(n, m):
    quantiles, targets = (RNG.normal(size=(2, 3, k)).astype(np.float32) for k in (n, m))
    for kappa in (0.0, 0.3, 5.0):
        expected = np.zeros((2, 3))
        for index in np.ndindex(2, 3):
            for i, theta in enumerate(quantiles[index]):
                for y in targets[index]:
                    u = np.float64(y) - theta
                    weight = abs((2 * i + 1) / (2 * n) - (u < 0.0))
                    expected[index] += weight * huber(u, kappa) / m
        loss = quantile_huber_loss(quantiles, targets, kappa)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 5.0])
def test_gradient_of_the_quantile_huber_loss(kappa):
    quantiles, targets = (RNG.normal(size=k).astype(np.float32) for k in (5, 6))
    gradient = jax.jit(jax.grad(ops.quantile_huber_loss))(quantiles, targets, kappa)
    u = targets[None, :] - quantiles[:, None]
    weights = np.abs(((2 * np.arange(5) + 1) / 10)[:, None] - (u < 0.0))
    slope = np.sign(u) if kappa == 0.0 else np.clip(u, -kappa, kappa)
    np.testing.assert_allclose(gradient, -(weights * slope).mean(axis=1), rtol=1e-4, atol=1e-6)


# Learning from a dataset.


def test_advantage_weights_are_finite():
    weights = jax.jit(ops.advantage_weights)
    extreme = np.float32([-1e5, 0.0, 1e5])
    np.testing.assert_array_equal(weights(extreme, 3.0, 100.0), [0.0, 1.0, 100.0])
    np.testing.assert_array_equal(weights(extreme, 0.0, 100.0), 1.0)
