"""The units of actions: the boxes that they are expressed in, and the map from one box to another."""

import warnings
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Array, PyTree

from jaxagents.core.arrays import atleast_nd
from jaxagents.envs.spaces import Box, Space, box_bounds, is_bounded, is_box

ACTIONS = "actions"
_TOLERANCE = 1e-3

ActionsT = TypeVar("ActionsT", Array, np.ndarray)
Bounds = Any
"""A space, or a pair of its lower and upper bounds."""


@jax.tree_util.register_pytree_with_keys_class
class Transitions(dict[str, PyTree]):
    """A dict of arrays that knows the box of its actions, which datasets and buffers made of it keep.

    Attributes:
        action_space: The box; `None` if it is not known, or if actions are of no bounded box.
    """

    action_space: Box | None = None

    def __init__(self, arrays: Mapping[str, PyTree], action_space: Space = None) -> None:
        """Takes arrays, and the space of their actions."""
        super().__init__(arrays)
        self.action_space = box_of(action_space)

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, PyTree]], tuple]:
        """The arrays in the order of their keys, for JAX."""
        keys = sorted(self)
        children = [(jax.tree_util.DictKey(key), self[key]) for key in keys]
        return children, (tuple(keys), self.action_space)

    @classmethod
    def tree_unflatten(cls, known: tuple, children: Any) -> "Transitions":
        """Makes a dict of the arrays that JAX gives back."""
        keys, action_space = known
        return cls(dict(zip(keys, children, strict=True)), action_space)


def box_of(space: Bounds, shape: tuple[int, ...] | None = None) -> Box | None:
    """The box that actions of a space are expressed in.

    Args:
        space: The space, or a pair of its bounds.
        shape: Shape of an action; the space's by default.

    Returns:
        The box, with bounds of single precision, so that equal ones are equal wherever they come from;
            `None` if there is no space, or if it is no box with finite bounds, each lower one below the
            upper one.

    Raises:
        ValueError: The space has another shape.
        TypeError: It is neither a space nor a pair.
    """
    if callable(space) or isinstance(space, str | int | float):
        raise TypeError(
            "action_space must be a space, such as env.action_space of Gymnasium or "
            f"env.action_space(env_params) of gymnax, or a pair of bounds, as (-1, 1), got {space!r}."
        )
    if type(space) in (tuple, list):  # spaces may be named tuples
        low, high = (np.asarray(bound, np.float32) for bound in space)
        space = Box(low, high, np.broadcast_shapes(low.shape, high.shape, shape or ()))
    if space is None or not is_box(space) or not is_bounded(space):
        return None
    if shape is not None and tuple(space.shape) != shape:
        raise ValueError(
            f"Actions have shape {shape}, but their space has {tuple(space.shape)}: {space!r}."
        )
    low, high = box_bounds(space)
    return Box(low, high, tuple(space.shape)) if low.size and np.all(low < high) else None


def box_of_arrays(
    flat: Mapping[str, PyTree], known: Bounds, space: Bounds, n_axes: int = 1
) -> Box | None:
    """The box of the actions among arrays, as they know it themselves, or as it is given.

    Args:
        flat: Arrays by name.
        known: The box that they know; `None` if they know none.
        space: The space of the actions, or a pair of its bounds; `None` if it is not given.
        n_axes: Number of leading axes of each array.

    Returns:
        The box; `None` if there is no array of actions, or see `box_of`.

    Raises:
        ValueError: A space has another shape, or the arrays know another box.
    """
    if not hasattr(flat.get(ACTIONS), "shape"):  # there is none, or a dict of several
        return None
    shape = tuple(flat[ACTIONS].shape[n_axes:])
    known, given = box_of(known, shape), box_of(space, shape)
    if known is not None and given is not None and known != given:
        raise ValueError(
            f"The actions are known to be in the box {words(known)}, not {words(given)}: leave out "
            "action_space, or --dataset-actions on the command line."
        )
    return known if given is None else given


def known_box(arrays: object) -> Box | None:
    """The box that a dataset or a dict knows its actions to be in; `None` if it does not say."""
    return getattr(arrays, "action_space", None)


def words(box: Box) -> str:
    """The bounds of a box, as `action_space` takes them: `(-2, 2)`, or `([-2, -1], [2, 1])`."""

    def bound(x: np.ndarray) -> str:
        is_one = np.all(x == x.flat[0])
        return f"{x.flat[0]:g}" if is_one else str(x.astype(str).tolist()).replace("'", "")

    return f"({', '.join(map(bound, box_bounds(box)))})"


# From one box to another.


def from_unit(actions: ActionsT, space: Space) -> ActionsT:
    """Actions in a box, from actions in [-1, 1]; none of them rounds to just outside of the box."""
    dtype = np.result_type(actions.dtype, np.float32)
    low, high = (atleast_nd(bound, actions.ndim) for bound in box_bounds(space, dtype))
    within = (atleast_nd(bound, actions.ndim) for bound in _bounds_within(space, dtype))
    return (actions * (0.5 * (high - low)) + 0.5 * (low + high)).clip(*within)


def to_unit(actions: ActionsT, space: Space) -> ActionsT:
    """Actions in [-1, 1], to which they are clipped, from actions in a box."""
    dtype = np.result_type(actions.dtype, np.float32)
    low, high = (atleast_nd(bound, actions.ndim) for bound in box_bounds(space, dtype))
    return ((actions * 2.0 - (high + low)) / (high - low)).clip(-1.0, 1.0)


def _bounds_within(space: Space, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bounds as numbers of a type that lie in the box, where it has bounds of a more precise one."""
    low, high = box_bounds(space, dtype)
    exact_low, exact_high = box_bounds(space, np.float64)
    inf = dtype.type(np.inf)
    low = np.where(low < exact_low, np.nextafter(low, inf), low)
    return low, np.where(high > exact_high, np.nextafter(high, -inf), high)


# Actions whose box is not known.


def lie_within(actions: np.ndarray, space: Space) -> bool:
    """Whether all actions lie in a box, up to rounding."""
    low, high = box_bounds(space)
    slack = _TOLERANCE * (high - low)
    return bool(np.all((actions >= low - slack) & (actions <= high + slack)))


def check_units(actions: np.ndarray, box: Box | None, name: str) -> None:
    """Raises or warns where actions of an unknown box may not be in the environment's units.

    Args:
        actions: Actions that do not say which box they are expressed in.
        box: The environment's.
        name: Name of the environment.

    Raises:
        ValueError: They are not, since they leave the environment's box, but not [-1, 1].
    """
    unit = box_of((-1.0, 1.0), actions.shape[1:])
    if box in (None, unit) or not len(actions) or not lie_within(actions, unit):
        return
    found = (
        "The dataset does not say which units its actions are in. They lie in "
        f"[{actions.min():g}, {actions.max():g}], and {name}'s action_space is {words(box)}"
    )
    hint = (
        f"Say which: action_space={words(box)} or action_space=(-1, 1), an argument of Dataset and of "
        "Dataset.load, or --dataset-actions on the command line."
    )
    if not lie_within(actions, box):
        raise ValueError(f"{found}: they seem to be rescaled to (-1, 1). {hint}")
    warnings.warn(
        f"{found}: they are taken for the environment's own actions, but may have been rescaled to "
        f"(-1, 1), as jaxagents.host.rescale_actions does. {hint}",
        stacklevel=2,
    )
