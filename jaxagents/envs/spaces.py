"""Telling spaces apart by their attributes, whichever suite they come from."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Space = Any
"""A space of gymnax or of Gymnasium, or one like them."""


class Box(NamedTuple):
    """The arrays between two bounds.

    Attributes:
        low: Lower bounds.
        high: Upper bounds.
        shape: Shape of the arrays.
        dtype: Their type.
    """

    low: np.ndarray
    high: np.ndarray
    shape: tuple[int, ...]
    dtype: np.dtype


class Parts(NamedTuple):
    """The pytrees whose parts each lie in a space.

    Attributes:
        spaces: The spaces, by name or position.
    """

    spaces: Mapping[str, Space] | tuple[Space, ...]


def is_discrete(space: Space) -> bool:
    """Whether a space holds the integers from 0 to `space.n - 1`."""
    return hasattr(space, "n")


def is_box(space: Space) -> bool:
    """Whether a space holds arrays between `space.low` and `space.high`."""
    return hasattr(space, "low") and hasattr(space, "high")


def is_array(space: Space) -> bool:
    """Whether a space holds arrays of one shape, `space.shape`."""
    return hasattr(space, "shape")


def parts(space: Space) -> dict[Any, Any] | None:
    """The spaces that a space is made of, by name or position; `None` if it is not made of any."""
    spaces = getattr(space, "spaces", None)
    if spaces is None:
        return None
    return dict(spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces))


def box_bounds(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of a box, broadcast to its shape."""
    shape = tuple(space.shape)
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def is_bounded(space: Space) -> bool:
    """Whether every bound of a box is finite."""
    low, high = box_bounds(space)
    largest = np.finfo(np.float32).max
    return bool(np.all(low > -largest) and np.all(high < largest))
