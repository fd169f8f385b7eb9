"""Masks of actions."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float


def allowed_actions(mask: ArrayLike) -> Bool[Array, "*batch n_actions"]:
    """Which actions may be taken.

    Nothing follows the last observation of an episode, for which environments often allow no action at
    all. All actions then count as allowed, so that numbers which are multiplied by zero stay finite.

    Args:
        mask: Whether each action is allowed, actions last.

    Returns:
        The mask, and all actions where none is allowed.
    """
    allowed = jnp.asarray(mask, bool)
    return allowed | ~allowed.any(axis=-1, keepdims=True)


def among_allowed(
    values: Float[Array, "*batch n_actions"], mask: ArrayLike | None
) -> Float[Array, "*batch n_actions"]:
    """Values of actions, of which those that may not be taken are never the largest.

    Args:
        values: Values of all actions, or their logits.
        mask: Whether each action is allowed; `None` if all are.

    Returns:
        The values, minus infinity where an action is not allowed.
    """
    return values if mask is None else jnp.where(allowed_actions(mask), values, -jnp.inf)
