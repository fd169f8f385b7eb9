"""One way to use networks in training, whether or not they have a memory."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents.core.remembered import Remembered, Steps, Successors
from jaxagents.learners.train_state import TrainState
from jaxagents.networks.recurrent import Wrapper, initial_carry, remembers

__all__ = ["FromMemory", "initial_carry", "step", "unroll"]


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


class FromMemory(Wrapper):
    """A network with a memory, as learners ask for its outputs.

    Besides `(carry, obs)` it takes a single input: one observation or a batch of them with what is
    remembered before, the steps of sequences, or the successors of such steps, which the network
    reaches by steps of its own.

    Attributes:
        network: The network.
    """

    def __call__(self, *inputs: PyTree) -> PyTree:
        """The outputs, shaped as the observations are: one, a batch of them, or samples.

        Args:
            *inputs: A `Remembered`, `Steps` or `Successors` of `jaxagents.core.remembered`; or
                memory and observation, or a batch of both.

        Returns:
            The outputs; for a memory and an observation the memory afterwards, and the output.

        Raises:
            TypeError: An observation comes without what is remembered before it.
            ValueError: The memory is structured otherwise than the initial one.
        """
        if len(inputs) == 2:
            return self._step(*inputs)
        (seen,) = inputs
        if isinstance(seen, Remembered):
            return self._step(seen.carry, seen.obs)[1]
        if isinstance(seen, Steps):
            return self._unroll(seen)[1]
        if not isinstance(seen, Successors):
            raise TypeError(
                "This network has a memory: call agent.act(learner, carry, obs), which gives the memory "
                "afterwards and the action (agent.initial_carry(learner) is the first), or ask for "
                "values at jaxagents.networks.Remembered(carry, obs)."
            )
        carries, _ = self._unroll(seen.steps)
        if seen.after is not None:
            after, carries = _by_sequence((seen.after, carries), seen.steps.length)
            carries = _one_after_another(jax.vmap(_taken)(carries, after))
        return self._step(carries, seen.obs)[1]

    def after(self, seen: Remembered) -> PyTree:
        """The memory after an observation, or after each of a batch."""
        return self._step(seen.carry, seen.obs)[0]

    def observe(self, observations: PyTree) -> None:
        """Adds observations, with leading axes, to the running statistics of the network."""
        self.network.observe(observations)

    def _step(self, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
        initial = self.initial()
        if jax.tree.structure(carry) != jax.tree.structure(initial):
            expected = jax.tree.map(jnp.shape, initial)
            raise ValueError(
                f"This network needs a memory of shape {expected}: at first that of "
                f"agent.initial_carry(learner), then what agent.act returns, got {carry!r}."
            )
        one, given = jax.tree.leaves(initial)[0], jax.tree.leaves(carry)[0]
        take = _call
        for _ in range(jnp.ndim(given) - jnp.ndim(one)):
            take = nn.vmap(take, variable_axes={True: None}, split_rngs={})
        return take(self.network, carry, obs)

    def _unroll(self, steps: Steps) -> tuple[PyTree, PyTree]:
        """The memories after all steps, and the outputs."""
        sequences = _by_sequence((steps.carry, steps.obs, steps.first), steps.length)
        carry, obs, first = sequences
        of_one = functools.partial(_unroll_after_burn_in, burn_in=steps.burn_in)
        each = nn.vmap(of_one, variable_axes={True: None}, split_rngs={})
        start = jax.tree.map(lambda x: x[:, 0], carry)
        return _one_after_another(each(self.network, start, obs, first))


def _call(network: nn.Module, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
    return network(carry, obs)


def _unroll_after_burn_in(
    network: Any, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], burn_in: int
) -> tuple[PyTree, PyTree]:
    """The memories and outputs of one sequence, with no gradients through its first steps."""
    if not burn_in:
        return network.unroll(carry, obs, first)
    early, late = (
        jax.tree.map(lambda x, part=part: x[part], (obs, first))
        for part in (slice(burn_in), slice(burn_in, None))
    )
    before = jax.lax.stop_gradient(network.unroll(carry, *early))
    carry = jax.tree.map(lambda x: x[-1], before[0])
    return jax.tree.map(lambda *x: jnp.concatenate(x), before, network.unroll(carry, *late))


def _by_sequence(steps: PyTree, length: int) -> PyTree:
    return jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[1:]), steps)


def _one_after_another(sequences: PyTree) -> PyTree:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), sequences)


def _taken(carries: PyTree, after: Array) -> PyTree:
    return jax.tree.map(lambda x: x[after], carries)
