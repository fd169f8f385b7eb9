"""Policies with a memory, which learn from sequences."""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.agents.policy import Carry, Distribution, Policy
from jaxagents.agents.transitions import Transition
from jaxagents.core.arrays import select
from jaxagents.learners.train_state import TrainState


class Sequence(NamedTuple):
    """Observations in order, as a policy with a memory learns from them.

    Attributes:
        obs: Observations, time first.
        carry: The memory before each step.
        first: Whether a new episode starts at the step.
    """

    obs: PyTree
    carry: Carry
    first: Bool[Array, "..."]


@final
class RecurrentPolicy(Policy):
    """The policy of a network with a memory, which learns from whole sequences."""

    def __init__(self, distribution: Callable[[Any], Any]) -> None:
        """Takes the function that makes a distribution of the network's output."""
        self._distribution = distribution

    def initial(self, network: TrainState) -> Carry:
        """The memory at the start of an episode; see `Policy`."""
        return network.model_def.initial()

    def step(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, Any]:
        """The distribution of actions at an observation; see `Policy`."""
        carry, output = network(carry, obs)
        return carry, self._distribution(output)

    def unroll(
        self, network: TrainState, carry: Carry, obs: PyTree, first: Bool[Array, "time"]
    ) -> Distribution:
        """The distributions of actions at the observations of a sequence; see `Policy`."""
        initial = self.initial(network)

        def step(carry: Carry, at_t: tuple[Any, Array]) -> tuple[Carry, Any]:
            obs, first = at_t
            return network(select(first, initial, carry), obs)

        _, outputs = jax.lax.scan(step, carry, (obs, first))
        return jax.vmap(self._distribution)(outputs)

    def inputs(self, traj: Transition) -> Sequence:
        """Observations, memories and beginnings of episodes."""
        over = traj.terminated | traj.truncated
        first = jnp.concatenate([jnp.zeros_like(over[:1]), over[:-1]])
        return Sequence(traj.obs, traj.carry, first)

    def elements(self, rollout: PyTree) -> PyTree:
        """One element for each environment: its whole sequence."""
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1)[None], rollout)

    def samples(self, minibatch: PyTree) -> PyTree:
        """The steps of all sequences one after another, except for sequences of the policy."""

        def flat(x: PyTree) -> PyTree:
            return x if isinstance(x, Sequence) else x.reshape(-1, *x.shape[2:])

        return jax.tree.map(flat, minibatch, is_leaf=lambda x: isinstance(x, Sequence))

    def log_probs_and_entropies(
        self, network: TrainState, inputs: Sequence, actions: PyTree
    ) -> tuple[Float[Array, "samples ..."], Float[Array, "samples ..."]]:
        """Log-probabilities of actions and entropies; see `Policy`."""

        def of_sequence(sequence: Sequence) -> Distribution:
            start = jax.tree.map(lambda x: x[0], sequence.carry)
            return self.unroll(network, start, sequence.obs, sequence.first)

        def of_sample(distribution: Distribution, action: PyTree) -> tuple[Array, Array]:
            return distribution.log_prob(action), distribution.entropy()

        distributions = self.samples(jax.vmap(of_sequence)(inputs))
        return jax.vmap(of_sample)(distributions, actions)
