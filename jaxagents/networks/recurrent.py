"""Networks with a memory, and networks around others, which may have one."""

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
    """A network with a memory, for one environment: `network(carry, obs)` gives carry and output.

    A subclass says how the memory begins (`initial`) and goes on (`__call__`). Whether a network that
    may be a [`NetworkWrapper`][jaxagents.networks.NetworkWrapper] has a memory is known to
    [`remembers`][jaxagents.networks.remembers].
    """

    @abc.abstractmethod
    def initial(self) -> PyTree:
        """The memory at the start of an episode.

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
            The memory afterwards, and the output.
        """

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], *more: PyTree, **options: Any
    ) -> tuple[PyTree, PyTree]:
        """Takes the steps of a sequence.

        Args:
            carry: The memory before the first step.
            obs: Observations, time first.
            first: Whether a new episode, with a fresh memory, starts at a step.
            *more: Further arguments of a step, time first, such as the actions that a critic values.
            **options: Keyword arguments of every step.

        Returns:
            The memories after each step, and the outputs, time first.
        """

        def part(network: nn.Module) -> Callable:
            return lambda carry, inputs: network(carry, *inputs, **options)

        return _scan(self, part, self.initial(), carry, (obs, *more), first)


class NetworkWrapper(nn.Module):
    """A network around another one, with or without a memory.

    It has a memory if the other one has, and is then called in the same way: `wrapper(carry, obs)` gives
    carry and output. Around a network that remembers nothing it is `wrapper(obs)`, which gives the
    output. A subclass overrides what the network sees (`view_of`), what becomes of its output
    (`output_for`), or both:

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
        """The network that is called with the memory, if there is one."""
        return self.network

    def view_of(self, obs: PyTree) -> PyTree:
        """The part of one observation, or of a batch of them, that the network sees."""
        return obs

    def output_for(self, obs: PyTree, output: PyTree) -> PyTree:
        """The wrapper's output for one observation, given the network's output."""
        return output

    @nn.nowrap
    def initial(self) -> PyTree:
        """The memory at the start of an episode; `()` for a network that remembers nothing."""
        return initial_carry(self.inner)

    def __call__(self, *inputs: Any, **options: Any) -> PyTree:
        """Takes one step.

        Args:
            *inputs: The memory, if there is one, the observation, and further arguments of the network.
            **options: Keyword arguments of the network.

        Returns:
            The output; with a memory, the memory afterwards and the output.
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
        """Takes the steps of a sequence; see `Recurrent`. Without a memory, all of them at once."""
        if not remembers(self):
            return carry, at_each_step(self, lambda wrapper: wrapper, obs, *more, **options)
        carries, outputs = self.inner.unroll(carry, self.view_of(obs), first, *more, **options)
        return carries, at_each_step(self, lambda wrapper: wrapper.output_for, obs, outputs)


def remembers(network: nn.Module) -> bool:
    """Whether a network has a memory: it is `Recurrent`, or a wrapper around one that is.

    Args:
        network: The network.

    Returns:
        Whether it is called with a memory, and gives the one afterwards beside its output.
    """
    while isinstance(network, NetworkWrapper):
        network = network.inner
    return isinstance(network, Recurrent)


def initial_carry(network: nn.Module) -> PyTree:
    """The memory of a network at the start of an episode.

    Args:
        network: The network, with or without a memory.

    Returns:
        The memory; `()` if the network remembers nothing.
    """
    return network.initial() if remembers(network) else ()


class WithMemory(Recurrent):
    """A torso, a recurrent cell, and a network of the cell's output.

    ```python
    head = CategoricalActor(n_actions=2, features=())
    actor = WithMemory(head, cell=nn.GRUCell(features=32))
    ```

    In a sequence the torso and the network see all steps at once, and only the cell takes one after the
    other; `nn.GRUCell`, `nn.LSTMCell` and `nn.OptimizedLSTMCell` are fastest at this. A cell with a
    method `unroll`, as [`MinGRUCell`][jaxagents.networks.MinGRUCell] has, sees all steps at once too.

    Attributes:
        network: Maps the cell's output to the output of the whole.
        cell: The memory, such as `nn.GRUCell` or `nn.OptimizedLSTMCell`.
        torso: Maps an observation to the vector that the cell is given.
    """

    network: nn.Module
    cell: nn.RNNCellBase = nn.GRUCell(features=64)
    torso: nn.Module = Torso(features=(64,))

    def __post_init__(self) -> None:
        """Raises unless the cell is one.

        Raises:
            TypeError: It is something else.
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
        """The cell's initial memory, such as zeros."""
        return self.cell.initialize_carry(jax.random.key(0), (1,))

    def __call__(
        self, carry: PyTree, obs: PyTree, *more: PyTree, **options: Any
    ) -> tuple[PyTree, PyTree]:
        """Takes one step; see `Recurrent`. Further arguments go to the network behind the cell.

        Raises:
            ValueError: The memory has other shapes than the initial one.
        """
        found, expected = jax.tree.map(jnp.shape, (carry, jax.eval_shape(self.initial)))
        if found != expected:
            raise ValueError(
                f"This network needs a memory of shape {expected}: at first "
                f"agent.initial_carry(training), then the one agent.act returns, got shape {found}."
            )
        carry, output = self.cell(carry, self.torso(obs))
        return carry, self.network(output, *more, **options)

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"], *more: PyTree, **options: Any
    ) -> tuple[PyTree, PyTree]:
        """Takes the steps of a sequence; see `Recurrent`."""
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
    """A recurrent cell of a kind, with `size` units."""
    return _CELLS[memory](features=size)


def _scan(
    network: nn.Module,
    part: Callable[[nn.Module], Callable],
    initial: PyTree,
    carry: PyTree,
    inputs: PyTree,
    first: Bool[Array, "time"],
) -> tuple[PyTree, PyTree]:
    """A part of a network, step by step: its memories after each step, and its outputs."""

    def step(network: nn.Module, carry: PyTree, at_t: PyTree) -> tuple[PyTree, PyTree]:
        inputs, first = at_t
        carry, output = part(network)(select(first, initial, carry), inputs)
        return carry, (carry, output)

    scan = nn.scan(step, variable_broadcast=True, split_rngs={})
    return scan(network, carry, (inputs, first))[1]


def at_each_step(
    network: nn.Module, part: Callable[[nn.Module], Callable], *inputs: PyTree, **options: Any
) -> PyTree:
    """The outputs of a part of a bound network at all steps at once; all arrays are time first."""
    each = nn.vmap(
        lambda network, *inputs: part(network)(*inputs, **options),
        variable_axes={True: None},
        split_rngs={"dropout": True},
    )
    return each(network, *inputs)
