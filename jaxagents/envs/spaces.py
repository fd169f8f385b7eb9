"""Action and observation spaces of any suite, recognised by their attributes."""

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
from jaxagents.core.observed import has_extra_entries, network_input

Space = Any
"""A gymnax or Gymnasium space, one of the classes below, or any object with their attributes."""


@dataclasses.dataclass(frozen=True)
class Discrete:
    """The integers from 0 to `n - 1`.

    Attributes:
        n: Number of integers.
        dtype: Their dtype.
    """

    n: int
    dtype: DTypeLike = np.int32
    shape: ClassVar[tuple[int, ...]] = ()


@dataclasses.dataclass(frozen=True)
class MultiDiscrete:
    """Vectors of integers, the i-th from 0 to `nvec[i] - 1`.

    Attributes:
        nvec: Number of values of each component; nested tuples for observations with several axes.
        dtype: Dtype of the integers.
    """

    nvec: Any
    dtype: DTypeLike = np.int32

    def __post_init__(self) -> None:
        """Converts arrays and lists to tuples."""
        object.__setattr__(self, "nvec", _in_tuples(np.asarray(self.nvec).tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one element."""
        return np.shape(self.nvec)


@dataclasses.dataclass(frozen=True, eq=False)
class Box:
    """Arrays between two bounds; two boxes are equal if their bounds are.

    Attributes:
        low: Lower bounds, broadcastable to the shape.
        high: Upper bounds, broadcastable to the shape.
        shape: Shape of the arrays.
        dtype: Dtype of the arrays.
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
    """Dicts or tuples of elements of other spaces.

    Attributes:
        spaces: The spaces, by name or in order.
    """

    spaces: Mapping[str, Space] | Sequence[Space]


def _in_tuples(numbers: Any) -> Any:
    return tuple(map(_in_tuples, numbers)) if isinstance(numbers, list) else numbers


def is_space(x: object) -> bool:
    """Whether an object is a space rather than an array or a number."""
    return any(hasattr(x, name) for name in ("n", "low", "nvec", "spaces"))


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
    """The parts of a composite space by name or position; `None` for any other space."""
    spaces = getattr(space, "spaces", None)
    if spaces is None:
        return None
    return dict(spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces))


def leaves(space: Space) -> list[Space]:
    """The innermost parts of a composite space; the space itself if it has no parts."""
    children = parts(space)
    if children is None:
        return [space]
    return [leaf for child in children.values() for leaf in leaves(child)]


def map_spaces(function: Callable[..., Any], space: Space, *trees: PyTree) -> PyTree:
    """Maps a function over the innermost parts of a space, like `jax.tree.map`.

    Args:
        function: Takes a space and its part of each pytree, `None` where that is missing.
        space: The space.
        *trees: Pytrees with the structure of the space.

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
    """The part of an observation space that networks see, for instance without action masks."""
    children = parts(space)
    return network_input(children) if has_extra_entries(children) else space


def box_bounds(space: Space, dtype: DTypeLike = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of a box, broadcast to its shape and converted to a dtype."""
    shape = tuple(space.shape)
    low, high = np.asarray(space.low, dtype), np.asarray(space.high, dtype)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def size_of(space: Space) -> int:
    """Number of actions of a discrete space, or of components of any other space."""
    return int(space.n) if is_discrete(space) else math.prod(space.shape)


def widest_space(spaces: Sequence[Space], name: str) -> Space:
    """Finds one action space for several actors.

    Args:
        spaces: The action space of each actor.
        name: Name of the environment.

    Returns:
        The largest space, which contains the others as its first actions or components.

    Raises:
        TypeError: The spaces are too different.
    """
    if all(map(is_discrete, spaces)):
        return Discrete(max(map(size_of, spaces)))
    if all(is_box(space) and len(space.shape) == 1 for space in spaces):
        widest = max(spaces, key=size_of)
        bounds = np.stack(box_bounds(widest))
        if all(np.array_equal(box_bounds(each), bounds[:, : size_of(each)]) for each in spaces):
            return Box(*box_bounds(widest, widest.dtype), tuple(widest.shape), widest.dtype)
    raise TypeError(
        f"The agents of {name} have different kinds of action spaces: {[*spaces]}. All must be "
        "discrete, or all boxes with the same bounds."
    )


def sample(space: Space, key: Key[Array, ""], mask: PyTree = None) -> PyTree:
    """Draws a random action: uniform, or normal for unbounded components.

    Args:
        space: The space.
        key: Random key.
        mask: Which discrete actions are allowed, structured like the space; `None` if all are.

    Returns:
        The action.

    Raises:
        ValueError: Actions cannot be drawn from this kind of space.
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
        raise ValueError(f"Actions cannot be sampled from the space {space!r}: pass sample_action.")
    low, high = box_bounds(space)
    bounded = np.isfinite(high - low) & (high - low < np.finfo(np.float32).max)
    uniform = jax.random.uniform(key, low.shape, jnp.float32)
    within = low + uniform * np.where(bounded, high - low, 0.0).astype(np.float32)
    normal = jnp.clip(jax.random.normal(key, low.shape, jnp.float32), low, high)
    return jnp.where(bounded, within, normal)


def check_declared(action_space: Any, observation_space: Any, env: str) -> None:
    """Checks the spaces that an environment declares.

    Args:
        action_space: The declared action space.
        observation_space: The declared observation space, whose integers networks see as one-hot.
        env: Name of the environment.

    Raises:
        TypeError: A class, a method or a number is declared instead of a space.
        ValueError: Observed integers do not start at 0.
    """
    declared = {"action_space": action_space, "observation_space": observation_space}
    for name, space in declared.items():
        what = f"{env}.{name}"
        if isinstance(space, type):
            raise TypeError(
                f"{what} is the class {space.__name__}: use an instance, such as Discrete(4)."
            )
        if inspect.isroutine(space):
            raise TypeError(
                f"{what} is a method, but must be a space: write @property above it, or make it an "
                f"attribute, such as {name} = Discrete(4)."
            )
        if isinstance(space, numbers.Number):
            raise TypeError(
                f"{what} is {space!r}, which is not a space: use one, such as "
                f"jaxagents.envs.spaces.Discrete({space})."
            )
    remedy = "leave out start, and subtract it from the observations"
    check_starts_at_0(observation_space, f"{env}.observation_space", remedy)


def check_components(space: Space, what: str) -> None:
    """Raises if agents cannot act in a space.

    Args:
        space: The space.
        what: Name of the space, for the message.

    Raises:
        ValueError: Integers do not start at 0 or have several axes, or a component of a box has at most
            one value.
    """
    check_starts_at_0(space, what, "leave out start, and add it to the actions in the step")
    for part in leaves(space):
        if is_multi_discrete(part) and np.ndim(part.nvec) != 1:
            raise ValueError(
                f"{what} must have an nvec with one axis, got {part!r}: flatten it, and reshape "
                "the actions in the step."
            )
        if is_box(part) and not np.less(*box_bounds(part)).all():
            raise ValueError(
                f"{what} must have low below high in every component, got {part!r}: leave out "
                "components that cannot vary."
            )


def check_starts_at_0(space: Space, what: str, remedy: str) -> None:
    """Raises if integers of a space do not start at 0.

    Args:
        space: The space.
        what: Name of the space, for the message.
        remedy: How to make them start at 0, for the message.

    Raises:
        ValueError: Some start at another number.
    """
    for part in leaves(space):
        is_integer = is_discrete(part) or is_multi_discrete(part)
        if is_integer and np.any(getattr(part, "start", 0)):
            raise ValueError(f"{what} must hold integers that start at 0, got {part!r}: {remedy}.")
