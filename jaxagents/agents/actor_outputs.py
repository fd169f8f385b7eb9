"""Checks of what the actor of a ready-made policy gives, made on shapes."""

from collections.abc import Mapping

import jax
from jaxtyping import PyTree

from jaxagents.envs.spaces import Space, parts


def check_logits(output: PyTree, n_actions: int, env: str) -> None:
    """Raises unless an actor gives a logit for each action.

    Args:
        output: Its output.
        n_actions: Number of actions.
        env: Name of the environment.

    Raises:
        ValueError: It does not.
    """
    shape = getattr(output, "shape", None)
    if shape is None or shape[-1:] != (n_actions,):
        raise ValueError(
            f"The actor of a ready-made policy must give {n_actions} logits, one for each action of "
            f"{env}, got {_described(output)}: look at config.actor_network."
        )


def check_moments(output: PyTree, shape: tuple[int, ...], env: str) -> None:
    """Raises unless an actor gives a mean and a logarithm of the standard deviation.

    Args:
        output: Its output.
        shape: Shape of an action.
        env: Name of the environment.

    Raises:
        ValueError: It does not.
    """
    is_pair = isinstance(output, tuple | list) and len(output) == 2
    if not is_pair or not _ends_in(output[0], shape) or not _broadcasts(output[1], output[0]):
        raise ValueError(
            "The actor of a ready-made policy must give a mean and a logarithm of the standard "
            f"deviation, both of shape {shape} for {env}, got {_described(output)}: look at "
            "config.actor_network."
        )


def check_several(output: PyTree, number: int, env: str) -> None:
    """Raises unless an actor gives several outputs in a tuple.

    Args:
        output: Its output.
        number: Their number.
        env: Name of the environment.

    Raises:
        ValueError: It does not.
    """
    if not isinstance(output, tuple | list) or len(output) != number:
        raise ValueError(
            f"The actor of a ready-made policy must give a tuple of {number} arrays of logits, one for "
            f"each of the actions that {env} takes at once, got {_described(output)}: look at "
            "config.actor_network."
        )


def check_parts(output: PyTree, space: Space, env: str) -> None:
    """Raises unless an actor gives an output for every part of an action.

    Args:
        output: Its output.
        space: The space of actions, of dicts or tuples.
        env: Name of the environment.

    Raises:
        ValueError: It does not.
    """
    children = parts(space)
    if children is None:
        return
    is_named = isinstance(space.spaces, Mapping)
    names = sorted(children) if is_named else len(children)
    if isinstance(output, Mapping) and is_named:
        found = sorted(output)
    else:
        found = len(output) if isinstance(output, tuple | list) and not is_named else None
    if found != names:
        wanted = f"a dict with {names}" if is_named else f"a tuple of {names}"
        raise ValueError(
            f"The actor of a ready-made policy must give {wanted}, an output for each part of an action "
            f"of {env}, got {_described(output)}: look at config.actor_network."
        )
    for name, child in children.items():
        check_parts(output[name], child, env)


def _ends_in(x: PyTree, shape: tuple[int, ...]) -> bool:
    return hasattr(x, "shape") and x.shape[x.ndim - len(shape) :] == shape and x.ndim >= len(shape)


def _broadcasts(x: PyTree, mean: jax.Array) -> bool:
    """Whether an array, or a number, can be broadcast to the mean."""
    shape = getattr(x, "shape", ())
    pairs = zip(reversed(shape), reversed(mean.shape), strict=False)
    return len(shape) <= mean.ndim and all(own in (1, other) for own, other in pairs)


def _described(output: PyTree) -> str:
    shapes = [f"shape {tuple(getattr(leaf, 'shape', ()))}" for leaf in jax.tree.leaves(output)]
    found = " and ".join(shapes) or "nothing"
    return found if hasattr(output, "shape") else f"a {type(output).__name__} of {found}"
