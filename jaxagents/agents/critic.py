"""Critics: from observations, and what is remembered, to values."""

import abc
from collections.abc import Callable
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxagents.agents.policy import Carry
from jaxagents.agents.sequences import Sequence, first_of, outputs_of, sequence_of
from jaxagents.agents.transitions import Transition
from jaxagents.core.arrays import select
from jaxagents.learners.train_state import TrainState


class Critic(abc.ABC):
    """How an agent estimates values."""

    @abc.abstractmethod
    def initial(self, network: TrainState) -> Carry:
        """The memory at the start of an episode.

        Args:
            network: State of the critic's training.

        Returns:
            The memory.
        """

    @abc.abstractmethod
    def step(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, Array]:
        """The value of an observation, as the network gives it.

        Args:
            network: State of the critic's training.
            carry: The memory.
            obs: One observation.

        Returns:
            The memory afterwards, and the value.
        """

    @abc.abstractmethod
    def judge(
        self, network: TrainState, carry: Carry, traj: Transition, steps_at_once: int
    ) -> tuple[Carry, Transition]:
        """Estimates the values of a rollout.

        Args:
            network: State of the critic's training.
            carry: The memories before the rollout, environments first.
            traj: The rollout, shaped `(time, environments, ...)`.
            steps_at_once: Number of steps whose values are computed at once, where steps do not depend
                on earlier ones.

        Returns:
            The memories after it, and the rollout with its values and those of the true successors.
        """

    @abc.abstractmethod
    def inputs(self, traj: Transition) -> PyTree:
        """The observations of a rollout in the form in which the critic learns from them.

        Args:
            traj: A rollout with its values, shaped `(time, environments, ...)`.

        Returns:
            A pytree shaped `(time, environments, ...)`.
        """

    @abc.abstractmethod
    def values(self, network: TrainState, inputs: PyTree) -> Float[Array, "samples ..."]:
        """The values of a minibatch.

        Args:
            network: State of the critic's training.
            inputs: The inputs of the minibatch, from `inputs`.

        Returns:
            The value of each sample (and actor).
        """


@final
class MemorylessCritic(Critic):
    """A critic that judges by the observation alone, and learns from samples in any order."""

    def __init__(self, value: Callable[[TrainState, PyTree, PyTree], Array]) -> None:
        """Takes the function that maps a network, its parameters and one observation to a value."""
        self._value = value

    def initial(self, network: TrainState) -> tuple[()]:
        """No memory."""
        return ()

    def step(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, Array]:
        """The value of an observation; see `Critic`."""
        return carry, network(obs)

    def judge(
        self, network: TrainState, carry: Carry, traj: Transition, steps_at_once: int
    ) -> tuple[Carry, Transition]:
        """Estimates the values of a rollout; see `Critic`."""
        value, next_value = jax.lax.map(
            lambda at_t: (self.values(network, at_t[0]), self.values(network, at_t[1])),
            (traj.obs, traj.next_obs),
            batch_size=steps_at_once,
        )
        return carry, traj._replace(value=value, next_value=next_value)

    def inputs(self, traj: Transition) -> PyTree:
        """The observations."""
        return traj.obs

    def values(self, network: TrainState, inputs: PyTree) -> Float[Array, "samples ..."]:
        """The values of a minibatch; see `Critic`."""
        return _as_values(jax.vmap(lambda obs: self._value(network, network.params, obs))(inputs))


@final
class RecurrentCritic(Critic):
    """The critic of a network with a memory, which learns from whole sequences.

    The memory at a step holds what was observed before it in its episode. The true successor is valued
    with the memory after the step, whether or not the episode ends there.
    """

    def __init__(self, per_actor: Callable[[Array], Array]) -> None:
        """Takes the function that shapes one output of the network as a value (for each actor)."""
        self._per_actor = per_actor

    def initial(self, network: TrainState) -> Carry:
        """The memory at the start of an episode; see `Critic`."""
        return network.model_def.initial()

    def step(self, network: TrainState, carry: Carry, obs: PyTree) -> tuple[Carry, Array]:
        """The value of an observation; see `Critic`."""
        return network(carry, obs)

    def judge(
        self, network: TrainState, carry: Carry, traj: Transition, steps_at_once: int
    ) -> tuple[Carry, Transition]:
        """Estimates the values of a rollout; see `Critic`."""

        def in_turn(carry: Carry, obs: PyTree, first: Array) -> tuple[Carry, Array]:
            return network(carry, obs, first, method="unroll")

        def after(at_t: tuple[Carry, PyTree]) -> Array:
            return self._of_actors(jax.vmap(lambda *one: network(*one)[1])(*at_t))

        carries, value = jax.vmap(in_turn, (0, 1, 1), 1)(carry, traj.obs, first_of(traj))
        value = jax.vmap(self._of_actors)(value)
        next_value = jax.lax.map(after, (carries, traj.next_obs), batch_size=steps_at_once)
        fresh = jax.vmap(jax.vmap(select, (0, None, 0)), (0, None, 0))
        carries = fresh(traj.terminated | traj.truncated, self.initial(network), carries)
        before = jax.tree.map(lambda x, y: jnp.concatenate([x[None], y[:-1]]), carry, carries)
        judged = traj._replace(value=value, next_value=next_value, critic_carry=before)
        return jax.tree.map(lambda x: x[-1], carries), judged

    def inputs(self, traj: Transition) -> Sequence:
        """Observations, memories and beginnings of episodes."""
        return sequence_of(traj, traj.critic_carry)

    def values(self, network: TrainState, inputs: PyTree) -> Float[Array, "samples ..."]:
        """The values of a minibatch; see `Critic`."""
        return self._of_actors(outputs_of(network, inputs))

    def _of_actors(self, outputs: Array) -> Float[Array, "samples ..."]:
        return _as_values(jax.vmap(self._per_actor)(outputs))


def _as_values(x: Array) -> Array:
    """Values in single precision at least, whichever precision the network computes in."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
