"""Networks with memory, and wrappers around networks with or without one."""

import abc
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents.core.arrays import select
from jaxagents.networks.cells import MinGRUCell, unroll_gates, unrolls_gates
from jaxagents.networks.torsos import Torso

Memory = Literal["gru", "lstm", "min_gru"]
"""Kinds of recurrent cells."""


class Recurrent(nn.Module):
    """A network with memory, for one environment: `network(carry, obs)` returns carry and output.

    A subclass defines the initial memory (`initial`) and one step (`__call__`). Use
    [`remembers`][jaxagents.networks.remembers] to tell whether a network has a memory: a
    [`NetworkWrapper`][jaxagents.networks.NetworkWrapper] may have one too.
    """

    @abc.abstractmethod
    def initial(self) -> PyTree:
        """Returns the memory at the start of an episode.

        Returns:
            A pytree of arrays.
        """

    @abc.abstractmethod
    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
        """Takes one step.

        Args:
            carry: The memory.
            obs: One observation.

        Returns:
            The new memory, and the output.
        """

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], *more: PyTree, **options: Any
    ) -> tuple[PyTree, PyTree]:
        """Unrolls the network over a sequence.

        Args:
            carry: The memory before the first step.
            obs: Observations, time first.
            first: Whether each step starts a new episode, with a fresh memory.
            *more: Additional inputs of each step, time first, such as the actions that a critic values.
            **options: Keyword arguments passed to every step.

        Returns:
            The memories after each step, and the outputs, time first.
        """

        def part(network: nn.Module) -> Callable:
            return lambda carry, inputs: network(carry, *inputs, **options)

        return _scan(self, part, self.initial(), carry, (obs, *more), first)


class NetworkWrapper(nn.Module):
    """A wrapper around a network with or without memory.

    Call it like the wrapped network: with a memory, `wrapper(carry, obs)` returns carry and output;
    without one, `wrapper(obs)` returns the output. A subclass overrides what the network sees
    (`view_of`), what happens to its output (`output_for`), or both:

    ```python
    class Clipped(NetworkWrapper):
        def view_of(self, obs):
            return jnp.clip(obs, -1.0, 1.0)


    actor = Clipped(WithMemory(CategoricalActor(n_actions=2)))
    ```

    Attributes:
        network: The network.
    """

    network: nn.Module

    @property
    def inner(self) -> nn.Module:
        """The network that has the memory, if there is one."""
        return self.network

    def view_of(self, obs: PyTree) -> PyTree:
        """Maps one observation, or a batch, to what the network sees."""
        return obs

    def output_for(self, obs: PyTree, output: PyTree) -> PyTree:
        """Maps the network's output for one observation to the wrapper's."""
        return output

    @nn.nowrap
    def initial(self) -> PyTree:
        """Returns the memory at the start of an episode; `()` for a network without memory."""
        return initial_carry(self.inner)

    def __call__(self, *inputs: Any, **options: Any) -> PyTree:
        """Takes one step.

        Args:
            *inputs: The memory, if there is one, the observation, and other arguments of the network.
            **options: Keyword arguments of the network.

        Returns:
            The output; with memory, the new memory and the output.
        """
        if remembers(self):
            carry, obs, *more = inputs
            carry, output = self.inner(carry, self.view_of(obs), *more, **options)
            return carry, self.output_for(obs, output)
        obs, *more = inputs
        return self.output_for(obs, self.inner(self.view_of(obs), *more, **options))

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], *more: PyTree, **options: Any
    ) -> tuple[PyTree, PyTree]:
        """Unrolls the network over a sequence (without memory, all steps at once); see `Recurrent`."""
        if not remembers(self):
            return carry, at_each_step(self, lambda wrapper: wrapper, obs, *more, **options)
        carries, outputs = self.inner.unroll(carry, self.view_of(obs), first, *more, **options)
        return carries, at_each_step(self, lambda wrapper: wrapper.output_for, obs, outputs)


def remembers(network: nn.Module) -> bool:
    """Whether a network has a memory: it is `Recurrent`, or wraps one that is.

    Args:
        network: The network.

    Returns:
        Whether it takes a memory and returns the new one with its output.
    """
    while isinstance(network, NetworkWrapper):
        network = network.inner
    return isinstance(network, Recurrent)


def initial_carry(network: nn.Module) -> PyTree:
    """Returns the memory of a network at the start of an episode.

    Args:
        network: The network, with or without memory.

    Returns:
        The memory; `()` for a network without one.
    """
    return network.initial() if remembers(network) else ()


