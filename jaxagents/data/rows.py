"""Nested dicts of arrays with common rows, and sampling of rows."""

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
"""Keys that n-step transitions take from their last row."""


class Sampled:
    """Base class for uniform sampling of rows, with replacement."""

    _flat: dict[str, PyTree]
    _rng: np.random.Generator

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    def sample(self, batch_size: int, indx: PyTree = None) -> Arrays:
        """Draws rows uniformly, with replacement, and copies them.

        Args:
            batch_size: Number of rows.
            indx: The rows to take instead: `batch_size` indices; an array of indices shaped
                `(..., batch_size)`, for several batches; or a boolean mask of all rows that selects
                `batch_size` of them.

        Returns:
            A nested dict of arrays with `batch_size` rows, or with leading axes as in `indx`.

        Raises:
            ValueError: There are no rows yet, `batch_size` is not positive, or `indx` is a scalar or
                selects a different number of rows.
            IndexError: An index is out of range, or the mask has the wrong length.
            TypeError: `indx` holds neither integers nor booleans.
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
        """Draws several batches, with the same rows as `n_batches` calls of `sample`.

        Args:
            n_batches: Number of batches.
            batch_size: Number of rows per batch.

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


# Conversion between nested and flat dicts.


def flatten(nested: Mapping[str, PyTree], prefix: str = "") -> dict[str, PyTree]:
    """Flattens a nested dict of arrays; nested keys are joined with slashes.

    Raises:
        TypeError: A key is not a string.
        ValueError: A key contains a slash, or a value is not an array; the message names the key.
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
    """Undoes `flatten`."""
    return traverse_util.unflatten_dict(flat, sep=SEPARATOR)


def in_dicts(tree: PyTree) -> PyTree:
    """Converts tuples, lists and dataclasses in a pytree to dicts, keyed by name or index."""
    parts, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)
    if any(part is tree for _, part in parts):
        return tree
    return {jax.tree_util.keystr(path, simple=True): in_dicts(part) for path, part in parts}


def structured_as(example: PyTree, nested: PyTree) -> PyTree:
    """Undoes `in_dicts`.

    Args:
        example: A pytree that may contain tuples, lists and dataclasses.
        nested: An array, or nested dicts of arrays.

    Returns:
        The arrays, structured like the example.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(example)
    names = [[jax.tree_util.keystr((key,), simple=True) for key in path] for path, _ in paths]
    return jax.tree.unflatten(
        structure, [functools.reduce(operator.getitem, path, nested) for path in names]
    )


def as_array(name: str, value: object) -> np.ndarray:
    """Converts a number or nested lists to an array in native byte order, as JAX needs.

    Raises:
        ValueError: The lists are ragged; the message names the key.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name!r} is not an array: {error}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def common_length(flat: Mapping[str, PyTree]) -> int:
    """The common number of rows of all arrays.

    Raises:
        ValueError: There are no arrays, one is a scalar, or their lengths differ.
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


# Selecting and copying rows.


def chosen(indx: PyTree, n_rows: int) -> np.ndarray:
    """Converts an index to row indices, which may be out of range.

    Args:
        indx: Row indices, or a boolean mask of all rows.
        n_rows: Number of rows to select from.

    Returns:
        Row indices, in an array of at least one axis.

    Raises:
        TypeError: The index holds neither integers nor booleans.
        ValueError: The index is a scalar.
        IndexError: The mask has the wrong length.
    """
    indices = np.asarray(indx)
    if indices.dtype == bool and indices.shape != (n_rows,):
        raise IndexError(
            f"Booleans must be one for each of the {n_rows} rows, got shape {indices.shape}."
        )
    if indices.size and indices.dtype.kind not in "biu":
        raise TypeError(f"Rows are chosen by integers or by booleans, got {indices.dtype}.")
    if indices.ndim == 0:
        raise ValueError(f"Rows are chosen by a list of indices, got {indices}; try [{indices}].")
    return np.flatnonzero(indices) if indices.dtype == bool else indices.astype(np.intp, copy=False)


def take(flat: Mapping[str, PyTree], indices: Any) -> Arrays:
    """Copies rows to a nested dict."""
    # `take` is faster, but copies the whole array if it is not contiguous.
    return unflatten(
        {
            name: x.take(indices, axis=0) if x.flags.c_contiguous else x[indices]
            for name, x in flat.items()
        }
    )


# Checks.


def check_has(user: str, keys: Sequence[str], arrays: Any, holder: str) -> None:
    """Raises unless all keys exist.

    Args:
        user: Beginning of the message, such as "Minari needs".
        keys: Required keys.
        arrays: A possibly nested dict of arrays, or a dataset.
        holder: Name of `arrays`, for the message.

    Raises:
        KeyError: A key is missing.
    """
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise KeyError(
            f"{user} {list(keys)}, but {holder} lacks {missing}; it has {sorted(arrays)}."
        )


def check_columns(user: str, keys: Sequence[str], arrays: Any, holder: str) -> None:
    """Raises unless all keys exist and hold one number per row, except for successors.

    Args:
        user: Name of the function that needs them.
        keys: Required keys.
        arrays: A possibly nested dict of arrays, or a dataset.
        holder: Name of `arrays`, for the message.

    Raises:
        KeyError: A key is missing.
        ValueError: An array has a different shape.
    """
    check_has(f"{user} needs", keys, arrays, holder)
    for key in keys:
        if key != "next_observations" and np.ndim(arrays[key]) != 1:
            raise ValueError(
                f"{user} needs one number of {key!r} for each row, got shape {np.shape(arrays[key])}."
            )


def check_ends(masks: np.ndarray, ends: np.ndarray) -> None:
    """Checks that episodes end where they terminated.

    Args:
        masks: 0 where the episode terminated, else 1.
        ends: Whether the row is the last of its episode.

    Raises:
        ValueError: A row with a mask of 0 is not an end; the message names the first.
    """
    terminated_inside = (np.asarray(masks) == 0) & ~np.asarray(ends, bool)
    if terminated_inside.any():
        row = int(np.argmax(terminated_inside))
        raise ValueError(f"Row {row} has a mask of 0, so 'ends' must be true there.")


def check_kind(
    name: str, dtype: np.dtype, expected: np.dtype, numbers: AnyArray | None = None
) -> None:
    """Raises if a buffer would have to round numbers or wrap them around.

    Args:
        name: Key of the numbers.
        dtype: Dtype of the numbers.
        expected: Dtype of the buffer.
        numbers: The numbers, if known.

    Raises:
        TypeError: The dtypes are of different kinds.
        ValueError: A number is out of range.
    """
    if not np.can_cast(dtype, expected, "same_kind"):
        raise TypeError(
            f"{name!r} has type {dtype}, but the buffer holds {expected}, like the example that "
            f"it was created with: make the example {dtype}, or cast what you add to {expected}."
        )
    if numbers is not None and expected.kind in "iu" and not np.can_cast(dtype, expected):
        limits, numbers = np.iinfo(expected), np.asarray(numbers)
        outside = numbers[(numbers < limits.min) | (numbers > limits.max)]
        if outside.size:
            raise ValueError(
                f"{name!r} has the value {outside[0]}, but the buffer holds {expected}, from "
                f"{limits.min} to {limits.max}."
            )
