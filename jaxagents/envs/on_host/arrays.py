"""Conversion of Gymnasium observations and actions to arrays for JAX."""

from collections.abc import Mapping

import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import PyTree

from jaxagents.core.observed import ACTION_MASK
from jaxagents.envs.spaces import (
    Box,
    Composite,
    Discrete,
    MultiDiscrete,
    Space,
    check_starts_at_0,
    is_box,
    leaves,
    map_spaces,
)

_IMAGE_NDIM = 3


def as_observation(observation: PyTree) -> PyTree:
    """Copies an observation and converts it for learners.

    Bytes stay bytes, and images of other integers (three axes or more) stay integers of a dtype that JAX
    supports: encoders expect integers in 0..255 and real numbers in 0..1. Everything else is cast to
    single precision.

    Args:
        observation: A number, an array, or a possibly nested dict of these.

    Returns:
        The copy.
    """
    if isinstance(observation, Mapping):
        return {name: as_observation(part) for name, part in observation.items()}
    array = np.asarray(observation)
    is_image = array.ndim >= _IMAGE_NDIM and array.dtype.kind in "iu"
    if is_image or array.dtype == np.uint8:
        return np.array(array, jax.dtypes.canonicalize_dtype(array.dtype))
    return np.array(array, np.float32)


def in_types_of(example: PyTree, observation: PyTree) -> PyTree:
    """Casts an observation to the entries and dtypes of an example.

    Encoders distinguish 0..255 from 0..1 by dtype, which would fail if an environment returned integers
    from a space of real numbers.

    Args:
        example: An observation from `example_observation`.
        observation: An observation from `as_observation`.

    Returns:
        The observation; arrays that cannot be cast are unchanged.
    """
    if isinstance(example, Mapping):
        return {name: in_types_of(part, observation[name]) for name, part in example.items()}
    fits = np.can_cast(observation.dtype, example.dtype, "same_kind")
    return observation.astype(example.dtype, copy=False) if fits else observation


def example_observation(space: spaces.Space) -> PyTree:
    """Returns an observation of zeros.

    Args:
        space: The observation space.

    Returns:
        The observation, converted by `as_observation`.

    Raises:
        ValueError: Observations are neither arrays nor dicts of arrays.
    """
    if isinstance(space, spaces.Dict):
        return {name: example_observation(part) for name, part in space.spaces.items()}
    if space.shape is None or space.dtype is None:
        raise ValueError(
            f"Observations must be arrays, or dicts of them, got {space}: flatten them with "
            "gymnasium.wrappers.FlattenObservation, or change them with TransformObservation."
        )
    return as_observation(np.zeros(space.shape, space.dtype))


def example_seen(space: spaces.Space) -> PyTree:
    """Returns an observation of zeros, as agents see it.

    Categories are integers, which networks see as one-hot vectors. In dicts, an entry `"action_mask"` is
    boolean, whatever its declared dtype.

    Args:
        space: The observation space.

    Returns:
        The observation.

    Raises:
        ValueError: Observations are neither arrays nor dicts of arrays.
    """
    own = own_space(space)
    if isinstance(own, Discrete | MultiDiscrete):
        return np.zeros(own.shape, np.int32)
    if not isinstance(space, spaces.Dict):
        return example_observation(space)
    example = {name: example_seen(part) for name, part in space.spaces.items()}
    if ACTION_MASK in example:
        example[ACTION_MASK] = jax.tree.map(lambda x: x.astype(bool), example[ACTION_MASK])
    return example


def own_space(space: spaces.Space) -> Space:
    """Converts a Gymnasium space to one of our spaces, which have no random generator.

    Args:
        space: The space.

    Returns:
        The space. Integers that start above 0 get the values from 0 on too, which never occur. If they
            start below 0, or for other kinds of spaces, it is an unbounded box.
    """
    if isinstance(space, spaces.Dict):
        return Composite({name: own_space(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return Composite(tuple(map(own_space, space.spaces)))
    if isinstance(space, spaces.Discrete) and space.start >= 0:
        return Discrete(int(space.start + space.n), space.dtype)
    if isinstance(space, spaces.MultiDiscrete) and (space.start >= 0).all():
        return MultiDiscrete(space.start + space.nvec, space.dtype)
    if isinstance(space, spaces.Box):
        return Box(space.low, space.high, space.shape, space.dtype)
    return Box(-np.inf, np.inf, space.shape or (), space.dtype or np.float32)


def example_action(space: Space) -> PyTree:
    """Returns an action of zeros, as agents choose them.

    Args:
        space: The action space, from Gymnasium or one of ours.

    Returns:
        The action, a dict or tuple for a composite space.
    """
    return map_spaces(
        lambda part: np.zeros(part.shape, np.float32 if is_box(part) else np.int32), space
    )


def check_action_space(space: spaces.Space) -> None:
    """Raises unless agents can act in a space.

    Args:
        space: The action space.

    Raises:
        ValueError: The space, or a part of it, is neither a box of real numbers nor discrete from 0 on.
    """
    check_starts_at_0(space, "Actions", "shift them with gymnasium.wrappers.TransformAction")
    for part in leaves(space):
        is_real = isinstance(part, spaces.Box) and part.dtype.kind == "f"
        is_vector = isinstance(part, spaces.MultiDiscrete) and len(part.shape) == 1
        if not (is_real or is_vector or isinstance(part, spaces.Discrete)):
            raise ValueError(
                "Actions must be Discrete, MultiDiscrete, a Box of floats, or dicts or tuples of them, "
                f"got {part}."
            )
