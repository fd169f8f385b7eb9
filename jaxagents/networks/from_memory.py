"""Networks with a memory as functions of observations that come with what is remembered."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Int, PyTree

from jaxagents.core.remembered import Remembered, Steps, Successors
from jaxagents.networks.recurrent import Recurrent


class FromMemory(nn.Module):
    """The outputs of a network with a memory, as learners ask for them.

    They are those for one observation or a batch of them, for the steps of sequences, or for the
    successors of such steps, which the network reaches by steps of its own.

    Attributes:
        network: The network.
    """

    network: Recurrent

    @nn.nowrap
    def initial(self) -> PyTree:
        """The memory of the network at the start of an episode."""
        return self.network.initial()

    def __call__(self, seen: PyTree) -> PyTree:
        """The outputs, shaped as the observations are: one, a batch of them, or samples.

        Args:
            seen: A `Remembered`, `Steps` or `Successors` of `jaxagents.core.remembered`.

        Returns:
            The outputs.

        Raises:
            TypeError: An observation comes without what is remembered before it.
            ValueError: The memory is structured otherwise than the initial one.
        """
        if not isinstance(seen, Remembered | Steps | Successors):
            raise TypeError(
                "This network has a memory: call agent.act(learner, carry, obs), which gives the memory "
                "afterwards and the action (agent.initial_carry(learner) is the first), or ask for "
                "values at jaxagents.networks.Remembered(carry, obs)."
            )
        if isinstance(seen, Remembered):
            return self._step(seen)[1]
        if isinstance(seen, Steps):
            return self._unroll(seen)[1]
        carries, _ = self._unroll(seen.steps)
        if seen.after is not None:
            carries = _at(seen.after, carries, seen.steps.length)
        return self._step(Remembered(carries, seen.obs))[1]

    def after(self, seen: Remembered) -> PyTree:
        """The memory after an observation, or after each of a batch."""
        return self._step(seen)[0]

    def observe(self, observations: PyTree) -> None:
        """Adds observations, with leading axes, to the running statistics of the network."""
        self.network.observe(observations)

    def _step(self, seen: Remembered) -> tuple[PyTree, PyTree]:
        step = _call
        for _ in range(self._n_batch_axes(seen.carry)):
            step = nn.vmap(step, variable_axes={True: None}, split_rngs={})
        return step(self.network, seen.carry, seen.obs)

    def _n_batch_axes(self, carry: PyTree) -> int:
        initial = self.initial()
        if jax.tree.structure(carry) != jax.tree.structure(initial):
            expected = jax.tree.map(jnp.shape, initial)
            raise ValueError(
                f"This network needs a memory of shape {expected}: at first that of "
                f"agent.initial_carry(learner), then what agent.act returns, got {carry!r}."
            )
        one, *_ = jax.tree.leaves(initial)
        given, *_ = jax.tree.leaves(carry)
        return jnp.ndim(given) - jnp.ndim(one)

    def _unroll(self, steps: Steps) -> tuple[PyTree, PyTree]:
        """The memories after all steps, and the outputs."""
        n = len(steps.first) // steps.length
        carry, obs, first = jax.tree.map(
            lambda x: x.reshape(n, steps.length, *x.shape[1:]),
            (steps.carry, steps.obs, steps.first),
        )
        of_one = functools.partial(_unroll_after_burn_in, burn_in=steps.burn_in)
        unroll = nn.vmap(of_one, variable_axes={True: None}, split_rngs={})
        start = jax.tree.map(lambda x: x[:, 0], carry)
        found = unroll(self.network, start, obs, first)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found)


def _at(after: Int[Array, "steps"], carries: PyTree, length: int) -> PyTree:
    """The memories after steps that are numbered within each sequence."""
    after, carries = jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[1:]), (after, carries))
    taken = jax.vmap(lambda carries, after: jax.tree.map(lambda x: x[after], carries))(
        carries, after
    )
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), taken)


def _call(network: Recurrent, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
    return network(carry, obs)


def _unroll_after_burn_in(
    network: Recurrent, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], burn_in: int
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
