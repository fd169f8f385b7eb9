"""Targets and losses of action values against NumPy, and by the properties that define them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

RNG = np.random.default_rng(0)
SUPPORT = np.linspace(-2.0, 3.0, 11, dtype=np.float32)
REWARD, NEXT_VALUE, LOG_PROB = jnp.asarray(RNG.normal(size=(3, 8)), jnp.float32)
MASK = jnp.array([0.0, 1.0] * 4)


def test_td_target_stops_at_terminations():
    for discount in (0.9, jnp.float32(0.9) ** jnp.arange(8)):
        expected = REWARD + np.where(MASK, discount * NEXT_VALUE, 0.0)
        found = ops.td_target(REWARD, discount, MASK, NEXT_VALUE)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_soft_value_adds_the_entropy():
    expected = NEXT_VALUE - 0.2 * LOG_PROB
    np.testing.assert_allclose(ops.soft_value(NEXT_VALUE, LOG_PROB, 0.2), expected, rtol=1e-6)


def test_actions_that_there_are_not_have_no_value_and_teach_nothing():
    values, actions = jnp.stack([REWARD, NEXT_VALUE], axis=-1), jnp.array([0, 1, 2, -1] * 2)
    expected = [
        [r, v, jnp.nan, jnp.nan][i % 4]
        for i, (r, v) in enumerate(zip(REWARD, NEXT_VALUE, strict=True))
    ]
    np.testing.assert_array_equal(ops.values_of(values, actions), expected)
    grads = jax.grad(lambda x: jnp.square(ops.values_of(x, actions)).sum())(values)
    np.testing.assert_array_equal(grads.any(axis=-1), [True, True, False, False] * 2)
    assert jnp.isfinite(grads).all()


# Distributions of returns.


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


def test_midpoints_halve_equal_shares():
    edges = np.linspace(0.0, 1.0, 52)
    midpoints = (edges[1:] + edges[:-1]) / 2.0
    np.testing.assert_allclose(ops.quantile_midpoints(51), midpoints, rtol=1e-6)


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


@pytest.mark.parametrize("kappa", [0.0, 0.3, 5.0])
def test_gradient_of_the_quantile_huber_loss(kappa):
    quantiles = RNG.normal(size=5).astype(np.float32)
    targets = RNG.normal(size=6).astype(np.float32)
    gradient = jax.grad(ops.quantile_huber_loss)(*map(jnp.asarray, (quantiles, targets)), kappa)
    u = targets[None, :] - quantiles[:, None]
    weights = np.abs(((2 * np.arange(5) + 1) / 10)[:, None] - (u < 0.0))
    slope = np.sign(u) if kappa == 0.0 else np.clip(u, -kappa, kappa)
    np.testing.assert_allclose(gradient, -(weights * slope).mean(axis=1), rtol=1e-4, atol=1e-6)


# Learning from a dataset.


def normal_samples(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(), (40,), (40, 3)], ids=str)
def test_expectile_loss_weighs_the_two_signs_of_the_error(shape):
    value, target = map(jnp.asarray, normal_samples(0, 2, *shape))
    error = np.float64(target) - np.float64(value)
    expected = np.where(error > 0.0, 0.8, 0.2) * error**2
    loss = ops.expectile_loss(value, target, 0.8)
    assert loss.shape == shape
    np.testing.assert_allclose(loss, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("expectile", [0.1, 0.5, 0.7, 0.99])
def test_expectile_loss_is_least_at_the_expectile(expectile):
    samples = normal_samples(2, 1000)
    slope = jax.jit(
        jax.grad(
            lambda m: ops.expectile_loss(jnp.full(1000, m), jnp.asarray(samples), expectile).mean()
        )
    )
    low, high = -5.0, 5.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
    above = expectile * np.maximum(samples - low, 0.0).mean()
    below = (1.0 - expectile) * np.maximum(low - samples, 0.0).mean()
    np.testing.assert_allclose(above, below, rtol=1e-3)


def test_advantage_weights_are_clipped_exponentials():
    advantage = 3.0 * normal_samples(3, 40)
    expected = np.minimum(np.exp(2.0 * np.float64(advantage)), 100.0)
    weights = ops.advantage_weights(jnp.asarray(advantage), 2.0, 100.0)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    assert (expected == 100.0).any()
    np.testing.assert_array_equal(ops.advantage_weights(jnp.asarray(advantage), 0.0, 100.0), 1.0)
    extreme = ops.advantage_weights(jnp.array([-1e5, 0.0, 1e5]), 3.0, 100.0)
    np.testing.assert_array_equal(extreme, [0.0, 1.0, 100.0])


def test_conservative_penalty_is_a_log_sum_of_importance_weighted_exponentials():
    values, log_probs = normal_samples(5, 2, 40, 6)
    data_values = normal_samples(6, 40)
    weighted = np.exp(np.float64(values)) / np.exp(np.float64(log_probs))
    expected = np.log(weighted.sum(axis=-1)) - data_values
    penalty = ops.conservative_penalty(*map(jnp.asarray, (values, log_probs, data_values)))
    np.testing.assert_allclose(penalty, expected, rtol=1e-5, atol=1e-5)


def test_conservative_penalty_has_one_set_of_densities_for_several_critics():
    values, log_probs = normal_samples(7, 2, 40, 6), normal_samples(8, 40, 6)
    data_values = normal_samples(9, 2, 40)
    both = ops.conservative_penalty(*map(jnp.asarray, (values, log_probs, data_values)))
    for penalty, value, data_value in zip(both, values, data_values, strict=True):
        one = ops.conservative_penalty(*map(jnp.asarray, (value, log_probs, data_value)))
        np.testing.assert_allclose(penalty, one, rtol=1e-6)


def test_conservative_penalty_of_all_actions_is_minus_a_log_probability():
    values = jnp.asarray(normal_samples(10, 40, 5))
    penalty = ops.conservative_penalty(values, 0.0, values[:, 2])
    log_prob = ops.Categorical(values).log_prob(jnp.full(40, 2))
    np.testing.assert_allclose(penalty, -log_prob, rtol=1e-5, atol=1e-6)


def test_conservative_penalty_moves_values_towards_the_data():
    values = jnp.array([1.0, 0.0, 2.0])
    gradient = jax.grad(lambda v: ops.conservative_penalty(v, 0.0, v[0]))(values)
    exponentials = np.exp([1.0, 0.0, 2.0])
    np.testing.assert_allclose(gradient, exponentials / exponentials.sum() - [1, 0, 0], rtol=1e-6)
    large = jnp.array([1e4, -1e4, 0.0])
    assert ops.conservative_penalty(large, 0.0, large[0]) == 0.0


def test_conservative_penalty_estimates_the_integral_over_all_actions():
    """For any proposal: the integral of exp(-a^2) over [-1, 1] is sqrt(pi) erf(1)."""
    n = 200_000
    u = np.random.default_rng(0).uniform(size=n)
    ramp = np.sqrt(1.0 + 8.0 * u) - 2.0  # of density (2 + a) / 4
    proposals = [(2.0 * u - 1.0, np.full(n, np.log(0.5))), (ramp, np.log((2.0 + ramp) / 4.0))]
    for actions, log_density in proposals:
        values, log_probs = (jnp.asarray(x, jnp.float32) for x in (-(actions**2), log_density))
        penalty = ops.conservative_penalty(values, log_probs, jnp.array(0.0))
        np.testing.assert_allclose(np.exp(penalty - np.log(n)), 1.4936482, rtol=1e-2)
