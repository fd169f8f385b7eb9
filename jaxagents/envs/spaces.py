"""Telling spaces apart by what they offer, whichever suite they come from."""

from typing import Any

import numpy as np


def is_discrete(space: Any) -> bool:
    """Whether a space holds the integers from 0 to `space.n - 1`."""
    return hasattr(space, "n")


def is_box(space: Any) -> bool:
    """Whether a space holds arrays between `space.low` and `space.high`."""
    return hasattr(space, "low") and hasattr(space, "high")


def box_bounds(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of a box, broadcast to its shape."""
    shape = tuple(space.shape)
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def is_bounded(space: Any) -> bool:
    """Whether every bound of a box is finite."""
    low, high = box_bounds(space)
    largest = np.finfo(np.float32).max
    return bool(np.all(low > -largest) and np.all(high < largest))
