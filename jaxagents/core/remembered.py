"""Observations that come with what is remembered before them, for learners with a memory."""

from flax import struct
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
        steps: The steps by which the network comes to them.
        obs: Observations, one for each step: at the end of an episode its last.
        after: The step that leads to each, by its place in the sequence; `None` if each step leads to
            its own, as it does unless targets are over several.
    """

    steps: Steps
    obs: PyTree
    after: Int[Array, "steps"] | None = None


def observation_of(seen: PyTree) -> PyTree:
    """The observation itself, without what is remembered.

    Args:
        seen: One of the above, or an observation.

    Returns:
        The observation.
    """
    return seen.obs if isinstance(seen, Remembered | Steps | Successors) else seen
