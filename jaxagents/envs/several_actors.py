"""One space for the actions of several actors."""

import math
from collections.abc import Sequence

import numpy as np

from jaxagents.envs.spaces import Box, Discrete, Space, box_bounds, is_box, is_discrete


def size_of(space: Space) -> int:
    """The number of actions of a discrete space, or of numbers of another."""
    return int(space.n) if is_discrete(space) else math.prod(space.shape)


def widest_space(spaces: Sequence[Space], name: str) -> Space:
    """The space of actions of all actors.

    Args:
        spaces: The spaces of each.
        name: Name of the environment.

    Returns:
        The largest of them, of which the others are a part.

    Raises:
        TypeError: There is none.
    """
    if all(map(is_discrete, spaces)):
        return Discrete(max(map(size_of, spaces)))
    if all(is_box(space) and len(space.shape) == 1 for space in spaces):
        widest = max(spaces, key=size_of)
        low, high = box_bounds(widest)
        if all(_is_part(space, low, high) for space in spaces):
            return Box(*box_bounds(widest, widest.dtype), tuple(widest.shape), widest.dtype)
    raise TypeError(
        f"The agents of {name} act in spaces that are not alike: {[*spaces]}. All must be discrete, or "
        "all boxes with the same bounds."
    )


def _is_part(space: Space, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether the bounds of a box are the first of others."""
    n, bounds = size_of(space), box_bounds(space)
    return np.array_equal(bounds[0], low[:n]) and np.array_equal(bounds[1], high[:n])
