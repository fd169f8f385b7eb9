"""Data that comes with observations: action masks, critic states, actor masks, memories."""

from collections.abc import Mapping

from flax import struct
from jax.tree_util import DictKey, KeyPath
from jaxtyping import Array, Bool, Int, PyTree

from jaxagents.core.pickling import nonpytree_field


class Remembered(struct.PyTreeNode):
    """An observation with memories, or a batch of them.

    Attributes:
        carry: The memories before the observation, by network.
        obs: The observation.
    """

    carry: PyTree
    obs: PyTree


class Steps(struct.PyTreeNode):
    """The concatenated steps of sequences of equal length.

    Attributes:
        carry: The memories before the steps, by network, as stored when the steps were taken. Only
            those at the start of each sequence are used; networks recompute the others.
        obs: Observations.
        first: Whether a new episode, with a fresh memory, starts at each step.
        length: Number of steps per sequence (static).
        burn_in: Number of steps at the start of a sequence that only warm up the memory (static).
    """

    carry: PyTree
    obs: PyTree
    first: Bool[Array, "steps"]
    length: int = nonpytree_field()
    burn_in: int = nonpytree_field()


class Successors(struct.PyTreeNode):
    """The successors of steps.

    Attributes:
        steps: The steps that lead to them.
        obs: Observations, one per step; at the end of an episode, its last one.
        after: For n-step targets, the index in its sequence of the step before each successor; `None`
            for one-step targets.
    """

    steps: Steps
    obs: PyTree
    after: Int[Array, "steps"] | None = None


def observation_of(seen: PyTree) -> PyTree:
    """The observation itself, without memories.

    Args:
        seen: An observation, or one of the classes above.

    Returns:
        The observation.
    """
    return seen.obs if isinstance(seen, Remembered | Steps | Successors) else seen


OBSERVATION = "observation"
"""Key of the observation itself, if there are other entries."""
ACTION_MASK = "action_mask"
"""Key of the mask of allowed actions."""
CRITIC_STATE = "critic_state"
"""Key of the input of a centralised critic."""
ACTOR_MASK = "actor_mask"
"""Key of the mask of actors that are still playing."""
_EXTRA = (ACTION_MASK, CRITIC_STATE, ACTOR_MASK)
_MASKS = tuple((DictKey(name),) for name in (ACTION_MASK, ACTOR_MASK))


def action_mask(obs: PyTree) -> PyTree:
    """The mask of allowed actions.

    Args:
        obs: One observation, or a batch of them, with or without memories.

    Returns:
        The entry `"action_mask"`; `None` if there is none.
    """
    return _entry(obs, ACTION_MASK)


def critic_state(obs: PyTree) -> PyTree:
    """The input of a centralised critic.

    Args:
        obs: One observation, or a batch of them.

    Returns:
        The entry `"critic_state"`; `None` if there is none.
    """
    return _entry(obs, CRITIC_STATE)


def actor_mask(obs: PyTree) -> PyTree:
    """The mask of actors that are still playing.

    Args:
        obs: One observation, or a batch of them.

    Returns:
        The entry `"actor_mask"`; `None` if there is none.
    """
    return _entry(obs, ACTOR_MASK)


def is_of_mask(path: KeyPath) -> bool:
    """Whether a part of an observation belongs to a mask.

    Args:
        path: Path of the part in the observation.

    Returns:
        Whether it is one of the masks above, or part of one.
    """
    return path[:1] in _MASKS


def network_input(obs: PyTree) -> PyTree:
    """The part of an observation that networks see, except for centralised critics.

    Args:
        obs: One observation, a batch of them, or the spaces of its parts.

    Returns:
        The observation without the entries above. If only an entry `"observation"` remains, this is its
        value; if there is nothing to remove, it is the unchanged observation.
    """
    if not has_extra_entries(obs):
        return obs
    rest = {name: x for name, x in obs.items() if name not in _EXTRA}
    return rest[OBSERVATION] if list(rest) == [OBSERVATION] else rest


def extra_entries(obs: PyTree) -> dict[str, PyTree]:
    """The entries of an observation that networks do not see.

    Args:
        obs: One observation, or a batch of them.

    Returns:
        The entries by name, without `None`.
    """
    entries = {name: obs.get(name) for name in _EXTRA} if isinstance(obs, Mapping) else {}
    return {name: x for name, x in entries.items() if x is not None}


def has_extra_entries(obs: PyTree) -> bool:
    """Whether an observation has entries that networks do not see.

    Args:
        obs: One observation, a batch of them, or the spaces of its parts.

    Returns:
        Whether there are such entries.
    """
    return isinstance(obs, Mapping) and any(name in obs for name in _EXTRA)


def with_entries(obs: PyTree, **entries: PyTree) -> PyTree:
    """Adds entries to an observation.

    Args:
        obs: The observation.
        **entries: The entries; `None` adds none.

    Returns:
        A dict of the observation (or its own entries) and the new entries, or the unchanged observation
        if there are none.
    """
    given = {name: x for name, x in entries.items() if x is not None}
    if not given:
        return obs
    return {**(obs if has_extra_entries(obs) else {OBSERVATION: obs}), **given}


def _entry(obs: PyTree, name: str) -> PyTree:
    obs = observation_of(obs)
    return obs.get(name) if isinstance(obs, Mapping) else None
