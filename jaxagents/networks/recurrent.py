"""Networks with a memory."""

import abc
from typing import Any

import jax
from flax import linen as nn
from jaxtyping import PyTree

from jaxagents.networks.torsos import Torso


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
    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[Any, Any]:
        """Takes one step.

        Args:
            carry: The memory.
            obs: One observation.

        Returns:
            The memory afterwards, and the output.
        """


class WithMemory(Recurrent):
    """A torso, a recurrent cell, and a network of the cell's output.

    ```python
    head = CategoricalActor(n_actions=2, features=())
    actor = WithMemory(head, cell=nn.GRUCell(features=32))
    ```

    Attributes:
        network: Maps the cell's output to that of the whole.
        cell: The memory, such as `nn.GRUCell` or `nn.OptimizedLSTMCell`.
        torso: Maps an observation to the vector that the cell is given.
    """

    network: nn.Module
    cell: nn.RNNCellBase = nn.GRUCell(features=64)
    torso: nn.Module = Torso(features=(64,))

    @nn.nowrap
    def initial(self) -> PyTree:
        """The cell's initial memory, such as zeros."""
        return self.cell.initialize_carry(jax.random.key(0), (1,))

    @nn.compact
    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[Any, Any]:
        """Takes one step; see `Recurrent`."""
        carry, output = self.cell(carry, self.torso(obs))
        return carry, self.network(output)
