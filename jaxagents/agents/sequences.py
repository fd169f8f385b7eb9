"""Sequences: how what has a memory learns from a rollout, in the order of its steps."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents.agents.transitions import Transition
from jaxagents.learners.memory import unroll
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import remembers


class Sequence(NamedTuple):
    """Observations in order, as a network with a memory learns from them.

    Attributes:
        obs: Observations, time first.
        carry: The memory before the first step, with an axis of time of length 1.
        first: Whether a new episode starts at the step.
    """

    obs: PyTree
    carry: PyTree
    first: Bool[Array, "..."]


def sequence_of(traj: Transition, carry: PyTree) -> Sequence:
    """The sequences of a rollout.

    Args:
        traj: The rollout, shaped `(time, environments, ...)`.
        carry: The memories before its steps, time first.

    Returns:
        The sequences, shaped `(time, environments, ...)`.
    """
    return Sequence(traj.obs, jax.tree.map(lambda x: x[:1], carry), first_of(traj))


def to_learn_from(network: nn.Module, traj: Transition, carry: PyTree) -> PyTree:
    """The observations of a rollout in the form in which a network learns from them.

    Args:
        network: The network.
        traj: The rollout, shaped `(time, environments, ...)`.
        carry: The memories of the network before its steps, time first.

    Returns:
        A pytree shaped `(time, environments, ...)`: a `Sequence` if the network has a memory.
    """
    return sequence_of(traj, carry) if remembers(network) else traj.obs


class Rollout(Protocol):
    """Steps that say which of them ended an episode, time first."""

    @property
    def terminated(self) -> Bool[Array, "time environments"]:
        """Whether it did by itself."""
        ...

    @property
    def truncated(self) -> Bool[Array, "time environments"]:
        """Whether it was cut."""
        ...


def first_of(rollout: Rollout) -> Bool[Array, "time environments"]:
    """Whether a new episode starts at a step of a rollout, before which the memory is to be reset."""
    over = rollout.terminated | rollout.truncated
    return jnp.concatenate([jnp.zeros_like(over[:1]), over[:-1]])


def outputs_of(network: TrainState, inputs: PyTree) -> PyTree:
    """The outputs of a network for a minibatch.

    Args:
        network: State of its training.
        inputs: Sequences, with a leading axis, for a network with a memory; samples for one without.

    Returns:
        The outputs, samples first.
    """

    def of_one(sequence: Sequence) -> PyTree:
        start = jax.tree.map(lambda x: x[0], sequence.carry)
        return unroll(network, start, sequence.obs, sequence.first)[1]

    if isinstance(inputs, Sequence):
        return samples(jax.vmap(of_one)(inputs))
    return jax.vmap(network)(inputs)


def check_inputs(hook: str, inputs: object, lead: dict[str, int]) -> None:
    """Raises unless the inputs of a loss are those of all steps of a rollout, or samples of a minibatch.

    Args:
        hook: Name of the hook that gives them.
        inputs: What it gives.
        lead: Sizes of the leading axes that its arrays must have, by name.

    Raises:
        TypeError: It is no tuple.
        ValueError: An array has other leading axes.
    """
    if not isinstance(inputs, tuple | list):
        raise TypeError(
            f"{hook} must return a tuple, of what the loss takes between training and hyperparams, got "
            f"a {type(inputs).__name__}."
        )
    shape = tuple(lead.values())
    for x in jax.tree.leaves(inputs, is_leaf=_is_sequence):
        if not _is_sequence(x) and jnp.shape(x)[: len(shape)] != shape:
            raise ValueError(
                f"{hook} must return arrays with leading axes ({', '.join(lead)}) of {shape}, got one "
                f"of shape {jnp.shape(x)}."
            )


def n_samples_of(inputs: PyTree) -> int:
    """Number of the samples of a minibatch, or of a part of one.

    Args:
        inputs: What is known of them, samples first; or sequences of observations.

    Returns:
        The number.
    """
    first = jax.tree.leaves(inputs, is_leaf=_is_sequence)[0]
    return first.first.size if _is_sequence(first) else len(first)


def elements(rollout: PyTree) -> PyTree:
    """A rollout as the elements that are dealt to minibatches: the sequences of environments.

    Args:
        rollout: Pytree shaped `(time, environments, ...)`.

    Returns:
        The pytree, shaped `(1, environments, time, ...)`.
    """
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1)[None], rollout)


def samples(minibatch: PyTree) -> PyTree:
    """The steps of all sequences one after another, except for what is a `Sequence` itself.

    Args:
        minibatch: Pytree shaped `(sequences, time, ...)`.

    Returns:
        The pytree, shaped `(samples, ...)`.
    """

    def flat(x: PyTree) -> PyTree:
        return x if _is_sequence(x) else x.reshape(-1, *x.shape[2:])

    return jax.tree.map(flat, minibatch, is_leaf=_is_sequence)


def _is_sequence(x: object) -> bool:
    return isinstance(x, Sequence)
