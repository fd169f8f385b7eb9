"""Standardisation against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops


@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 3)], ids=str)
def test_standardise_against_numpy(shape):
    x = np.random.default_rng(0).normal(5.0, 3.0, shape).astype(np.float32)
    expected = (np.float64(x) - x.mean(axis=0)) / np.float64(x).std(axis=0)
    np.testing.assert_allclose(ops.standardise(jnp.asarray(x)), expected, atol=1e-5)


def test_each_actor_is_standardised_on_its_own():
    x = np.random.default_rng(1).normal(size=(50, 3)) * [1.0, 100.0, 1e-2] + [0.0, 5.0, -7.0]
    standardised = ops.standardise(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(standardised.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(standardised.std(axis=0), 1.0, atol=1e-4)
    for actor in range(3):
        alone = ops.standardise(jnp.asarray(x[:, actor], jnp.float32))
        np.testing.assert_allclose(standardised[:, actor], alone, atol=1e-5)


@pytest.mark.parametrize("n_samples", [1, 7, 100, 128])
def test_constant_samples_give_zeros(n_samples):
    constants = jnp.array([0.0, 0.1, -3.3, 1000.1, 1e-6])
    x = jnp.broadcast_to(constants, (n_samples, len(constants)))
    for function in (ops.standardise, jax.jit(ops.standardise)):
        np.testing.assert_array_equal(function(x), 0.0)


def test_eps_is_added_to_the_deviation():
    x = jnp.array([-1.0, 1.0])
    np.testing.assert_allclose(ops.standardise(x, eps=1.0), [-0.5, 0.5])


def test_a_large_offset_costs_no_precision():
    x = jnp.array([0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(ops.standardise(x + 2.0**20), ops.standardise(x), atol=1e-6)


def test_samples_without_weight_do_not_count():
    rng = np.random.default_rng(2)
    x, weights = rng.normal(4.0, 3.0, (60, 2)), rng.integers(0, 2, (60, 2))
    weights[:, 1] *= np.arange(60) > 40
    found = ops.standardise(jnp.asarray(x, jnp.float32), weights=jnp.asarray(weights, jnp.float32))
    for actor in range(2):
        counts = weights[:, actor] > 0
        expected = (x[counts, actor] - x[counts, actor].mean()) / x[counts, actor].std()
        np.testing.assert_allclose(found[counts, actor], expected, atol=1e-5)
        assert not np.asarray(found)[~counts, actor].any()


def test_constant_samples_give_zeros_whatever_those_without_weight_are():
    x = jnp.array([7.0, 0.1, 0.1, -5.0, 0.1])
    weights = jnp.array([0.0, 1.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(ops.standardise(x, weights=weights), 0.0)
    np.testing.assert_array_equal(ops.standardise(x, weights=jnp.zeros(5)), 0.0)


def test_a_mean_of_nothing_is_zero():
    x = jnp.array([jnp.inf, jnp.nan, 2.0])
    assert ops.weighted_mean(x, jnp.zeros(3)) == 0.0
    assert ops.weighted_mean(x, jnp.array([0.0, 0.0, 1.0])) == 2.0
