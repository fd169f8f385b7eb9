"""Entries beside an observation: allowed actions, the view of critics, who is playing, memories."""

from collections.abc import Mapping

from flax import struct
from jax.tree_util import DictKey, KeyPath
from jaxtyping import Array, Bool, Int, PyTree

from jaxagents.core.pickling import nonpytree_field


class Remembered(struct.PyTreeNode):
    """An observation, or a batch of them.

    Attributes:
        carry: The memories before it, by the names of the networks that have one.
        obs: The observation.
    """

    carry: PyTree
    obs: PyTree


class Steps(struct.PyTreeNode):
    """The steps of sequences, one after another, all of one length.

    Attributes:
        carry: The memories before the steps, by the names of networks, as they were when these were
            taken. Only those before the first step of a sequence count: networks go on from there by
            themselves.
        obs: Observations.
        first: Whether a new episode, with a fresh memory, starts at a step.
        length: Number of steps of a sequence (static).
        burn_in: Number of its first steps that do nothing but bring the memory up to date (static).
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
        obs: Observations, one for each step: at the end of an episode its last.
        after: The step that leads to each, by its place in the sequence; `None` if each step leads to
            its own, as it does unless targets are over several.
    """

    steps: Steps
    obs: PyTree
    after: Int[Array, "steps"] | None = None


def observation_of(seen: PyTree) -> PyTree:
    """The observation itself, without memories.

    Args:
        seen: One of the above, or an observation.

    Returns:
        The observation.
    """
    return seen.obs if isinstance(seen, Remembered | Steps | Successors) else seen


OBSERVATION = "observation"
"""The key of the observation proper, where there are entries beside it."""
ACTION_MASK = "action_mask"
"""The key of the mask of allowed actions."""
CRITIC_STATE = "critic_state"
"""The key of what a centralised critic sees."""
ACTOR_MASK = "actor_mask"
"""The key of the mask of actors that still play."""
_BESIDE = (ACTION_MASK, CRITIC_STATE, ACTOR_MASK)
_MASKS = tuple((DictKey(name),) for name in (ACTION_MASK, ACTOR_MASK))


def action_mask(obs: PyTree) -> PyTree:
    """Which actions an observation allows.

    Args:
        obs: One observation, or a batch of them, which may come with memories.

    Returns:
        Its entry `"action_mask"`; `None` if it is no dict, or has no such entry.
    """
    return _entry(obs, ACTION_MASK)


def critic_state(obs: PyTree) -> PyTree:
    """The view of a centralised critic.

    Args:
        obs: One observation, or a batch of them.

    Returns:
        Its entry `"critic_state"`; `None` if it is no dict, or has no such entry.
    """
    return _entry(obs, CRITIC_STATE)


def actor_mask(obs: PyTree) -> PyTree:
    """Which actors are still playing.

    Args:
        obs: One observation, or a batch of them.

    Returns:
        Its entry `"actor_mask"`; `None` if it is no dict, or has no such entry.
    """
    return _entry(obs, ACTOR_MASK)


def is_of_mask(path: KeyPath) -> bool:
    """Whether a part of an observation is a mask.

    Args:
        path: Where the part lies in the observation.

    Returns:
        Whether it is one of the masks above, or a part of one.
    """
    return path[:1] in _MASKS


def network_input(obs: PyTree) -> PyTree:
    """The part of an observation that networks see, other than centralised critics.

    Args:
        obs: One observation, a batch of them, or the spaces of its parts.

    Returns:
        The observation without the entries above. Where a single entry named `"observation"` is left, it
        is that entry; if there are no entries to leave out, it is the observation as it is.
    """
    if not is_observed_beside(obs):
        return obs
    rest = {name: x for name, x in obs.items() if name not in _BESIDE}
    return rest[OBSERVATION] if list(rest) == [OBSERVATION] else rest


def entries_beside(obs: PyTree) -> dict[str, PyTree]:
    """The entries of an observation that networks do not see.

    Args:
        obs: One observation, or a batch of them.

    Returns:
        Those that say anything, by name.
    """
    entries = {name: obs.get(name) for name in _BESIDE} if isinstance(obs, Mapping) else {}
    return {name: x for name, x in entries.items() if x is not None}


def is_observed_beside(obs: PyTree) -> bool:
    """Whether an observation has entries that networks do not see.

    Args:
        obs: One observation, a batch of them, or the spaces of its parts.

    Returns:
        Whether it has.
    """
    return isinstance(obs, Mapping) and any(name in obs for name in _BESIDE)


def observed_beside(obs: PyTree, **entries: PyTree) -> PyTree:
    """An observation with further entries.

    Args:
        obs: What is observed.
        **entries: The entries, `None` for those about which nothing is said.

    Returns:
        A dict of the observation (or its own entries) and the new ones. If
        there are none, it is the observation as it is.
    """
    given = {name: x for name, x in entries.items() if x is not None}
    if not given:
        return obs
    return {**(obs if is_observed_beside(obs) else {OBSERVATION: obs}), **given}


def _entry(obs: PyTree, name: str) -> PyTree:
    obs = observation_of(obs)
    return obs.get(name) if isinstance(obs, Mapping) else None
