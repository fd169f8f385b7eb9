"""Nested dicts of arrays whose rows belong together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = dict[str, Any]
SEPARATOR = "/"


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """The leaves of a nested dict, by their keys joined with slashes.

    Args:
        nested: Dict of arrays, or of such dicts.
        prefix: Name of the dict itself.

    Returns:
        The arrays by name.

    Raises:
        TypeError: A key is no string.
        ValueError: A key contains a slash.
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
            flat[name] = np.asarray(value)
    return flat


def unflatten(flat: Mapping[str, Any]) -> Arrays:
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


def common_length(flat: Mapping[str, np.ndarray]) -> int:
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


def take(flat: Mapping[str, np.ndarray], indices: Any) -> Arrays:
    """Copies rows.

    Args:
        flat: Arrays by name.
        indices: Numbers of the rows.

    Returns:
        The rows as a nested dict.
    """
    return unflatten({name: array.take(indices, axis=0) for name, array in flat.items()})
