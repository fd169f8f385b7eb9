"""Shuffling the samples of a rollout into minibatches."""

import functools
import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, UInt32

_ROUNDS = 6
_LARGEST_ASPECT_RATIO = 16
_GOLDEN_RATIO = np.uint32(0x9E3779B9)


def random_bijection(seed: UInt32[Array, "2"], n: int) -> Int[Array, "n"]:
    r"""A pseudo-random permutation of $0, \dots, n - 1$ in linear time, without sorting.

    Each index is split into two digits $(l, r)$ of radices $a \cdot b \ge n$ and passed through an
    unbalanced Feistel network over modular addition, a bijection for every pair of radices. Indices
    that land outside the range follow their cycle until they are back inside.

    Black and Rogaway, 2002, "Ciphers with arbitrary finite domains".

    Args:
        seed: Two random words, such as `jax.random.bits(key, (2,))`.
        n: Number of indices.

    Returns:
        The permuted indices.
    """
    rows, columns = _radices(n)
    rounds = jnp.arange(1, _ROUNDS + 1, dtype=jnp.uint32)
    round_keys = _hash(jnp.add.outer(_GOLDEN_RATIO * rounds, seed))  # of a Weyl sequence

    def permute(index: UInt32[Array, "n"]) -> UInt32[Array, "n"]:
        left, right = index // columns, index % columns
        for left_key, right_key in round_keys:
            left = (left + _hash(right ^ left_key) % rows) % rows
            right = (right + _hash(left ^ right_key) % columns) % columns
        return left * columns + right

    indices = permute(jnp.arange(n, dtype=jnp.uint32))
    if rows * columns > n:
        indices = jax.lax.while_loop(
            lambda index: jnp.any(index >= n),
            lambda index: jnp.where(index >= n, permute(index), index),
            indices,
        )
    return indices.astype(jnp.int32)


@functools.partial(jax.jit, static_argnames=("n_samples", "n_minibatches"))
def minibatch_indices(
    seeds: UInt32[Array, "n_groups 2"], n_samples: int, n_minibatches: int
) -> Int[Array, "n_minibatches n_groups samples_per_group"]:
    """Assigns each sample of each group to exactly one minibatch.

    Groups are shuffled separately, and each minibatch takes equally many samples from each group.

    Args:
        seeds: Two random words for each group, such as `jax.random.bits(key, (n_groups, 2))`.
        n_samples: Number of samples in each group.
        n_minibatches: Number of minibatches; must divide `n_samples`.

    Returns:
        For each minibatch and group, the indices of its samples within the group.
    """
    indices = jax.vmap(functools.partial(random_bijection, n=n_samples))(seeds)
    return jnp.moveaxis(indices.reshape(len(seeds), n_minibatches, -1), 1, 0)


def take_minibatch(data: PyTree, indices: Int[Array, "n_groups samples_per_group"]) -> PyTree:
    """Gathers one minibatch.

    Args:
        data: Pytree whose leaves are shaped `(n_groups, n_samples, ...)`.
        indices: One minibatch of [`minibatch_indices`][jaxagents.ops.minibatch_indices].

    Returns:
        The same pytree with leaves shaped `(n_groups * samples_per_group, ...)`.
    """

    def take(x: Array) -> Array:
        return jax.vmap(operator.getitem)(x, indices).reshape(-1, *x.shape[2:])

    return jax.tree.map(take, data)


def random_indices(
    key: Key[Array, ""], n_samples: int, size: int | Int[Array, ""]
) -> Int[Array, "n_samples"]:
    """Draws indices below `size`, with replacement.

    The relative bias is at most `size / 2**32`. One draw of bits is enough, where
    `jax.random.randint` needs three.

    Args:
        key: Random key.
        n_samples: Number of indices.
        size: Exclusive upper bound; if it is 0, all indices are 0.

    Returns:
        The indices.
    """
    bits = jax.random.bits(key, (n_samples,), jnp.uint32)
    return (bits % jnp.maximum(jnp.asarray(size, jnp.uint32), 1)).astype(jnp.int32)


def _radices(n: int) -> tuple[int, int]:
    """Two near-equal factors of `n`, or of a slightly larger number if `n` has none.

    One row would give only rotations, and with two, too many neighbours stay together.
    """
    rows = max(math.isqrt(n), 1)
    while n % rows:
        rows -= 1
    if rows > 2 and n <= rows * rows * _LARGEST_ASPECT_RATIO:
        return rows, n // rows
    rows = math.isqrt(n - 1) + 1
    return rows, -(-n // rows)


@jax.jit
def _hash(x: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """The finaliser of MurmurHash3 (Appleby, 2011)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
