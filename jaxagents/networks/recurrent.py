"""Networks with a memory."""

import abc
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.core.arrays import select
from jaxagents.networks.cells import unroll_gates, unrolls_gates
from jaxagents.networks.dense import Dense
from jaxagents.networks.torsos import Torso

Memory = Literal["gru", "lstm", "min_gru"]
"""Kinds of recurrent cells."""


class Recurrent(nn.Module):
    """A network with a memory, for one environment: `network(carry, obs)` gives carry and output.

    A subclass says how the memory begins (`initial`) and goes on (`__call__`).
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
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]
    ) -> tuple[PyTree, PyTree]:
        """Takes the steps of a sequence.

        Args:
            carry: The memory before the first step.
            obs: Observations, time first.
            first: Whether a new episode, with a fresh memory, starts at a step.

        Returns:
            The memories after each step, and the outputs, time first.
        """
        return _scan(self, lambda network: network, self.initial(), carry, obs, first)


class WithMemory(Recurrent):
    """A torso, a recurrent cell, and a network of the cell's output.

    ```python
    head = CategoricalActor(n_actions=2, features=())
    actor = WithMemory(head, cell=nn.GRUCell(features=32))
    ```

    In a sequence the torso and the network see all steps at once, and only the cell takes one after the
    other, in which `nn.GRUCell`, `nn.LSTMCell` and `nn.OptimizedLSTMCell` are fastest. A cell with a
    method `unroll` like that of [`MinGRUCell`][jaxagents.networks.MinGRUCell] sees them at once as well.

    Attributes:
        network: Maps the cell's output to that of the whole.
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

    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
        """Takes one step; see `Recurrent`.

        Raises:
            ValueError: The memory has other shapes than the initial one.
        """
        found, expected = jax.tree.map(jnp.shape, (carry, jax.eval_shape(self.initial)))
        if found != expected:
            raise ValueError(
                f"This network needs a memory of shape {expected}: at first that of "
                f"agent.initial_carry(training), then what agent.act returns, got shape {found}."
            )
        carry, output = self.cell(carry, self.torso(obs))
        return carry, self.network(output)

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]
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
        return carries, at_each_step(self, lambda network: network.network, outputs)


class MinGRUCell(nn.RNNCellBase):
    r"""The minimal gated recurrent unit, whose steps are computed side by side.

    $$h_t = (1 - z_t) \, h_{t-1} + z_t \, \tilde h_t, \quad z_t = \sigma(W_z x_t + b_z),
    \quad \tilde h_t = W_h x_t + b_h$$

    The memory is linear in the one before, so that a sequence takes a logarithmic number of steps on
    hardware that can make them at once.

    Feng et al., 2024, "Were RNNs all we needed?", section 3.1.

    Attributes:
        features: Size of the memory.
    """

    features: int

    def setup(self) -> None:
        """Makes the layer of the gate and of the candidate."""
        self.layer = Dense(2 * self.features)

    def __call__(
        self, carry: Float[Array, "features"], inputs: Float[Array, "inputs"]
    ) -> tuple[Float[Array, "features"], Float[Array, "features"]]:
        """Takes one step: the memory afterwards, which is also the output."""
        kept, added = self._kept_and_added(inputs)
        carry = kept * carry + added
        return carry, carry

    def unroll(
        self,
        carry: Float[Array, "features"],
        inputs: Float[Array, "time inputs"],
        first: Bool[Array, "time"],
    ) -> tuple[Float[Array, "time features"], Float[Array, "time features"]]:
        """Takes the steps of a sequence: the memories after each, which are also the outputs."""
        kept, added = self._kept_and_added(inputs)
        kept = jnp.where(first[:, None], 0.0, kept)
        added = added.at[0].add(kept[0] * carry)
        _, carries = jax.lax.associative_scan(_one_after_the_other, (kept, added))
        return carries, carries

    @nn.nowrap
    def initialize_carry(
        self, rng: Array, input_shape: tuple[int, ...]
    ) -> Float[Array, "*batch features"]:
        """A memory of zeros, for inputs of a shape."""
        return jnp.zeros((*input_shape[:-1], self.features))

    @property
    def num_feature_axes(self) -> int:
        """Number of axes of the features of an input."""
        return 1

    def _kept_and_added(self, inputs: Float[Array, "*time inputs"]) -> tuple[Array, Array]:
        """The share of the memory that is kept, and what is added to it."""
        gate, candidate = jnp.split(self.layer(inputs), 2, axis=-1)
        return nn.sigmoid(-gate), nn.sigmoid(gate) * candidate


_CELLS: dict[Memory, Callable[..., nn.RNNCellBase]] = {
    "gru": nn.GRUCell,
    "lstm": nn.OptimizedLSTMCell,
    "min_gru": MinGRUCell,
}


def memory_cell(memory: Memory, size: int) -> nn.RNNCellBase:
    """A recurrent cell.

    Args:
        memory: Its kind.
        size: Number of its units.

    Returns:
        The cell.
    """
    return _CELLS[memory](features=size)


def _one_after_the_other(
    before: tuple[Array, Array], after: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Two maps of the form `kept * carry + added` as a single one."""
    return after[0] * before[0], after[0] * before[1] + after[1]


def _scan(
    network: nn.Module,
    part: Callable[[nn.Module], Callable],
    initial: PyTree,
    carry: PyTree,
    inputs: PyTree,
    first: Bool[Array, "time"],
) -> tuple[PyTree, PyTree]:
    """A part of a network, step by step: its memories after each step, and its outputs."""

    def step(
        network: nn.Module, carry: PyTree, at_t: tuple[PyTree, Array]
    ) -> tuple[PyTree, PyTree]:
        inputs, first = at_t
        carry, output = part(network)(select(first, initial, carry), inputs)
        return carry, (carry, output)

    scan = nn.scan(step, variable_broadcast=True, split_rngs={})
    return scan(network, carry, (inputs, first))[1]


def at_each_step(
    network: nn.Module, part: Callable[[nn.Module], Callable], inputs: PyTree
) -> PyTree:
    """The outputs of a part of a network at all steps at once.

    Args:
        network: A network, bound to its variables.
        part: Names its part.
        inputs: The inputs of the part, time first.

    Returns:
        The outputs, time first.
    """
    each = nn.vmap(lambda network, x: part(network)(x), variable_axes={True: None}, split_rngs={})
    return each(network, inputs)
