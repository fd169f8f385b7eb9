"""Terms that keep offline learners near the data, against NumPy, and by their defining properties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops


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


def test_expectile_loss_of_one_half_is_half_of_the_squared_error():
    value, target = map(jnp.asarray, normal_samples(1, 2, 40))
    loss = ops.expectile_loss(value, target, 0.5)
    np.testing.assert_allclose(loss, 0.5 * ops.value_loss(value, target), rtol=1e-6)


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


def test_advantage_weights_of_extreme_advantages_are_finite():
    weights = ops.advantage_weights(jnp.array([-1e5, 0.0, 1e5]), 3.0, 100.0)
    np.testing.assert_array_equal(weights, [0.0, 1.0, 100.0])


def test_advantage_weights_at_an_infinite_temperature_clone():
    weights = ops.advantage_weights(jnp.asarray(normal_samples(4, 40)), 0.0, 100.0)
    np.testing.assert_array_equal(weights, np.ones(40))


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


def test_conservative_penalty_of_large_values_is_finite():
    values = jnp.array([1e4, -1e4, 0.0])
    assert ops.conservative_penalty(values, 0.0, values[0]) == 0.0
