"""Checks of what environments declare, spaces and masks, against the observations that they give."""

from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PyTree

from jaxagents.core.arrays import in_32_bits
from jaxagents.core.observed import action_mask, actor_mask
from jaxagents.core.trees import shape_and_dtype
from jaxagents.envs.environment import Environment
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.spaces import (
    Space,
    is_array,
    is_discrete,
    is_multi_discrete,
    map_spaces,
    parts,
)


def check_action_mask(episodes: Episodes) -> None:
    """Raises unless the mask of actions in the observations, if there is one, has one entry for each.

    Args:
        episodes: The environment.

    Raises:
        ValueError: It has others, or the actions are not discrete.
    """
    obs, _ = jax.eval_shape(episodes.reset, jax.eval_shape(lambda: jax.random.key(0)))
    mask, space = action_mask(obs), episodes.action_space
    if mask is None or space is None:
        return
    name = episodes.env.wording.environment
    expected = map_spaces(lambda part: _mask_shape(part, episodes.actors_shape), space)
    if not jax.tree.leaves(expected):
        raise ValueError(
            f"{name} has a mask of actions, which only discrete actions can have, but its action_space "
            f"is {space!r}. Name the entry of the observation otherwise if it is something else."
        )
    flags = [not jnp.issubdtype(x.dtype, jnp.inexact) for x in jax.tree.leaves(mask)]
    if not _fits(mask, space, episodes.actors_shape) or not all(flags):
        raise ValueError(
            f"{name}: the mask of actions must be boolean and have shape {_without_none(expected)}, an "
            f"entry for each action, got {jax.tree.map(shape_and_dtype, mask)}."
        )


def check_actor_mask(episodes: Episodes) -> None:
    """Raises unless the mask of actors in the observations, if there is one, has one flag for each.

    Args:
        episodes: The environment.

    Raises:
        ValueError: It has others.
    """
    obs, _ = jax.eval_shape(episodes.reset, jax.eval_shape(lambda: jax.random.key(0)))
    mask, shape = actor_mask(obs), episodes.actors_shape
    if mask is None:
        return
    name = episodes.env.wording.environment
    if not shape:
        raise ValueError(
            f"{name} has a mask of actors, but a single actor: episodes end when that leaves. Name the "
            "entry of the observation otherwise if it is something else."
        )
    if not hasattr(mask, "dtype") or mask.shape != shape or mask.dtype != bool:
        found = jax.tree.map(shape_and_dtype, mask)
        raise ValueError(
            f"{name}: the mask of actors must be boolean and have shape {shape}, a flag for each actor, "
            f"got {found}."
        )


def _mask_shape(space: Space, actors_shape: tuple[int, ...]) -> PyTree:
    """The shape of the mask of a space, or of those of several discrete actions; `None` for a box."""
    if is_multi_discrete(space):
        return tuple((*actors_shape, int(n)) for n in space.nvec)
    return (*actors_shape, int(space.n)) if is_discrete(space) else None


def _fits(mask: PyTree, space: Space, actors_shape: tuple[int, ...]) -> bool:
    """Whether a mask has the shapes for a space; parts about which it says nothing are not masked."""
    if mask is None:
        return True
    children = parts(space)
    if children is None:
        return _has_shapes(mask, _mask_shape(space, actors_shape))
    if isinstance(space.spaces, Mapping):
        if not isinstance(mask, Mapping) or not mask.keys() <= children.keys():
            return False
    elif not isinstance(mask, tuple) or len(mask) != len(children):
        return False
    of_parts = mask.items() if isinstance(mask, Mapping) else enumerate(mask)
    return all(_fits(of_part, children[name], actors_shape) for name, of_part in of_parts)


def _has_shapes(mask: PyTree, shapes: PyTree) -> bool:
    """Whether a mask of one space has its shape, or those of the components that it says anything of."""
    found = jax.tree.map(lambda x: x.shape, mask)
    is_of_several = bool(shapes) and isinstance(shapes[0], tuple) and isinstance(found, tuple)
    if not is_of_several or len(found) != len(shapes):
        return found == shapes
    pairs = zip(found, shapes, strict=True)
    return all(of_part is None or of_part == shape for of_part, shape in pairs)


def _without_none(shapes: PyTree) -> PyTree:
    """Shapes without the entries of dicts that have none."""
    if not isinstance(shapes, dict):
        return shapes
    return {name: _without_none(shape) for name, shape in shapes.items() if shape is not None}


def doubts_about_kinds(env: Environment) -> list[str]:
    """Doubts about observations of another kind of numbers than their space declares, in words.

    Args:
        env: The environment.

    Returns:
        The doubts.
    """
    name, reset, _ = env.wording
    obs, _ = jax.eval_shape(in_32_bits, jax.eval_shape(lambda: env.reset(jax.random.key(0))))
    return [
        f"{part}: observation_space has dtype {jnp.dtype(declared.dtype)}, but {reset} returns dtype "
        f"{found.dtype}, which is what agents are trained with."
        for part, declared, found in with_declared(env.observation_space, obs, name)
        if not _widens(found.dtype, declared.dtype)
    ]


def check_space(space: Space, obs: PyTree, name: str, reset: str) -> None:
    """Raises unless the arrays of an observation have the shapes that their spaces declare.

    Args:
        space: The space of observations.
        obs: An observation, as shapes.
        name: Name of the environment.
        reset: Name of its reset.

    Raises:
        ValueError: They have others.
    """
    for part, declared, found in with_declared(space, obs, name):
        shape, dtype = tuple(declared.shape), jnp.dtype(declared.dtype)
        if shape != found.shape:
            raise ValueError(
                f"{part}: observation_space has shape {shape} and dtype {dtype}, but {reset} returns "
                f"{shape_and_dtype(found)}. Correct whichever is wrong."
            )


def with_declared(
    space: Space, obs: PyTree, name: str
) -> Iterator[tuple[str, Space, jax.ShapeDtypeStruct]]:
    """The arrays that spaces are declared for.

    Args:
        space: The space of observations.
        obs: An observation, as shapes.
        name: Its name.

    Yields:
        The name of each array, its space, and its shape.
    """
    children = parts(space)
    if children is not None:
        for key, child in children.items():
            part = obs.get(key) if isinstance(obs, dict) else _child(obs, key)
            if part is not None:
                yield from with_declared(child, part, f"{name}[{key!r}]")
    elif is_array(space) and isinstance(obs, jax.ShapeDtypeStruct):
        yield name, space, obs


def _child(obs: PyTree, key: object) -> PyTree:
    return getattr(obs, key, None) if isinstance(key, str) else obs[key]


def _widens(narrow: DTypeLike, wide: DTypeLike) -> bool:
    kinds = "buif"
    narrow, wide = jnp.dtype(narrow), jnp.dtype(wide)
    if narrow.kind == wide.kind:
        return True
    return kinds.find(narrow.kind) < kinds.find(wide.kind)
