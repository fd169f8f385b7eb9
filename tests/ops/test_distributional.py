"""Projections and quantile losses against NumPy, and by the properties that define them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

RNG = np.random.default_rng(0)
SUPPORT = np.linspace(-2.0, 3.0, 11, dtype=np.float32)


def distributions(*shape, low=-4.0, high=5.0):
    """Atoms and probabilities."""
    probs = RNG.exponential(size=shape)
    probs /= probs.sum(axis=-1, keepdims=True)
    return RNG.uniform(low, high, size=shape).astype(np.float32), probs.astype(np.float32)


def projected(atoms, probs, support=SUPPORT):
    return np.asarray(jax.jit(ops.categorical_projection)(support, atoms, probs))


def projected_by_loop(atoms, probs):
    """Algorithm 1 of the paper, for one distribution."""
    m = np.zeros(len(SUPPORT))
    for z, p in zip(np.float64(atoms), probs, strict=True):
        b = (np.clip(z, SUPPORT[0], SUPPORT[-1]) - SUPPORT[0]) / (SUPPORT[1] - SUPPORT[0])
        lower, upper = int(np.floor(b)), int(np.ceil(b))
        m[lower] += p * (upper - b) if lower < upper else p
        m[upper] += p * (b - lower)
    return m


@pytest.mark.parametrize("shape", [(11,), (6, 11), (2, 3, 11), (6, 4)], ids=str)
def test_projection_is_that_of_the_paper(shape):
    atoms, probs = distributions(*shape)
    expected = [
        projected_by_loop(*pair)
        for pair in zip(atoms.reshape(-1, shape[-1]), probs.reshape(-1, shape[-1]), strict=True)
    ]
    projection = projected(atoms, probs)
    assert projection.shape == (*shape[:-1], 11)
    np.testing.assert_allclose(projection.reshape(-1, 11), expected, rtol=1e-4, atol=1e-6)


def test_projection_of_the_support_changes_nothing():
    _, probs = distributions(11)
    np.testing.assert_allclose(projected(SUPPORT, probs), probs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e4])
@pytest.mark.parametrize("n", [2, 51])
def test_projection_preserves_mass_and_mean(n, size):
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


def test_projection_after_termination_is_that_of_the_reward():
    _, probs = distributions(11)
    projection = projected(np.full(11, 0.6, np.float32), probs)
    expected = np.zeros(11)
    expected[[5, 6]] = 0.8, 0.2
    np.testing.assert_allclose(projection, expected, rtol=1e-4, atol=1e-6)


def test_midpoints_halve_equal_shares():
    np.testing.assert_allclose(ops.quantile_midpoints(4), [0.125, 0.375, 0.625, 0.875])
    edges = np.linspace(0.0, 1.0, 52)
    np.testing.assert_allclose(
        ops.quantile_midpoints(51), (edges[1:] + edges[:-1]) / 2.0, rtol=1e-6
    )


def huber(u, kappa):
    if kappa == 0.0:
        return abs(u)
    return 0.5 * u**2 if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0, 5.0])
@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 3), (1, 4)])
def test_quantile_huber_loss_is_a_double_sum(n, m, kappa):
    quantiles = RNG.normal(size=(2, 3, n)).astype(np.float32)
    targets = RNG.normal(size=(2, 3, m)).astype(np.float32)
    expected = np.zeros((2, 3))
    for index in np.ndindex(2, 3):
        for i, theta in enumerate(quantiles[index]):
            for y in targets[index]:
                u = np.float64(y) - theta
                weight = abs((2 * i + 1) / (2 * n) - (u < 0.0))
                expected[index] += weight * huber(u, kappa) / m
    loss = jax.jit(ops.quantile_huber_loss)(quantiles, targets, kappa)
    assert loss.shape == (2, 3)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 1e-3])
def test_quantiles_of_the_targets_minimise_the_loss(kappa):
    targets = jnp.asarray(RNG.normal(size=1001), jnp.float32)
    quantiles = jnp.quantile(targets, ops.quantile_midpoints(5))
    loss = jax.jit(ops.quantile_huber_loss)
    least = loss(quantiles, targets, kappa)
    for i in range(5):
        for step in (-0.05, 0.05):
            assert loss(quantiles.at[i].add(step), targets, kappa) > least


def test_with_a_large_kappa_one_quantile_has_a_quarter_of_the_squared_error():
    value, target = jnp.asarray(RNG.normal(size=(2, 40)), jnp.float32)
    loss = ops.quantile_huber_loss(value[:, None], target[:, None], 1e3)
    np.testing.assert_allclose(loss, 0.25 * ops.value_loss(value, target), rtol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 5.0])
def test_gradient_of_the_quantile_huber_loss(kappa):
    quantiles = RNG.normal(size=5).astype(np.float32)
    targets = RNG.normal(size=6).astype(np.float32)
    gradient = jax.grad(ops.quantile_huber_loss)(*map(jnp.asarray, (quantiles, targets)), kappa)
    u = targets[None, :] - quantiles[:, None]
    weights = np.abs(((2 * np.arange(5) + 1) / 10)[:, None] - (u < 0.0))
    slope = np.sign(u) if kappa == 0.0 else np.clip(u, -kappa, kappa)
    np.testing.assert_allclose(gradient, -(weights * slope).mean(axis=1), rtol=1e-4, atol=1e-6)
