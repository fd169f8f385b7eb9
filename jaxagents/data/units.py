"""Units of actions: the boxes that define them, and conversion between them."""

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
"""A space, or a pair of lower and upper bounds."""


@jax.tree_util.register_pytree_with_keys_class
class Transitions(dict[str, PyTree]):
    """A dict of arrays that records the box of its actions, for datasets and buffers created from it.

    Attributes:
        action_space: The box; `None` if unknown, or if actions have no finite bounds.
    """

    action_space: Box | None = None

    def __init__(self, arrays: Mapping[str, PyTree], action_space: Space = None) -> None:
        """Takes arrays and the space of their actions."""
        super().__init__(arrays)
        self.action_space = box_of(action_space)

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, PyTree]], tuple]:
        """Flattens the dict for JAX, in key order."""
        keys = sorted(self)
        children = [(jax.tree_util.DictKey(key), self[key]) for key in keys]
        return children, (tuple(keys), self.action_space)

    @classmethod
    def tree_unflatten(cls, known: tuple, children: Any) -> "Transitions":
        """Rebuilds the dict for JAX."""
        keys, action_space = known
        return cls(dict(zip(keys, children, strict=True)), action_space)


def box_of(space: Bounds, shape: tuple[int, ...] | None = None) -> Box | None:
    """Converts an action space to a `Box`.

    Args:
        space: The space, or a pair of its bounds.
        shape: Shape of an action; the space's by default.

    Returns:
        The box, with single-precision bounds, so that boxes from different sources compare equal; `None`
        if there is no space, or if it is not a box with finite bounds and low below high everywhere.

    Raises:
        ValueError: The space has a different shape.
        TypeError: `space` is neither a space nor a pair.
    """
    if callable(space) or isinstance(space, str | int | float):
        raise TypeError(
            "action_space must be a space, such as env.action_space of Gymnasium or "
            "env.action_space(env_params) of gymnax, or a pair of bounds, such as (-1, 1), got "
            f"{space!r}."
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
    """Determines the box of the actions among arrays.

    Args:
        flat: Arrays by name.
        known: The box recorded with the arrays; `None` if unknown.
        space: The user's action space, or a pair of its bounds; `None` if not given.
        n_axes: Number of leading axes of each array.

    Returns:
        The box; `None` if there is no array of actions, or where `box_of` returns `None`.

    Raises:
        ValueError: A space has a different shape, or the two boxes differ.
    """
    if not hasattr(flat.get(ACTIONS), "shape"):  # missing, or a dict of several
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
    """The box of a dataset's or a dict's actions; `None` if unknown."""
    return getattr(arrays, "action_space", None)


def words(box: Box) -> str:
    """Formats the bounds of a box as an `action_space`: `(-2, 2)`, or `([-2, -1], [2, 1])`."""

    def bound(x: np.ndarray) -> str:
        is_one = np.all(x == x.flat[0])
        return f"{x.flat[0]:g}" if is_one else str(x.astype(str).tolist()).replace("'", "")

    return f"({', '.join(map(bound, box_bounds(box)))})"


# Conversion between boxes.


def from_unit(actions: ActionsT, space: Space) -> ActionsT:
    """Converts actions from [-1, 1] to a box; rounding never takes them outside."""
    dtype = np.result_type(actions.dtype, np.float32)
    low, high = (atleast_nd(bound, actions.ndim) for bound in box_bounds(space, dtype))
    within = (atleast_nd(bound, actions.ndim) for bound in _bounds_within(space, dtype))
    return (actions * (0.5 * (high - low)) + 0.5 * (low + high)).clip(*within)


def to_unit(actions: ActionsT, space: Space) -> ActionsT:
    """Converts actions from a box to [-1, 1], clipping them."""
    dtype = np.result_type(actions.dtype, np.float32)
    low, high = (atleast_nd(bound, actions.ndim) for bound in box_bounds(space, dtype))
    return ((actions * 2.0 - (high + low)) / (high - low)).clip(-1.0, 1.0)


def _bounds_within(space: Space, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of a box in a lower precision, rounded inwards."""
    low, high = box_bounds(space, dtype)
    exact_low, exact_high = box_bounds(space, np.float64)
    inf = dtype.type(np.inf)
    low = np.where(low < exact_low, np.nextafter(low, inf), low)
    return low, np.where(high > exact_high, np.nextafter(high, -inf), high)


# Actions in an unknown box.


def lie_within(actions: np.ndarray, space: Space) -> bool:
    """Whether all actions lie in a box, up to rounding."""
    low, high = box_bounds(space)
    slack = _TOLERANCE * (high - low)
    return bool(np.all((actions >= low - slack) & (actions <= high + slack)))


def may_be_rescaled(actions: np.ndarray, box: Box) -> bool:
    """Whether actions of an unknown box may be in [-1, 1] rather than in an environment's box."""
    unit = box_of((-1.0, 1.0), actions.shape[1:])
    return box != unit and len(actions) > 0 and lie_within(actions, unit)


def check_units(actions: np.ndarray, box: Box | None, name: str) -> None:
    """Warns or raises if actions in unknown units may not be in the environment's.

    Args:
        actions: Actions in an unknown box.
        box: The environment's box.
        name: Name of the environment.

    Raises:
        ValueError: The actions lie in [-1, 1] but not in the environment's box.
    """
    if box is None or not may_be_rescaled(actions, box):
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