class WithMemory(Recurrent):
    """A torso, a recurrent cell, and a network on the cell's output.

    ```python
    head = CategoricalActor(n_actions=2, features=())
    actor = WithMemory(head, cell=nn.GRUCell(features=32))
    ```

    On a sequence, the torso and the network process all steps at once, and only the cell runs step by
    step; `nn.GRUCell`, `nn.LSTMCell` and `nn.OptimizedLSTMCell` are fastest. A cell with a method
    `unroll`, such as [`MinGRUCell`][jaxagents.networks.MinGRUCell], also processes all steps at once.

    Attributes:
        network: Maps the cell's output to the final output.
        cell: The memory, such as `nn.GRUCell` or `nn.OptimizedLSTMCell`.
        torso: Maps an observation to the input vector of the cell.
    """

    network: nn.Module
    cell: nn.RNNCellBase = nn.GRUCell(features=64)
    torso: nn.Module = Torso(features=(64,))

    def __post_init__(self) -> None:
        """Checks the cell.

        Raises:
            TypeError: `cell` is not an instance of `nn.RNNCellBase`.
        """
        cell = self.cell
        if not isinstance(cell, nn.RNNCellBase):
            is_class = isinstance(cell, type)
            found = f"the class {cell.__name__}" if is_class else f"a {type(cell).__name__}"
            raise TypeError(
                "WithMemory.cell must be an instance of nn.RNNCellBase, such as nn.GRUCell(64), "
                f"got {found}."
            )
        super().__post_init__()

    @nn.nowrap
    def initial(self) -> PyTree:
        """Returns the cell's initial memory, such as zeros."""
        return self.cell.initialize_carry(jax.random.key(0), (1,))

    def __call__(
        self, carry: PyTree, obs: PyTree, *more: PyTree, **options: Any
    ) -> tuple[PyTree, PyTree]:
        """Takes one step; see `Recurrent`. Additional arguments go to the network after the cell.

        Raises:
            ValueError: The memory differs in shape from the initial one.
        """
        found, expected = jax.tree.map(jnp.shape, (carry, jax.eval_shape(self.initial)))
        if found != expected:
            raise ValueError(
                f"This network needs its memory, of shape {expected}: first "
                "agent.initial_carry(training), then what agent.act returned, got shape "
                f"{found}."
            )
        carry, output = self.cell(carry, self.torso(obs))
        return carry, self.network(output, *more, **options)

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], *more: PyTree, **options: Any
    ) -> tuple[PyTree, PyTree]:
        """Unrolls the network over a sequence; see `Recurrent`."""
        inputs = at_each_step(self, lambda network: network.torso, obs)
        initial = self.initial()
        if hasattr(self.cell, "unroll"):
            carries, outputs = self.cell.unroll(carry, inputs, first)
        elif unrolls_gates(self.cell):
            carries, outputs = unroll_gates(self.cell, initial, carry, inputs, first)
        else:
            carries, outputs = _scan(self, lambda x: x.cell, initial, carry, inputs, first)
        outputs = at_each_step(self, lambda it: it.network, outputs, *more, **options)
        return carries, outputs


_CELLS: dict[Memory, Callable[..., nn.RNNCellBase]] = {
    "gru": nn.GRUCell,
    "lstm": nn.OptimizedLSTMCell,
    "min_gru": MinGRUCell,
}


def memory_cell(memory: Memory, size: int) -> nn.RNNCellBase:
    """Creates a recurrent cell with `size` units."""
    return _CELLS[memory](features=size)


def _scan(
    network: nn.Module,
    part: Callable[[nn.Module], Callable],
    initial: PyTree,
    carry: PyTree,
    inputs: PyTree,
    first: Bool[Array, "time"],
) -> tuple[PyTree, PyTree]:
    """Runs a part of a network step by step; returns its memories after each step, and its outputs."""

    def step(network: nn.Module, carry: PyTree, at_t: PyTree) -> tuple[PyTree, PyTree]:
        inputs, first = at_t
        carry, output = part(network)(select(first, initial, carry), inputs)
        return carry, (carry, output)

    scan = nn.scan(step, variable_broadcast=True, split_rngs={})
    return scan(network, carry, (inputs, first))[1]


def at_each_step(
    network: nn.Module, part: Callable[[nn.Module], Callable], *inputs: PyTree, **options: Any
) -> PyTree:
    """Applies a part of a bound network to all steps at once; all arrays are time first."""
    each = nn.vmap(
        lambda network, *inputs: part(network)(*inputs, **options),
        variable_axes={True: None},
        split_rngs={"dropout": True},
    )
    return each(network, *inputs)
