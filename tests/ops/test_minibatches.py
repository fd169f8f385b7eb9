"""The shuffle is a permutation, looks random, and deals every sample exactly once."""

from functools import cache, partial
from math import factorial
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

FALSE_ALARM = 1e-6
SIZES = [1, 2, 3, 5, 13, 16, 17, 1009, 65_498]


def seeds_of(number, *shape):
    return jax.random.bits(jax.random.key(number), (*shape, 2), jnp.uint32)


@cache
def permutations(n, n_keys):
    shuffle_all = jax.jit(jax.vmap(lambda seed: ops.random_bijection(seed, n)))
    return np.asarray(shuffle_all(seeds_of(n, n_keys)))


def z_of_chi_square(observed, expected, degrees_of_freedom, scale=1.0):
    """A standard normal variable (Wilson and Hilferty, 1931) if the counts are as expected."""
    statistic = scale * ((observed - expected) ** 2 / expected).sum()
    variance = 2.0 / (9.0 * degrees_of_freedom)
    return (np.cbrt(statistic / degrees_of_freedom) - (1.0 - variance)) / np.sqrt(variance)


def assert_plausible(z):
    assert abs(z) < NormalDist().inv_cdf(1.0 - FALSE_ALARM / 2.0)


def test_random_bijection_is_a_permutation():
    shuffle_all = jax.jit(lambda seed: [ops.random_bijection(seed, n) for n in SIZES])
    for number in range(2):
        for n, indices in zip(SIZES, shuffle_all(seeds_of(number)), strict=True):
            assert indices.dtype == jnp.int32
            np.testing.assert_array_equal(np.sort(indices), np.arange(n), err_msg=f"n = {n}")


def test_every_permutation_of_a_few_indices_is_reached_and_of_many_each_seed_has_its_own():
    assert len(np.unique(permutations(5, 5000), axis=0)) == factorial(5)
    assert len(np.unique(permutations(64, 5000), axis=0)) == 5000


@pytest.mark.parametrize("n", [5, 13, 64])
def test_every_index_lands_everywhere_equally_often_and_neighbours_are_torn_apart(n):
    n_keys = 5000
    indices = permutations(n, n_keys)
    counts = np.stack([np.bincount(column, minlength=n) for column in indices.T])
    # The counts of n positions for n indices sum to n_keys both ways, which leaves (n - 1)^2 free.
    assert_plausible(z_of_chi_square(counts, n_keys / n, (n - 1) ** 2, scale=(n - 1) / n))
    if n == 5:
        return  # too few for the distances of neighbours
    centred = indices - (n - 1) / 2.0
    correlation = (centred[:, 1:] * centred[:, :-1]).sum(axis=1) / (centred**2).sum(axis=1)
    standard_error = correlation.std() / np.sqrt(n_keys)
    assert_plausible((correlation.mean() + 1.0 / n) / standard_error)
    steps = np.bincount(np.ravel(np.diff(indices) % n), minlength=n)[1:]
    np.testing.assert_allclose(steps / n_keys, 1.0, atol=0.25)


def test_every_sample_is_dealt_exactly_once_under_vmap_as_alone():
    seeds, deal = seeds_of(0, 4, 3), partial(ops.minibatch_indices, n_samples=26, n_minibatches=2)
    indices = np.asarray(jax.jit(deal)(seeds[0]))
    assert indices.shape == (2, 3, 13)
    groups = np.moveaxis(indices, 1, 0).reshape(3, 26)
    np.testing.assert_array_equal(np.sort(groups), np.tile(np.arange(26), (3, 1)))
    together = np.asarray(jax.jit(jax.vmap(deal))(seeds))
    np.testing.assert_array_equal(together[0], indices)
    of_each = np.moveaxis(together, 2, 1).reshape(12, 26)
    assert len(np.unique(of_each, axis=0)) == 12


def test_take_minibatch_gathers_the_same_samples_from_every_leaf():
    rng = np.random.default_rng(0)
    data = {
        "obs": rng.normal(size=(3, 24, 5)).astype(np.float32),
        "rest": (rng.integers(100, size=(3, 24)), rng.normal(size=(3, 24, 2, 2)) > 0.0),
    }
    indices = rng.permuted(np.tile(np.arange(24), (3, 1)), axis=1)[:, :6]
    minibatch = jax.jit(ops.take_minibatch)(data, indices)

    def gather(x):
        return np.concatenate([x[group, indices[group]] for group in range(3)])

    jax.tree.map(np.testing.assert_array_equal, minibatch, jax.tree.map(gather, data))


def test_random_indices_are_uniform_below_the_size_which_may_be_traced():
    n, size = 200_000, 37
    draw = jax.jit(lambda key, size: ops.random_indices(key, n, size))
    indices, other = (np.asarray(draw(jax.random.key(i), size)) for i in (3, 4))
    counts = np.bincount(indices, minlength=size)
    assert len(counts) == size
    assert_plausible(z_of_chi_square(counts, n / size, size - 1))
    assert 0.9 / size < (indices == other).mean() < 1.1 / size
    for few in (1, 0):
        np.testing.assert_array_equal(draw(jax.random.key(0), few), 0)
