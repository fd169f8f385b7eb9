"""A common interface to networks with and without memory."""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents import ops
from jaxagents.core.observed import Remembered, Steps, Successors, observation_of
from jaxagents.learners.train_state import TrainState
from jaxagents.networks.recurrent import initial_carry, remembers

__all__ = ["FromMemory", "initial_carry", "step", "unroll"]

_RANDOM: Mapping[Any, bool] = {"dropout": True}
"""Random streams to split, so that each observation gets its own numbers."""


def step(
    state: TrainState, carry: PyTree, obs: PyTree, *more: Any, **options: Any
) -> tuple[PyTree, PyTree]:
    """Takes one step of a network.

    Args:
        state: Train state of the network.
        carry: The memory, at first [`initial_carry`][jaxagents.networks.recurrent.initial_carry]; `()`
            for a network without memory.
        obs: One observation.
        *more: Additional arguments of the network.
        **options: Keyword arguments of the network and of the state, such as `params`.

    Returns:
        The new memory, and the output.
    """
    if remembers(state.model_def):
        return state(carry, obs, *more, **options)
    return carry, state(obs, *more, **options)


def unroll(
    state: TrainState, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], **options: Any
) -> tuple[PyTree, PyTree]:
    """Applies a network to a sequence: step by step with memory, or all at once without.

    Args:
        state: Train state of the network.
        carry: The memory before the first step; `()` for a network without memory.
        obs: Observations, time first.
        first: Whether each step starts a new episode, with a fresh memory.
        **options: Keyword arguments of the network and of the state, such as `params`.

    Returns:
        The memories after each step (`()` without memory), and the outputs, time first.
    """
    if remembers(state.model_def):
        return state(carry, obs, first, method="unroll", **options)
    return carry, jax.vmap(functools.partial(state, **options))(obs)


class FromMemory(nn.Module):
    """A network, with or without memory, for a learner whose observations come with memories.

    Its inputs are one observation or a batch with their memories, the steps of sequences, or the
    successors of such steps, whose memories it computes by unrolling the sequences. Additional arguments
    are batched like the observations.

    Attributes:
        network: The network.
        name_of_memory: Name of the network in the learner, and of its memory.
        samples_axis: The sample axis of its outputs: 1 for several critics, which return their values
            along a first axis.
    """

    network: nn.Module
    name_of_memory: str = "critic"
    samples_axis: int = 0

    def __call__(self, seen: PyTree, *more: PyTree, **options: Any) -> PyTree:
        """Applies the network to one observation, a batch, or samples of sequences.

        Args:
            seen: A `Remembered`, `Steps` or `Successors` from `jaxagents.core.observed`.
            *more: Additional arguments of the network.
            **options: Keyword arguments of the network.

        Returns:
            The outputs.

        Raises:
            TypeError: An observation comes without its memory.
            ValueError: The memory differs in structure from the initial one.
        """
        if not remembers(self.network):
            return self.network(observation_of(seen), *more, **options)
        if isinstance(seen, Remembered):
            return self._step(seen.carry, seen.obs, *more, **options)[1]
        if isinstance(seen, Steps):
            return self._unroll(seen, *more, **options)[1]
        if not isinstance(seen, Successors):
            raise TypeError(
                "This network has a memory: call agent.act(learner, carry, obs), which returns "
                "the next memory and the action (agent.initial_carry(learner) is the first "
                "memory), or compute values for jaxagents.networks.Remembered(carry, obs)."
            )
        carries, _ = self._unroll(seen.steps, *more, **options)
        if seen.after is not None:
            after, carries = _by_sequence((seen.after, carries), seen.steps.length)
            carries = _one_after_another(jax.vmap(_taken)(carries, after))
        return self._step({self.name_of_memory: carries}, seen.obs, *more, **options)[1]

    def after(self, seen: Remembered, *more: PyTree) -> PyTree:
        """Returns the memory after one observation, or after each of a batch."""
        return self._step(seen.carry, seen.obs, *more)[0]

    def observe(self, observations: PyTree) -> None:
        """Updates the network's running statistics with observations, which have leading axes."""
        self.network.observe(observations)

    def _step(self, carries: PyTree, *inputs: PyTree, **options: Any) -> tuple[PyTree, PyTree]:
        initial, carry = initial_carry(self.network), self._own(carries)
        if jax.tree.structure(carry) != jax.tree.structure(initial):
            expected = jax.tree.map(jnp.shape, initial)
            raise ValueError(
                f"This network needs its memory, of shape {expected}: first "
                f"agent.initial_carry(learner), then what agent.act returned, got {carry!r}."
            )

        def take(network: nn.Module, *inputs: PyTree) -> tuple[PyTree, PyTree]:
            return network(*inputs, **options)

        one, given = jax.tree.leaves(initial)[0], jax.tree.leaves(carry)[0]
        n_axes = jnp.ndim(given) - jnp.ndim(one)
        out_axes: Any = 0, self.samples_axis
        for _ in range(n_axes):
            take = nn.vmap(take, {True: None}, split_rngs=_RANDOM, out_axes=out_axes)
        carry, outputs = take(self.network, carry, *inputs)
        return carry, _of_batch(outputs, n_axes)

    def _unroll(self, steps: Steps, *more: PyTree, **options: Any) -> tuple[PyTree, PyTree]:
        """Returns the memories after each step, and the outputs."""
        rows = steps.obs, steps.first, *more
        carry, *rows = _by_sequence((self._own(steps.carry), *rows), steps.length)

        def of_one(network: Any, *rows: PyTree) -> tuple[PyTree, PyTree]:
            return _unroll_after_burn_in(network, *rows, burn_in=steps.burn_in, **options)

        each = nn.vmap(of_one, {True: None}, split_rngs=_RANDOM)
        start = jax.tree.map(lambda x: x[:, 0], carry)
        carries, outputs = _one_after_another(each(self.network, start, *rows))
        if self.samples_axis:
            outputs = jax.tree.map(lambda x: jnp.moveaxis(x, 0, self.samples_axis), outputs)
        return carries, _of_batch(outputs, 1)

    def _own(self, carries: PyTree) -> PyTree:
        return carries.get(self.name_of_memory) if isinstance(carries, Mapping) else carries


def _of_batch(outputs: PyTree, n_axes: int) -> PyTree:
    """Adds a component axis to the parameters that all components of a batched distribution share."""
    if not isinstance(outputs, ops.Distribution):
        return outputs
    return jax.tree.map(
        lambda x: jnp.asarray(x)[..., None] if jnp.ndim(x) == n_axes else x, outputs
    )


def _unroll_after_burn_in(
    network: Any, carry: PyTree, *rows: PyTree, burn_in: int, **options: Any
) -> tuple[PyTree, PyTree]:
    """Unrolls one sequence, with no gradients through its burn-in steps."""
    if not burn_in:
        return network.unroll(carry, *rows, **options)
    early, late = (
        jax.tree.map(lambda x, part=part: x[part], rows)
        for part in (slice(burn_in), slice(burn_in, None))
    )
    before = jax.lax.stop_gradient(network.unroll(carry, *early, **options))
    carry = jax.tree.map(lambda x: x[-1], before[0])
    after = network.unroll(carry, *late, **options)
    return jax.tree.map(lambda *x: jnp.concatenate(x), before, after)


def _by_sequence(steps: PyTree, length: int) -> PyTree:
    return jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[1:]), steps)


def _one_after_another(sequences: PyTree) -> PyTree:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), sequences)


def _taken(carries: PyTree, after: Array) -> PyTree:
    return jax.tree.map(lambda x: x[after], carries)
