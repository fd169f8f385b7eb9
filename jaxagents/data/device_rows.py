"""Rows of arrays on the device: written, converted and taken."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from jaxagents.core.numbers import multiples_near
from jaxagents.data import rows


def write(array: Array, new: Array, first: Int[Array, ""]) -> Array:
    """Writes new rows to an array.

    A single row is written twice. Otherwise XLA takes it for so little work that it repeats it where
    rows are read, and copies the whole array to keep the old one for that.
    """
    if len(new) == 1:
        return array.at[jnp.stack([first, first])].set(jnp.concatenate([new, new]))
    return jax.lax.dynamic_update_slice_in_dim(array, new, first, axis=0)


def check_sizes(capacity: int, n_envs: int) -> tuple[int, int]:
    """The sizes of a buffer, as integers of Python.

    Raises:
        TypeError: They are no whole numbers.
        ValueError: They do not fit together.
    """
    for name, value in (("capacity", capacity), ("n_envs", n_envs)):
        if not hasattr(value, "__index__"):
            raise TypeError(f"{name} must be a whole number, got {value!r}.")
    capacity, n_envs = operator.index(capacity), operator.index(n_envs)
    if n_envs < 1:
        raise ValueError(f"n_envs must be positive, got {n_envs}.")
    if capacity < 1 or capacity % n_envs:
        raise ValueError(
            f"capacity must be a positive multiple of n_envs ({n_envs}), got {capacity}; "
            f"{multiples_near(max(capacity, 0), n_envs)}."
        )
    return capacity, n_envs


def convert(transitions: PyTree, storage: PyTree, n_envs: int) -> PyTree:
    """Converts transitions to the structure and the types of the storage.

    Raises:
        TypeError: An array cannot be converted.
        ValueError: The names or shapes are others.
    """
    new, held = _leaves_by_name(transitions), _leaves_by_name(storage)
    if new.keys() != held.keys():
        raise ValueError(
            f"The transitions have {sorted(new)}, but the buffer holds {sorted(held)}."
        )
    for name, array in held.items():
        shape, expected = jnp.shape(new[name]), (n_envs, *array.shape[1:])
        if shape != expected:
            raise ValueError(f"{name!r} has shape {shape}, where {expected} would fit.")
        dtype = jnp.result_type(new[name])
        if not np.can_cast(dtype, array.dtype, "same_kind"):
            raise rows.type_error(name, dtype, array.dtype)
    leaves = [jnp.asarray(new[name], array.dtype) for name, array in held.items()]
    return jax.tree.unflatten(jax.tree.structure(storage), leaves)


def _leaves_by_name(tree: PyTree) -> dict[str, PyTree]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    name = functools.partial(jax.tree_util.keystr, simple=True, separator=rows.SEPARATOR)
    return {name(path): leaf for path, leaf in leaves}


def take_rows(arrays: PyTree, indices: Array) -> PyTree:
    """The rows of arrays at indices."""
    return jax.tree.map(lambda x: x[indices], arrays)
