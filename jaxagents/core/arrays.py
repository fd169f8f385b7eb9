"""Arrays."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree


def without_weak_types(tree: PyTree) -> PyTree:
    """Strips the weak types of Python scalars from a pytree, which compile every program twice."""

    def strip(x: PyTree) -> PyTree:
        x = jnp.asarray(x)
        return x if is_key(x) else jax.lax.convert_element_type(x, x.dtype)

    return jax.tree.map(strip, tree)


def is_traced(x: PyTree) -> bool:
    """Whether a value is traced by a JAX transformation."""
    return isinstance(x, Tracer)


def is_key(x: PyTree) -> bool:
    """Whether an array holds typed random keys."""
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def stack(trees: Sequence[Any]) -> PyTree:
    """Stacks pytrees along a new leading axis, without compiling a program for each number of them."""

    def stacked(*leaves: Array) -> PyTree:
        if is_key(leaves[0]):
            data = np.stack([jax.random.key_data(leaf) for leaf in leaves])
            return jax.random.wrap_key_data(jnp.asarray(data), impl=jax.random.key_impl(leaves[0]))
        return jnp.asarray(np.stack(leaves))

    return jax.tree.map(stacked, *trees)


def select(condition: Array, if_true: PyTree, if_false: PyTree) -> PyTree:
    """One of two pytrees of arrays.

    Args:
        condition: A single truth value.
        if_true: The pytree if it holds.
        if_false: The pytree if it does not.

    Returns:
        The pytree.
    """
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), if_true, if_false)
