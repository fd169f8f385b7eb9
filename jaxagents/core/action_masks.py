"""Which actions are allowed, as a part of observations."""

from collections.abc import Mapping
from typing import Any

from jaxtyping import PyTree

ACTION_MASK = "action_mask"
"""The key of an observation under which it says which actions are allowed."""
OBSERVATION = "observation"
"""The key of what is observed beside it, where that is one thing."""


def action_mask(obs: PyTree) -> Any:
    """Which actions an observation allows.

    Args:
        obs: One observation, or a batch of them.

    Returns:
        Its entry `"action_mask"`; `None` if it is no dict, or has no such entry.
    """
    return obs.get(ACTION_MASK) if isinstance(obs, Mapping) else None


def without_action_mask(obs: PyTree) -> PyTree:
    """What networks see of an observation.

    Args:
        obs: One observation, a batch of them, or the spaces of its parts.

    Returns:
        The observation without its mask. Where a single entry named `"observation"` is left, it is that
        entry; without a mask, it is the observation as it is.
    """
    if action_mask(obs) is None:
        return obs
    rest = {name: x for name, x in obs.items() if name != ACTION_MASK}
    return rest[OBSERVATION] if list(rest) == [OBSERVATION] else rest


def with_action_mask(obs: PyTree, mask: PyTree | None) -> PyTree:
    """An observation that says which actions are allowed.

    Args:
        obs: What is observed.
        mask: Which actions are allowed; `None` if nothing is said of it.

    Returns:
        A dict of both; without a mask, the observation as it is.
    """
    return obs if mask is None else {OBSERVATION: obs, ACTION_MASK: mask}
