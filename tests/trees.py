"""Compares pytrees."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _raw(tree: Any) -> list[tuple[str, np.ndarray]]:
    def raw(x: Any) -> np.ndarray:
        is_key = hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if is_key else x)

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path), raw(x)) for path, x in leaves]


def assert_equal(first: Any, second: Any) -> None:
    """Asserts that two pytrees are bit-identical."""
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for (path, a), (_, b) in zip(_raw(first), _raw(second), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=path)


def assert_close(first: Any, second: Any) -> None:
    """Asserts that two pytrees are equal up to rounding by different kernels."""
    for (path, a), (_, b) in zip(_raw(first), _raw(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=path)


def equal(first: Any, second: Any) -> bool:
    """Whether two pytrees are the same."""
    pairs = zip(_raw(first), _raw(second), strict=True)
    return all(np.array_equal(a, b) for (_, a), (_, b) in pairs)


def variables(network: Any, *inputs: Any) -> Any:
    """Network variables drawn by NumPy, which compiles nothing, unlike initialisation."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(network.init, jax.random.key(0), *inputs)
    return jax.tree.map(lambda x: rng.normal(0.0, 0.5, x.shape).astype(x.dtype), shapes)


def zeros(function: Callable, *inputs: Any) -> Any:
    """Zeros shaped like the result of a function, which is only traced."""

    def zero(leaf: Any) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), leaf.shape)
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(zero, jax.eval_shape(function, *inputs))
