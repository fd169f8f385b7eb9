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
SMALL = [*range(1, 14), 16, 17, 22, 26, 29, 31, 32, 49, 50, 53, 62, 64, 81, 97, 100, 127, 128]
MEDIUM = [141, 144, 200, 251, 256, 289, 299, 300, 1009, 1024, 4096, 10_000]
LARGE = [65_498, 65_521, 65_536, 1_000_003, 2**20]

minibatch_indices = jax.jit(ops.minibatch_indices, static_argnames=("n_samples", "n_minibatches"))


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


@pytest.mark.parametrize("sizes", [SMALL, MEDIUM, LARGE], ids=["small", "medium", "large"])
@pytest.mark.slow_except("medium", "large")
def test_random_bijection_is_a_permutation(sizes):
    shuffle_all = jax.jit(lambda seed: [ops.random_bijection(seed, n) for n in sizes])
    for number in range(2):
        for n, indices in zip(sizes, shuffle_all(seeds_of(number)), strict=True):
            assert indices.dtype == jnp.int32
            np.testing.assert_array_equal(np.sort(indices), np.arange(n), err_msg=f"n = {n}")


def test_the_seed_decides_the_permutation():
    shuffle = jax.jit(lambda seed: ops.random_bijection(seed, 100))
    first, again, other = (shuffle(seeds_of(number)) for number in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.mean(np.asarray(first) == other) < 0.1
    assert len(np.unique(permutations(64, 5000), axis=0)) == 5000


@pytest.mark.parametrize("n", [3, 4, 5])
def test_every_permutation_of_a_few_indices_is_reached(n):
    assert len(np.unique(permutations(n, 5000), axis=0)) == factorial(n)


@pytest.mark.parametrize("n", [5, 13, 62, 64, 97])
def test_every_index_lands_everywhere_equally_often(n):
    n_keys = 5000
    indices = permutations(n, n_keys)
    counts = np.stack([np.bincount(column, minlength=n) for column in indices.T])
    # The counts of n positions for n indices sum to n_keys both ways, which leaves (n - 1)^2 free.
    assert_plausible(z_of_chi_square(counts, n_keys / n, (n - 1) ** 2, scale=(n - 1) / n))


@pytest.mark.parametrize("n", [13, 62, 64, 97, 1000])
def test_neighbours_are_torn_apart(n):
    n_keys = 2000 if n == 1000 else 5000
    indices = permutations(n, n_keys)
    centred = indices - (n - 1) / 2.0
    correlation = (centred[:, 1:] * centred[:, :-1]).sum(axis=1) / (centred**2).sum(axis=1)
    standard_error = correlation.std() / np.sqrt(n_keys)
    assert_plausible((correlation.mean() + 1.0 / n) / standard_error)
    steps = np.bincount(np.ravel(np.diff(indices) % n), minlength=n)[1:]
    np.testing.assert_allclose(steps / n_keys, 1.0, atol=0.25)


@pytest.mark.parametrize(
    ("n_samples", "n_minibatches", "n_groups"), [(24, 4, 1), (24, 4, 3), (26, 1, 2), (13, 13, 2)]
)
def test_every_sample_is_dealt_exactly_once(n_samples, n_minibatches, n_groups):
    indices = minibatch_indices(seeds_of(0, n_groups), n_samples, n_minibatches)
    assert indices.shape == (n_minibatches, n_groups, n_samples // n_minibatches)
    groups = np.moveaxis(np.asarray(indices), 1, 0).reshape(n_groups, n_samples)
    np.testing.assert_array_equal(np.sort(groups), np.tile(np.arange(n_samples), (n_groups, 1)))
    assert len(np.unique(groups, axis=0)) == n_groups


def test_minibatch_indices_under_vmap_equal_those_of_each_training():
    seeds = seeds_of(0, 4, 3)
    of_seeds = partial(minibatch_indices, n_samples=26, n_minibatches=2)
    together = jax.vmap(of_seeds)(seeds)
    np.testing.assert_array_equal(together, jnp.stack([of_seeds(each) for each in seeds]))
    assert len(np.unique(np.asarray(together).reshape(4, -1), axis=0)) == 4


def test_take_minibatch_gathers_the_same_samples_from_every_leaf():
    rng = np.random.default_rng(0)
    data = {
        "obs": rng.normal(size=(3, 24, 5)).astype(np.float32),
        "rest": (rng.integers(100, size=(3, 24)), rng.normal(size=(3, 24, 2, 2)) > 0.0),
    }
    indices = rng.permuted(np.tile(np.arange(24), (3, 1)), axis=1)[:, :6]
    minibatch = ops.take_minibatch(jax.tree.map(jnp.asarray, data), jnp.asarray(indices))

    def gather(x):
        return np.concatenate([x[group, indices[group]] for group in range(3)])

    jax.tree.map(np.testing.assert_array_equal, minibatch, jax.tree.map(gather, data))


def test_random_indices_are_uniform_below_the_size():
    n, size = 200_000, 37
    indices = np.asarray(ops.random_indices(jax.random.key(3), n, size))
    counts = np.bincount(indices, minlength=size)
    assert len(counts) == size
    assert_plausible(z_of_chi_square(counts, n / size, size - 1))
    other = np.asarray(ops.random_indices(jax.random.key(4), n, size))
    assert 0.9 / size < (indices == other).mean() < 1.1 / size


def test_random_indices_take_traced_sizes():
    draw = jax.jit(lambda size: ops.random_indices(jax.random.key(0), 100, size))
    assert draw(jnp.int32(5)).max() == 4
    np.testing.assert_array_equal(draw(jnp.int32(1)), 0)
    np.testing.assert_array_equal(draw(jnp.int32(0)), 0)
