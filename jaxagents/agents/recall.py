"""How agents around a learner remember, if they do: in acting, and in what they learn from rollouts."""

import abc
from typing import cast, final

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents.agents import sequences
from jaxagents.core.arrays import select
from jaxagents.core.remembered import Remembered, Steps
from jaxagents.learners.learner import Batch, Learner
from jaxagents.learners.memory import initial_carry
from jaxagents.learners.q_learning import ValueLearner


class Recall(abc.ABC):
    """How the learner of an agent remembers."""

    @abc.abstractmethod
    def initial(self) -> PyTree:
        """The memory at the start of an episode."""

    @abc.abstractmethod
    def seen(self, carry: PyTree, obs: PyTree) -> PyTree:
        """The input by which the learner acts.

        Args:
            carry: The memory, or a batch of them.
            obs: One observation, or as many.

        Returns:
            Observations, with what is remembered before them.
        """

    @abc.abstractmethod
    def after(self, learner: Learner, seen: PyTree) -> PyTree:
        """The memory after observations.

        Args:
            learner: The learner.
            seen: What it was given.

        Returns:
            The memory, or a batch of them.
        """

    @abc.abstractmethod
    def elements(
        self, samples: Batch, carry: PyTree, first: Bool[Array, "time environments"]
    ) -> PyTree:
        """A rollout as the elements that are dealt to minibatches.

        Args:
            samples: The samples of all steps, shaped `(time, environments, ...)`.
            carry: The memories before the first step.
            first: Whether a new episode starts at a step, before which the memory is to be reset.

        Returns:
            A pytree with the same number of elements along the first two axes of every leaf.
        """

    @abc.abstractmethod
    def batch(self, minibatch: PyTree) -> Batch:
        """A minibatch as the learner is given it.

        Args:
            minibatch: Some of what `elements` gave, along one axis.

        Returns:
            The batch.
        """

    def initials(self, n: int) -> PyTree:
        """The memories of `n` environments at the start of their episodes."""
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *jnp.shape(x))), self.initial())

    def fresh_where(self, over: Bool[Array, "environments"], carry: PyTree) -> PyTree:
        """The memories, which start anew where an episode is over.

        Args:
            over: Whether it is.
            carry: Memories, environments first.

        Returns:
            The memories.
        """
        return jax.vmap(select, (0, None, 0))(over, self.initial(), carry)


@final
class Memoryless(Recall):
    """Of a learner that acts by observations alone, and learns from samples in any order."""

    def initial(self) -> tuple[()]:
        """No memory."""
        return ()

    def seen(self, carry: PyTree, obs: PyTree) -> PyTree:
        """The observations."""
        return obs

    def after(self, learner: Learner, seen: PyTree) -> tuple[()]:
        """No memory."""
        return ()

    def elements(
        self, samples: Batch, carry: PyTree, first: Bool[Array, "time environments"]
    ) -> PyTree:
        """Single samples."""
        return samples

    def batch(self, minibatch: PyTree) -> Batch:
        """The samples."""
        return minibatch


@final
class Recurrence(Recall):
    """Of a learner whose critic has a memory, and which learns from sequences."""

    def __init__(self, network: nn.Module) -> None:
        """Takes the critic's network."""
        self._network = network

    def initial(self) -> PyTree:
        """The memory of the network at the start of an episode."""
        return initial_carry(self._network)

    def seen(self, carry: PyTree, obs: PyTree) -> Remembered:
        """The observations, with the memory."""
        return Remembered(carry, obs)

    def after(self, learner: Learner, seen: PyTree) -> PyTree:
        """The memory of the critic."""
        return cast(ValueLearner, learner).critic(seen, method="after")

    def elements(
        self, samples: Batch, carry: PyTree, first: Bool[Array, "time environments"]
    ) -> PyTree:
        """The sequences of environments."""
        start = jax.tree.map(lambda x: x[None], carry)
        sequence = sequences.Sequence(samples["observations"], start, first)
        return sequences.elements({**samples, "observations": sequence})

    def batch(self, minibatch: PyTree) -> Batch:
        """The steps of all sequences, one after another."""
        obs, carry, first = minibatch["observations"]
        length = first.shape[1]
        carries = jax.tree.map(lambda x: jnp.repeat(x, length, axis=1), carry)
        rows = {**minibatch, "observations": obs}
        rows, carries, first = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (rows, carries, first)
        )
        steps = Steps(carries, rows["observations"], first, length, burn_in=0)
        return {**rows, "observations": steps}
