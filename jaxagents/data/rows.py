"""Nested dicts of arrays whose rows belong together, and rows drawn from them."""

import functools
import operator
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import traverse_util
from jaxtyping import PyTree

from jaxagents.core.arrays import AnyArray
from jaxagents.core.numbers import positive

Arrays = dict[str, PyTree]
SEPARATOR = "/"
OF_THE_LAST = ("next_observations", "masks", "ends")
"""The keys that transitions over several steps take from the last of their rows."""


class Sampled:
    """Rows of named arrays that are drawn uniformly, with replacement."""

    _flat: dict[str, PyTree]
    _rng: np.random.Generator

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    def sample(self, batch_size: int, indx: PyTree = None) -> Arrays:
        """Copies rows drawn uniformly, with replacement.

        Args:
            batch_size: Number of rows.
            indx: The rows to take instead: `batch_size` numbers; an array of numbers shaped
                `(..., batch_size)`, for several batches; or a boolean for each row, `batch_size` of
                which are true.

        Returns:
            A nested dict of arrays with `batch_size` rows, or shaped as `indx` on their first axes.

        Raises:
            ValueError: There are no rows yet, `batch_size` is not positive, or `indx` chooses another
                number of rows or is a scalar.
            IndexError: A number is out of range, or there is not one boolean for each row.
            TypeError: `indx` is neither made of whole numbers nor of booleans.
        """
        if indx is None:
            return take(self._flat, self._draw(batch_size=batch_size))
        indices = chosen(indx, len(self))
        if indices.shape[-1] != batch_size:
            raise ValueError(
                f"indx chooses {indices.shape[-1]} rows, but batch_size is {batch_size}."
            )
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(
                f"Indices must lie in [0, {len(self)}), got {indices.min()} to {indices.max()}."
            )
        return take(self._flat, indices)

    def sample_many(self, n_batches: int, batch_size: int) -> Arrays:
        """Copies the rows of several batches, the same rows as `n_batches` calls of `sample` give.

        Args:
            n_batches: Number of batches.
            batch_size: Number of rows of each.

        Returns:
            A nested dict of arrays shaped `(n_batches, batch_size, ...)`.

        Raises:
            ValueError: There are no rows yet, or a number is not positive.
        """
        return take(self._flat, self._draw(n_batches=n_batches, batch_size=batch_size))

    def _draw(self, **sizes: int) -> np.ndarray:
        for name, size in sizes.items():
            positive(name, size)
        if len(self) == 0:
            raise ValueError("There is nothing to sample from yet.")
        return self._rng.integers(len(self), size=tuple(sizes.values()))


# Nested dicts, and dicts of their leaves by name.


def flatten(nested: Mapping[str, PyTree], prefix: str = "") -> dict[str, PyTree]:
    """The leaves of a nested dict of arrays, by their keys joined with slashes.

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
            flat[name] = as_array(name, value)
    return flat


def unflatten(flat: Mapping[str, PyTree]) -> Arrays:
    """The nested dict whose leaves `flatten` gives by name."""
    return traverse_util.unflatten_dict(flat, sep=SEPARATOR)


def in_dicts(tree: PyTree) -> PyTree:
    """A pytree with tuples, lists and dataclasses as dicts of their parts, by name or number."""
    parts, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)
    if any(part is tree for _, part in parts):
        return tree
    return {jax.tree_util.keystr(path, simple=True): in_dicts(part) for path, part in parts}


def structured_as(example: PyTree, nested: PyTree) -> PyTree:
    """Undoes `in_dicts`.

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
    """A number, an array or lists of numbers, in the byte order of this machine, as JAX needs it.

    Raises:
        ValueError: The lists are ragged; the error names them.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name!r} is no array: {error}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def common_length(flat: Mapping[str, PyTree]) -> int:
    """The number of rows of all arrays.

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


# Choosing and copying rows.


def chosen(indx: PyTree, n_rows: int) -> np.ndarray:
    """The numbers of the rows that an index chooses; they may be out of range.

    Args:
        indx: Numbers of rows, or a boolean for each row.
        n_rows: Number of rows to choose from.

    Returns:
        The numbers, in an array of at least one axis.

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


def take(flat: Mapping[str, PyTree], indices: Any) -> Arrays:
    """Copies rows by their numbers, to a nested dict."""
    # `take` is faster, but it copies arrays that are not contiguous.
    return unflatten(
        {
            name: x.take(indices, axis=0) if x.flags.c_contiguous else x[indices]
            for name, x in flat.items()
        }
    )


# Checks.


def check_has(user: str, keys: Sequence[str], arrays: Any, holder: str) -> None:
    """Raises unless there are arrays under some keys.

    Args:
        user: The beginning of a sentence about the keys, such as "Minari needs".
        keys: The keys.
        arrays: A dict of arrays, which may be nested, or a dataset.
        holder: Its name.

    Raises:
        KeyError: A key is missing.
    """
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise KeyError(
            f"{user} {list(keys)}, but {holder} lacks {missing}; it has {sorted(arrays)}."
        )


def check_columns(user: str, keys: Sequence[str], arrays: Any, holder: str) -> None:
    """Raises unless there are arrays, with one number for each row other than successors.

    Args:
        user: Its name.
        keys: The keys that it needs.
        arrays: A dict of arrays, which may be nested, or a dataset.
        holder: Its name.

    Raises:
        KeyError: A key is missing.
        ValueError: An array has another shape.
    """
    check_has(f"{user} needs", keys, arrays, holder)
    for key in keys:
        if key != "next_observations" and np.ndim(arrays[key]) != 1:
            raise ValueError(
                f"{user} needs one number of {key!r} for each row, got shape {np.shape(arrays[key])}."
            )


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


def check_kind(
    name: str, dtype: np.dtype, expected: np.dtype, numbers: AnyArray | None = None
) -> None:
    """Raises if a buffer would have to round numbers, or to wrap them.

    Args:
        name: Their key.
        dtype: Their type.
        expected: The type that it holds.
        numbers: The numbers, if they are known.

    Raises:
        TypeError: They are of another kind.
        ValueError: One of them is too large or too small.
    """
    if not np.can_cast(dtype, expected, "same_kind"):
        raise TypeError(
            f"{name!r} has type {dtype}, but the buffer holds {expected}, as in the example that it was "
            f"created with: make the example {dtype}, or cast what is added to {expected}."
        )
    if numbers is not None and expected.kind in "iu" and not np.can_cast(dtype, expected):
        limits, numbers = np.iinfo(expected), np.asarray(numbers)
        outside = numbers[(numbers < limits.min) | (numbers > limits.max)]
        if outside.size:
            raise ValueError(
                f"{name!r} has the value {outside[0]}, but the buffer holds {expected}, from "
                f"{limits.min} to {limits.max}."
            )
