"""Observations and actions of Gymnasium spaces, as arrays that JAX takes."""

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
    """A copy of an observation, as learners are handed it.

    Bytes stay bytes, and images of other integers (three axes or more) stay integers, as JAX takes
    them: encoders take integers to be in 0..255, and real numbers in 0..1. All else is cast to single
    precision.

    Args:
        observation: A number or an array, or a dict of them that may be nested.

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
    """An observation with the entries of an example, and real numbers wherever that has them.

    Encoders tell numbers in 0..255 from those in 0..1 by their type, which must not be another one where
    an environment returns integers although its space is of real numbers.

    Args:
        example: What `example_observation` gives.
        observation: What `as_observation` gives.

    Returns:
        The observation; arrays that cannot be cast stay as they are.
    """
    if isinstance(example, Mapping):
        return {name: in_types_of(part, observation[name]) for name, part in example.items()}
    fits = np.can_cast(observation.dtype, example.dtype, "same_kind")
    return observation.astype(example.dtype, copy=False) if fits else observation


def example_observation(space: spaces.Space) -> PyTree:
    """An observation of zeros.

    Args:
        space: The space of observations.

    Returns:
        The observation, as `as_observation` gives it.

    Raises:
        ValueError: Observations are neither arrays nor dicts of them.
    """
    if isinstance(space, spaces.Dict):
        return {name: example_observation(part) for name, part in space.spaces.items()}
    if space.shape is None or space.dtype is None:
        raise ValueError(
            f"Observations must be arrays, or dicts of them, got {space}: change them with "
            "gymnasium.wrappers.TransformObservation."
        )
    return as_observation(np.zeros(space.shape, space.dtype))


def example_seen(space: spaces.Space) -> PyTree:
    """An observation of zeros, as agents see it.

    Categories are whole numbers, which networks see as one-hot vectors. Where observations are dicts, an
    entry `"action_mask"` says which actions are allowed, whatever its type.

    Args:
        space: The space of observations.

    Returns:
        The observation.

    Raises:
        ValueError: Observations are neither arrays nor dicts of them.
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
    """A space of Gymnasium as one of ours, which are values without generators of random numbers.

    Args:
        space: The space.

    Returns:
        The space. Integers that start later have values from 0 as well, which never occur; if they start
            earlier, or are of another kind of space, it is a box without bounds.
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
    """An action of zeros, as agents give it.

    Args:
        space: The space of actions, of Gymnasium or one of ours.

    Returns:
        The action, a dict or tuple if the space is one of such.
    """
    return map_spaces(
        lambda part: np.zeros(part.shape, np.float32 if is_box(part) else np.int32), space
    )


def check_action_space(space: spaces.Space) -> None:
    """Raises unless agents can act in a space.

    Args:
        space: The space of actions.

    Raises:
        ValueError: It, or a part of it, is neither a box of real numbers nor 0, 1, 2, ...
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
