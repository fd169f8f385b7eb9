"""Nested dicts of arrays whose rows belong together."""

import dataclasses
import functools
import operator
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

Arrays = dict[str, PyTree]
SEPARATOR = "/"


@dataclasses.dataclass(frozen=True, eq=False)
class Gathered:
    """Rows of an array by their numbers, copied only when they are taken.

    Attributes:
        array: The array.
        numbers: Numbers of its rows.
    """

    array: np.ndarray
    numbers: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows together."""
        return self.numbers.shape + self.array.shape[1:]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of the array."""
        return self.array.dtype

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    def __getitem__(self, indx: PyTree) -> "Gathered":
        """Some of the rows, still not copied."""
        return Gathered(self.array, self.numbers[indx])

    def whole(self) -> np.ndarray:
        """Copies the rows."""
        return _copy(self.array, self.numbers)


def flatten(nested: Mapping[str, PyTree], prefix: str = "") -> dict[str, PyTree]:
    """The leaves of a nested dict, by their keys joined with slashes.

    Args:
        nested: Dict of arrays, or of such dicts.
        prefix: Name of the dict itself.

    Returns:
        The arrays by name.

    Raises:
        TypeError: A key is not a string.
        ValueError: A key contains a slash, or a value is not an array; the error names the key.
    """
    flat = {}
    for key, value in nested.items():
        if not isinstance(key, str):
            raise TypeError(f"Keys must be strings, got {key!r}.")
        if SEPARATOR in key:
            raise ValueError(f"Keys must not contain '{SEPARATOR}', got {key!r}.")
        name = prefix + key
        if isinstance(value, Mapping):
            flat |= flatten(value, name + SEPARATOR)
        else:
            flat[name] = value if isinstance(value, Gathered) else as_array(name, value)
    return flat


def in_dicts(tree: PyTree) -> PyTree:
    """A pytree whose parts are all in dicts, under their names or numbers.

    Args:
        tree: A pytree of arrays, in which there may be tuples, lists and dataclasses.

    Returns:
        The same in nested dicts.
    """
    parts, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)
    if any(part is tree for _, part in parts):
        return tree
    return {jax.tree_util.keystr(path, simple=True): in_dicts(part) for path, part in parts}


def structured_as(example: PyTree, nested: PyTree) -> PyTree:
    """Nested dicts in the structure of a pytree whose parts have their names: undoes `in_dicts`.

    Args:
        example: A pytree, in which there may be tuples, lists and dataclasses.
        nested: An array, or nested dicts of arrays.

    Returns:
        The arrays, structured as the example.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(example)
    names = [[jax.tree_util.keystr((key,), simple=True) for key in path] for path, _ in paths]
    return jax.tree.unflatten(
        structure, [functools.reduce(operator.getitem, path, nested) for path in names]
    )


def as_array(name: str, value: object) -> np.ndarray:
    """A value as an array.

    Args:
        name: Its name.
        value: A number, an array, or lists of numbers.

    Returns:
        The array, in the byte order of this machine, the only one that JAX takes.

    Raises:
        ValueError: The lists are ragged; the error names them.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name!r} is no array: {error}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def type_error(name: str, dtype: np.dtype, expected: np.dtype) -> TypeError:
    """The error for numbers that a buffer would have to round.

    Args:
        name: Their name.
        dtype: Their type.
        expected: The type that the buffer holds.

    Returns:
        The error.
    """
    return TypeError(
        f"{name!r} has type {dtype}, but the buffer holds {expected}, as in the example that it was "
        f"created with: make that of the example {dtype}, or cast what is added to {expected}."
    )


def whole(nested: PyTree) -> PyTree:
    """Copies the rows that have not been copied yet.

    Args:
        nested: An array, or a dict of them that may be nested.

    Returns:
        The same with arrays for [`Gathered`][jaxagents.data.rows.Gathered] rows.
    """
    if isinstance(nested, Gathered):
        return nested.whole()
    if isinstance(nested, dict):
        return {key: whole(value) for key, value in nested.items()}
    return nested


def unflatten(flat: Mapping[str, PyTree]) -> Arrays:
    """The nested dict of which [`flatten`][jaxagents.data.rows.flatten] gives these leaves.

    Args:
        flat: Values by name.

    Returns:
        The nested dict.
    """
    nested: Arrays = {}
    for name, value in flat.items():
        *parents, key = name.split(SEPARATOR)
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[key] = value
    return nested


def common_length(flat: Mapping[str, PyTree]) -> int:
    """The number of rows of all arrays.

    Args:
        flat: Arrays by name.

    Returns:
        The length of their first axes.

    Raises:
        ValueError: There are no arrays, one has no axis, or their lengths differ.
    """
    if not flat:
        raise ValueError("There are no arrays.")
    for name, array in flat.items():
        if array.ndim == 0:
            raise ValueError(f"{name!r} is a scalar, but needs a leading axis of rows.")
    first, length = next((name, len(array)) for name, array in flat.items())
    for name, array in flat.items():
        if len(array) != length:
            raise ValueError(f"{name!r} has {len(array)} rows, but {first!r} has {length}.")
    return length


def chosen(indx: PyTree, n_rows: int) -> np.ndarray:
    """The numbers of the rows that an index chooses.

    Args:
        indx: Numbers of rows, or a boolean for each row.
        n_rows: Number of rows to choose from.

    Returns:
        The numbers, in an array of at least one axis. They are not checked to be in range.

    Raises:
        TypeError: The index is neither made of whole numbers nor of booleans.
        ValueError: It is a scalar.
        IndexError: There is not one boolean for each row.
    """
    indices = np.asarray(indx)
    if indices.dtype == bool and indices.shape != (n_rows,):
        raise IndexError(
            f"Booleans must be one for each of the {n_rows} rows, got shape {indices.shape}."
        )
    if indices.size and indices.dtype.kind not in "biu":
        raise TypeError(f"Rows are chosen by whole numbers or by booleans, got {indices.dtype}.")
    if indices.ndim == 0:
        raise ValueError(f"Rows are chosen by a list of numbers, got {indices}; try [{indices}].")
    return np.flatnonzero(indices) if indices.dtype == bool else indices.astype(np.intp, copy=False)


def check_ends(masks: np.ndarray, ends: np.ndarray) -> None:
    """Checks that episodes end where the environment ended them.

    Args:
        masks: 0 where the environment ended the episode, else 1.
        ends: Whether the row is the last of its episode.

    Raises:
        ValueError: A row with a mask of 0 is not an end; the error names the first.
    """
    terminated_inside = (np.asarray(masks) == 0) & ~np.asarray(ends, bool)
    if terminated_inside.any():
        row = int(np.argmax(terminated_inside))
        raise ValueError(f"Row {row} has a mask of 0, so the row must be an end.")


def take(flat: Mapping[str, PyTree], indices: Any) -> Arrays:
    """Copies rows.

    Args:
        flat: Arrays by name.
        indices: Numbers of the rows.

    Returns:
        The rows as a nested dict.
    """
    return unflatten({name: _copy(array, indices) for name, array in flat.items()})


def _copy(array: np.ndarray | Gathered, indices: np.ndarray) -> np.ndarray:
    if isinstance(array, Gathered):
        return _copy(array.array, array.numbers[indices])
    if not array.flags.c_contiguous:
        return array[indices]
    return array.take(indices, axis=0)  # faster, but it copies arrays that are not contiguous
