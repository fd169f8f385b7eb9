"""Policies: from an observation, and what is remembered, to a distribution of actions."""

import abc
from collections.abc import Callable
from typing import Any, final

import jax
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.agents.transitions import Transition
from jaxagents.learners.train_state import TrainState

Carry = Any
"""The memory of a policy: a pytree of arrays, `()` where nothing is remembered."""


Distribution = Any
"""An [`ops.Distribution`][jaxagents.ops.Distribution], or an object with the same methods."""


class Policy(abc.ABC):
    """How an agent acts, in one of its environments.

    Learning takes `inputs`, deals them to minibatches as `elements`, and gives losses `samples`.
    """

    @abc.abstractmethod
    def initial(self, network: TrainState) -> Carry:
        """The memory at the start of an episode.

        Args:
            network: State of the actor's training.

        Returns:
            The memory.
        """

    @abc.abstractmethod
    def step(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, PyTree]:
        """The distribution of actions at an observation.

        Args:
            network: State of the actor's training.
            carry: The memory.
            obs: One observation.

        Returns:
            The memory afterwards, and the distribution.
        """

    @abc.abstractmethod
    def unroll(
        self, network: TrainState, carry: Carry, obs: PyTree, first: Bool[Array, "time"]
    ) -> Distribution:
        """The distributions of actions at the observations of a sequence.

        Args:
            network: State of the actor's training.
            carry: The memory before the first step.
            obs: Observations, time first.
            first: Whether a new episode, with a fresh memory, starts at a step.

        Returns:
            The distributions, time first.
        """

    def act(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, PyTree]:
        """The greedy action.

        Args:
            network: State of the actor's training.
            carry: The memory.
            obs: One observation.

        Returns:
            The memory afterwards, and the action.
        """
        carry, distribution = self.step(network, carry, obs)
        return carry, distribution.mode()

    @abc.abstractmethod
    def inputs(self, traj: Transition) -> PyTree:
        """The observations of a rollout in the form in which the policy learns from them.

        Args:
            traj: A rollout, shaped `(time, environments, ...)`.

        Returns:
            A pytree shaped `(time, environments, ...)`.
        """

    @abc.abstractmethod
    def elements(self, rollout: PyTree) -> PyTree:
        """The inputs of a loss as the elements that are dealt to minibatches.

        Args:
            rollout: A pytree shaped `(time, environments, ...)`.

        Returns:
            The pytree: as it is where a sample is an element, shaped `(1, environments, time, ...)`
            where a sequence is one.
        """

    @abc.abstractmethod
    def samples(self, minibatch: PyTree) -> PyTree:
        """A minibatch of elements with samples first, except for the inputs of the policy itself.

        Args:
            minibatch: A pytree with a leading axis of elements.

        Returns:
            The pytree.
        """

    @abc.abstractmethod
    def log_probs_and_entropies(
        self, network: TrainState, inputs: PyTree, actions: PyTree
    ) -> tuple[Float[Array, "samples ..."], Float[Array, "samples ..."]]:
        """Log-probabilities of actions and entropies, in nats.

        Args:
            network: State of the actor's training.
            inputs: The inputs of a minibatch, from `inputs`.
            actions: The actions, samples first.

        Returns:
            Both, of each sample (and actor).
        """


class MemorylessPolicy(Policy):
    """A policy that acts by the observation alone, and learns from samples in any order."""

    def __init__(self, greedy: Callable[[TrainState, PyTree], PyTree]) -> None:
        """Takes the greedy policy, which maps a network and an observation to an action."""
        self._greedy = greedy

    @abc.abstractmethod
    def distribution(self, network: TrainState, obs: PyTree) -> Distribution:
        """The distribution of actions at one observation."""

    def initial(self, network: TrainState) -> tuple[()]:
        """No memory."""
        return ()

    def step(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, PyTree]:
        """The distribution of actions at an observation; see `Policy`."""
        return carry, self.distribution(network, obs)

    def unroll(
        self, network: TrainState, carry: Carry, obs: PyTree, first: Bool[Array, "time"]
    ) -> Distribution:
        """The distributions of actions at the observations of a sequence; see `Policy`."""
        return jax.vmap(lambda obs: self.distribution(network, obs))(obs)

    def act(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, PyTree]:
        """The greedy action; see `Policy`."""
        return carry, self._greedy(network, obs)

    def inputs(self, traj: Transition) -> PyTree:
        """The observations."""
        return traj.obs

    def elements(self, rollout: PyTree) -> PyTree:
        """The inputs as they are: a sample is an element."""
        return rollout

    def samples(self, minibatch: PyTree) -> PyTree:
        """The minibatch as it is."""
        return minibatch

    def log_probs_and_entropies(
        self, network: TrainState, inputs: PyTree, actions: PyTree
    ) -> tuple[Float[Array, "samples ..."], Float[Array, "samples ..."]]:
        """Log-probabilities of actions and entropies; see `Policy`."""

        def of_sample(obs: PyTree, action: PyTree) -> tuple[Array, Array]:
            distribution = self.distribution(network, obs)
            return distribution.log_prob(action), distribution.entropy()

        return jax.vmap(of_sample)(inputs, actions)


@final
class DistributionPolicy(MemorylessPolicy):
    """The policy of the hook `_distribution`."""

    def __init__(
        self,
        distribution: Callable[[TrainState, PyTree, PyTree], PyTree],
        greedy: Callable[[TrainState, PyTree], PyTree],
    ) -> None:
        """Takes the hook, and the greedy policy."""
        super().__init__(greedy)
        self._distribution = distribution

    def distribution(self, network: TrainState, obs: PyTree) -> Distribution:
        """The distribution of actions at one observation."""
        return self._distribution(network, network.params, obs)
