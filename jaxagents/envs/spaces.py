"""Spaces of actions and observations, recognised by their attributes, whichever suite they come from."""

import dataclasses
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Key, PyTree

from jaxagents import ops
from jaxagents.core.observed import is_observed_beside, network_input

Space = Any
"""A space of gymnax or of Gymnasium, one of the classes below, or anything with their attributes."""


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
        nvec: The numbers of values of the components. Observations may have several axes: tuples of
            tuples.
        dtype: Their type.
    """

    nvec: Any
    dtype: DTypeLike = np.int32

    def __post_init__(self) -> None:
        """Takes arrays and lists of numbers too."""
        object.__setattr__(self, "nvec", _in_tuples(np.asarray(self.nvec).tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a vector."""
        return np.shape(self.nvec)


@dataclasses.dataclass(frozen=True, eq=False)
class Box:
    """Arrays between two bounds; two boxes are equal if their bounds are.

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

    @functools.cached_property
    def _value(self) -> tuple:
        bounds = (bound.ravel().tolist() for bound in box_bounds(self, self.dtype))
        return (tuple(self.shape), np.dtype(self.dtype), *map(tuple, bounds))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclasses.dataclass(frozen=True)
class Composite:
    """Dicts or tuples of the values of other spaces.

    Attributes:
        spaces: The spaces, by name or in order.
    """

    spaces: Mapping[str, Space] | Sequence[Space]


def _in_tuples(numbers: Any) -> Any:
    return tuple(map(_in_tuples, numbers)) if isinstance(numbers, list) else numbers


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


def is_bounded(space: Space) -> bool:
    """Whether every bound of a box is finite."""
    low, high = box_bounds(space)
    largest = np.finfo(np.float32).max
    return bool(np.all(low > -largest) and np.all(high < largest))


def parts(space: Space) -> dict[Any, Any] | None:
    """The parts of a composite space, by name or position; `None` if it has none."""
    spaces = getattr(space, "spaces", None)
    if spaces is None:
        return None
    return dict(spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces))


def leaves(space: Space) -> list[Space]:
    """The parts of a space that have no parts: the space itself, if it has none."""
    children = parts(space)
    if children is None:
        return [space]
    return [leaf for child in children.values() for leaf in leaves(child)]


def map_spaces(function: Callable[..., Any], space: Space, *trees: PyTree) -> PyTree:
    """Calls a function with each part of a space, or with the space itself if it has no parts.

    Args:
        function: Takes a space, and its part of each of the pytrees; `None` for one that is missing.
        space: The space.
        *trees: Pytrees of the structure of the space.

    Returns:
        The results, in the same structure.
    """
    children = parts(space)
    if children is None:
        return function(space, *trees)

    def part(tree: PyTree, name: Any) -> PyTree:
        if tree is None:
            return None
        return tree.get(name) if isinstance(tree, Mapping) else tree[name]

    mapped = {
        name: map_spaces(function, child, *(part(tree, name) for tree in trees))
        for name, child in children.items()
    }
    return mapped if isinstance(space.spaces, Mapping) else tuple(mapped.values())


def network_space(space: Space) -> Space:
    """The part of a space of observations that networks see, without masks of actions for instance."""
    children = parts(space)
    return network_input(children) if is_observed_beside(children) else space


def box_bounds(space: Space, dtype: DTypeLike = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of a box, broadcast to its shape, as numbers of a type."""
    shape = tuple(space.shape)
    low, high = np.asarray(space.low, dtype), np.asarray(space.high, dtype)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def size_of(space: Space) -> int:
    """The number of actions of a discrete space, or of components of another."""
    return int(space.n) if is_discrete(space) else math.prod(space.shape)


def widest_space(spaces: Sequence[Space], name: str) -> Space:
    """One space for the actions of several actors.

    Args:
        spaces: The spaces of each.
        name: Name of the environment.

    Returns:
        The largest of them, which begins with all others.

    Raises:
        TypeError: There is none.
    """
    if all(map(is_discrete, spaces)):
        return Discrete(max(map(size_of, spaces)))
    if all(is_box(space) and len(space.shape) == 1 for space in spaces):
        widest = max(spaces, key=size_of)
        bounds = np.stack(box_bounds(widest))
        if all(np.array_equal(box_bounds(each), bounds[:, : size_of(each)]) for each in spaces):
            return Box(*box_bounds(widest, widest.dtype), tuple(widest.shape), widest.dtype)
    raise TypeError(
        f"The agents of {name} act in spaces that are not alike: {[*spaces]}. All must be discrete, or "
        "all boxes with the same bounds."
    )


