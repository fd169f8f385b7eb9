"""Telling spaces apart by their attributes, whichever suite they come from."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxagents.core.action_masks import action_mask, without_action_mask

Space = Any
"""A space of gymnax or of Gymnasium, or one like them."""


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


def space_without_mask(space: Space) -> Space:
    """The space of what networks see of observations, which is not which actions are allowed.

    Args:
        space: A space of observations.

    Returns:
        The space; of one with a mask of actions, the other parts by name, or that of `"observation"` if
        there is no other.
    """
    children = parts(space)
    has_mask = children is not None and action_mask(children) is not None
    return without_action_mask(children) if has_mask else space


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
