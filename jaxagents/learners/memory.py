"""One way to use networks in training, whether or not they have a memory."""

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
"""Random numbers that networks draw for each observation anew."""


def step(
    state: TrainState, carry: PyTree, obs: PyTree, *more: Any, **options: Any
) -> tuple[PyTree, PyTree]:
    """Takes one step of a network.

    Args:
        state: State of the network's training.
        carry: The memory, at first [`initial_carry`][jaxagents.networks.recurrent.initial_carry]; `()`
            if the network remembers nothing.
        obs: One observation.
        *more: Further arguments of the network.
        **options: Keyword arguments of the network and of the state, such as `params`.

    Returns:
        The memory afterwards, and the output.
    """
    if remembers(state.model_def):
        return state(carry, obs, *more, **options)
    return carry, state(obs, *more, **options)


def unroll(
    state: TrainState, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], **options: Any
) -> tuple[PyTree, PyTree]:
    """Takes the steps of a sequence: one after another with a memory, else all at once.

    Args:
        state: State of the network's training.
        carry: The memory before the first step; `()` if the network remembers nothing.
        obs: Observations, time first.
        first: Whether a new episode, with a fresh memory, starts at a step.
        **options: Keyword arguments of the network and of the state, such as `params`.

    Returns:
        The memories after each step (`()` if there are none), and the outputs, time first.
    """
    if remembers(state.model_def):
        return state(carry, obs, first, method="unroll", **options)
    return carry, jax.vmap(functools.partial(state, **options))(obs)


class FromMemory(nn.Module):
    """A network of a learner whose observations come with memories, which it may have itself or not.

    It is given one observation or a batch of them with what is remembered before, the steps of
    sequences, or the successors of such steps, which a network with a memory reaches by steps of its
    own; and further arguments, as many as there are observations.

    Attributes:
        network: The network.
        name_of_memory: Its name among the networks of the learner, which is also the name of its memory.
        samples_axis: The axis of samples in its outputs: 1 for several critics, which give their values
            along a first axis.
    """

    network: nn.Module
    name_of_memory: str = "critic"
    samples_axis: int = 0

    def __call__(self, seen: PyTree, *more: PyTree, **options: Any) -> PyTree:
        """The outputs for one observation, a batch of them, or samples.

        Args:
            seen: A `Remembered`, `Steps` or `Successors` of `jaxagents.core.observed`.
            *more: Further arguments of the network.
            **options: Its keyword arguments.

        Returns:
            The outputs.

        Raises:
            TypeError: An observation comes without what is remembered before it.
            ValueError: The memory is structured otherwise than the initial one.
        """
        if not remembers(self.network):
            return self.network(observation_of(seen), *more, **options)
        if isinstance(seen, Remembered):
            return self._step(seen.carry, seen.obs, *more, **options)[1]
        if isinstance(seen, Steps):
            return self._unroll(seen, *more, **options)[1]
        if not isinstance(seen, Successors):
            raise TypeError(
                "This network has a memory: call agent.act(learner, carry, obs), which gives the memory "
                "afterwards and the action (agent.initial_carry(learner) is the first), or ask for "
                "values at jaxagents.networks.Remembered(carry, obs)."
            )
        carries, _ = self._unroll(seen.steps, *more, **options)
        if seen.after is not None:
            after, carries = _by_sequence((seen.after, carries), seen.steps.length)
            carries = _one_after_another(jax.vmap(_taken)(carries, after))
        return self._step({self.name_of_memory: carries}, seen.obs, *more, **options)[1]

    def after(self, seen: Remembered, *more: PyTree) -> PyTree:
        """The memory after an observation, or after each of a batch."""
        return self._step(seen.carry, seen.obs, *more)[0]

    def observe(self, observations: PyTree) -> None:
        """Adds observations, with leading axes, to the running statistics of the network."""
        self.network.observe(observations)

    def _step(self, carries: PyTree, *inputs: PyTree, **options: Any) -> tuple[PyTree, PyTree]:
        initial, carry = initial_carry(self.network), self._own(carries)
        if jax.tree.structure(carry) != jax.tree.structure(initial):
            expected = jax.tree.map(jnp.shape, initial)
            raise ValueError(
                f"This network needs a memory of shape {expected}: at first "
                f"agent.initial_carry(learner), then the one agent.act returns, got {carry!r}."
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
        """The memories after all steps, and the outputs."""
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
    """Outputs for a batch, in which numbers of a distribution that all components share have an axis."""
    if not isinstance(outputs, ops.Distribution):
        return outputs
    return jax.tree.map(
        lambda x: jnp.asarray(x)[..., None] if jnp.ndim(x) == n_axes else x, outputs
    )


def _unroll_after_burn_in(
    network: Any, carry: PyTree, *rows: PyTree, burn_in: int, **options: Any
) -> tuple[PyTree, PyTree]:
    """The memories and outputs of one sequence, with no gradients through its first steps."""
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