def sample(space: Space, key: Key[Array, ""], mask: PyTree = None) -> PyTree:
    """Draws an action uniformly; components without bounds from a normal distribution.

    Args:
        space: The space.
        key: Random key.
        mask: Which discrete actions are allowed, structured as the space; `None` if all are.

    Returns:
        The action.

    Raises:
        ValueError: The space is of another kind.
    """
    treedef = jax.tree.structure(map_spaces(lambda space: 0, space))
    keys = treedef.unflatten(jax.random.split(key, treedef.num_leaves))
    return map_spaces(_sample_part, space, keys, mask)


def _sample_part(space: Space, key: Key[Array, ""], mask: PyTree) -> Array:
    if is_multi_discrete(space):
        masks = [None] * len(space.nvec) if mask is None else mask
        components = zip(jax.random.split(key, len(space.nvec)), space.nvec, masks, strict=True)
        return jnp.stack([ops.random_actions(key, int(n), mask) for key, n, mask in components])
    if is_discrete(space):
        return ops.random_actions(key, int(space.n), mask)
    if not is_box(space):
        raise ValueError(f"Actions cannot be drawn from the space {space!r}: give sample_action.")
    low, high = box_bounds(space)
    bounded = np.isfinite(high - low) & (high - low < np.finfo(np.float32).max)
    uniform = jax.random.uniform(key, low.shape, jnp.float32)
    within = low + uniform * np.where(bounded, high - low, 0.0).astype(np.float32)
    normal = jnp.clip(jax.random.normal(key, low.shape, jnp.float32), low, high)
    return jnp.where(bounded, within, normal)


def check_declared(action_space: Any, observation_space: Any, env: str) -> None:
    """Raises if an environment declares something else than spaces, or observed integers start late.

    Args:
        action_space: The declared space of actions.
        observation_space: The declared space of observations, whose integers networks see as one-hot.
        env: Name of the environment.

    Raises:
        TypeError: A class, a method or a number is declared as a space.
        ValueError: Observed integers do not start at 0.
    """
    declared = {"action_space": action_space, "observation_space": observation_space}
    for name, space in declared.items():
        what = f"{env}.{name}"
        if isinstance(space, type):
            raise TypeError(
                f"{what} is the class {space.__name__}: make a space of it, such as Discrete(4)."
            )
        if inspect.isroutine(space):
            raise TypeError(
                f"{what} is a method, but must be a space: write @property above it, or make it an "
                f"attribute, such as {name} = Discrete(4)."
            )
        if isinstance(space, numbers.Number):
            raise TypeError(
                f"{what} is {space!r}, which is no space: declare one, such as Discrete({space}) of "
                "jaxagents.envs.spaces."
            )
    remedy = "leave out start, and subtract it from the observations"
    check_starts_at_0(observation_space, f"{env}.observation_space", remedy)


def check_components(space: Space, what: str) -> None:
    """Raises if agents cannot act in a space.

    Args:
        space: The space.
        what: Its name, for the message.

    Raises:
        ValueError: Integers do not start at 0, or have several axes, or a component of a box has a
            single value or none.
    """
    check_starts_at_0(space, what, "leave out start, and add it to the actions in the step")
    for part in leaves(space):
        if is_multi_discrete(part) and np.ndim(part.nvec) != 1:
            raise ValueError(
                f"{what} must hold vectors, so that nvec has one axis, got {part!r}: flatten it, and "
                "reshape the actions in the step."
            )
        if is_box(part) and not np.less(*box_bounds(part)).all():
            raise ValueError(
                f"{what} must have low below high in every component, got {part!r}: leave out those "
                "that cannot vary."
            )


def check_starts_at_0(space: Space, what: str, remedy: str) -> None:
    """Raises if integers of a space start at another number.

    Args:
        space: The space.
        what: Its name, for the message.
        remedy: The way to have them start at 0, for the message.

    Raises:
        ValueError: They do.
    """
    for part in leaves(space):
        is_integer = is_discrete(part) or is_multi_discrete(part)
        if is_integer and np.any(getattr(part, "start", 0)):
            raise ValueError(f"{what} must hold integers that start at 0, got {part!r}: {remedy}.")
