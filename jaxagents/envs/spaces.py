"""Telling spaces apart by their attributes, whichever suite they come from."""

import dataclasses
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import PyTree

from jaxagents.core.observed import is_observed_beside, network_input

Space = Any
"""A space of gymnax or of Gymnasium, one of those below, or one like them."""


@dataclasses.dataclass(frozen=True)
class Discrete:
    """The integers from 0 to `n - 1`.

    Attributes:
        n: Their number.
        dtype: Their type.
    """

    n: int
    dtype: DTypeLike = np.int32
    shape: ClassVar[tuple[int, ...]] = ()


@dataclasses.dataclass(frozen=True)
class MultiDiscrete:
    """Vectors of integers, the i-th from 0 to `nvec[i] - 1`.

    Attributes:
        nvec: The numbers of values of the components.
        dtype: Their type.
    """

    nvec: tuple[int, ...]
    dtype: DTypeLike = np.int32

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a vector."""
        return (len(self.nvec),)


@dataclasses.dataclass(frozen=True, eq=False)
class Box:
    """Arrays between two bounds.

    Attributes:
        low: Lower bounds, broadcastable to the shape.
        high: Upper bounds, broadcastable to the shape.
        shape: Shape of an array.
        dtype: Type of its numbers.
    """

    low: ArrayLike
    high: ArrayLike
    shape: tuple[int, ...]
    dtype: DTypeLike = np.float32


@dataclasses.dataclass(frozen=True)
class Composite:
    """Dicts or tuples of what other spaces hold.

    Attributes:
        spaces: The spaces, by name or in order.
    """

    spaces: Mapping[str, Space] | Sequence[Space]


def is_discrete(space: Space) -> bool:
    """Whether a space holds the integers from 0 to `space.n - 1`, one at a time."""
    return hasattr(space, "n") and not getattr(space, "shape", None)


def is_box(space: Space) -> bool:
    """Whether a space holds arrays between `space.low` and `space.high`."""
    return hasattr(space, "low") and hasattr(space, "high")


def is_multi_discrete(space: Space) -> bool:
    """Whether a space holds vectors of integers, the i-th from 0 to `space.nvec[i] - 1`."""
    return hasattr(space, "nvec")


def is_array(space: Space) -> bool:
    """Whether a space holds arrays of one shape, `space.shape`."""
    return hasattr(space, "shape")


def parts(space: Space) -> dict[Any, Any] | None:
    """The spaces that a space is made of, by name or position; `None` if it is not made of any."""
    spaces = getattr(space, "spaces", None)
    if spaces is None:
        return None
    return dict(spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces))


def map_spaces(function: Callable[..., Any], space: Space, *trees: PyTree) -> PyTree:
    """Calls a function with each of the spaces that a space is made of, or with the space itself.

    Args:
        function: Takes a space, and its part of each of the pytrees; `None` for one that is missing.
        space: The space.
        *trees: Pytrees of the structure of the space.

    Returns:
        What the function returns, structured in the same way.
    """
    children = parts(space)
    if children is None:
        return function(space, *trees)
    mapped = {
        name: map_spaces(function, child, *(_part(tree, name) for tree in trees))
        for name, child in children.items()
    }
    return mapped if isinstance(space.spaces, Mapping) else tuple(mapped.values())


def _part(tree: PyTree, name: Any) -> PyTree:
    if tree is None:
        return None
    return tree.get(name) if isinstance(tree, Mapping) else tree[name]


def network_space(space: Space) -> Space:
    """The space of what networks see of observations: not of masks of actions, for instance.

    Args:
        space: A space of observations.

    Returns:
        The space; of one with such entries, the other parts by name, or that of `"observation"` if
        there is no other.
    """
    children = parts(space)
    return network_input(children) if is_observed_beside(children) else space


def box_bounds(space: Space, dtype: DTypeLike = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of a box, broadcast to its shape, as numbers of a type."""
    shape = tuple(space.shape)
    low, high = np.asarray(space.low, dtype), np.asarray(space.high, dtype)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def check_is_space(space: Any, what: str) -> None:
    """Raises if something that is declared as a space is a class, a method or a number.

    Args:
        space: What is declared.
        what: Its name, for the message.

    Raises:
        TypeError: It is.
    """
    if isinstance(space, type):
        raise TypeError(
            f"{what} is the class {space.__name__}: make a space of it, such as Discrete(4)."
        )
    if inspect.isroutine(space):
        raise TypeError(
            f"{what} is a method, but must be a space: write @property above it, or make it an "
            f"attribute, such as {what.rpartition('.')[2]} = Discrete(4)."
        )
    if isinstance(space, numbers.Number):
        raise TypeError(
            f"{what} is {space!r}, which is no space: declare one, such as Discrete({space}) of "
            "jaxagents.envs.spaces."
        )


def check_components(space: Space, what: str) -> None:
    """Raises if agents cannot give the values of a space that is not made of others.

    Args:
        space: The space.
        what: Its name, for the message.

    Raises:
        ValueError: Integers do not start at 0, or have several axes, or a box has a component of a
            single value or of none.
    """
    if is_multi_discrete(space) and np.ndim(space.nvec) != 1:
        raise ValueError(
            f"{what} must be of vectors, of which nvec has one axis, got {space!r}: flatten it, and "
            "reshape the actions in the step."
        )
    if is_discrete(space) or is_multi_discrete(space):
        _check_starts_at_0(space, what, "add it to the actions in the step")
    if is_box(space):
        low, high = box_bounds(space)
        if not np.all(low < high):
            raise ValueError(
                f"{what} must have low below high in every component, got {space!r}: leave out those "
                "that cannot vary."
            )


def check_observed(space: Space, what: str) -> None:
    """Raises if integers that are observed do not start at 0, as one-hot vectors do.

    Args:
        space: The space of observations.
        what: Its name, for the message.

    Raises:
        ValueError: They do not.
    """

    def check(part: Space) -> None:
        if is_discrete(part):
            _check_starts_at_0(part, what, "subtract it from the observations")

    map_spaces(check, space)


def _check_starts_at_0(space: Space, what: str, remedy: str) -> None:
    if np.any(getattr(space, "start", 0)):
        raise ValueError(
            f"{what} must hold integers that start at 0, got {space!r}: leave out start, and {remedy}."
        )


def is_bounded(space: Space) -> bool:
    """Whether every bound of a box is finite."""
    low, high = box_bounds(space)
    largest = np.finfo(np.float32).max
    return bool(np.all(low > -largest) and np.all(high < largest))
