"""Policies with a memory, which learn from sequences."""

from collections.abc import Callable
from typing import Any, final

import jax
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.agents import sequences
from jaxagents.agents.policy import Carry, Distribution, Policy
from jaxagents.agents.sequences import Sequence, outputs_of, sequence_of
from jaxagents.agents.transitions import Transition
from jaxagents.learners.train_state import TrainState


@final
class RecurrentPolicy(Policy):
    """The policy of a network with a memory, which learns from whole sequences."""

    def __init__(self, distribution: Callable[[PyTree], Any]) -> None:
        """Takes the function that makes a distribution of the network's output."""
        self._distribution = distribution

    def initial(self, network: TrainState) -> Carry:
        """The memory at the start of an episode; see `Policy`."""
        return network.model_def.initial()

    def step(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, PyTree]:
        """The distribution of actions at an observation; see `Policy`."""
        carry, output = network(carry, obs)
        return carry, self._distribution(output)

    def unroll(
        self, network: TrainState, carry: Carry, obs: PyTree, first: Bool[Array, "time"]
    ) -> Distribution:
        """The distributions of actions at the observations of a sequence; see `Policy`."""
        _, outputs = network(carry, obs, first, method="unroll")
        return jax.vmap(self._distribution)(outputs)

    def inputs(self, traj: Transition) -> Sequence:
        """Observations, memories and beginnings of episodes."""
        return sequence_of(traj, traj.carry)

    def elements(self, rollout: PyTree) -> PyTree:
        """One element for each environment: its whole sequence."""
        return sequences.elements(rollout)

    def samples(self, minibatch: PyTree) -> PyTree:
        """The steps of all sequences one after another, except for sequences of the policy."""
        return sequences.samples(minibatch)

    def log_probs_and_entropies(
        self, network: TrainState, inputs: PyTree, actions: PyTree
    ) -> tuple[Float[Array, "samples ..."], Float[Array, "samples ..."]]:
        """Log-probabilities of actions and entropies; see `Policy`."""

        def of_sample(output: PyTree, action: PyTree) -> tuple[Array, Array]:
            distribution = self._distribution(output)
            return distribution.log_prob(action), distribution.entropy()

        return jax.vmap(of_sample)(outputs_of(network, inputs), actions)
