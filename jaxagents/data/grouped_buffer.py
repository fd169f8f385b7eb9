"""A replay buffer on several devices."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Key, PyTree

from jaxagents.core.numbers import multiples_near
from jaxagents.core.pickling import nonpytree_field
from jaxagents.data.dataset import Dataset
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.priorities import PriorityTree


class GroupedBuffer(DeviceBuffer):
    """Device buffers of several groups of environments, each of which gives its part of every batch.

    It has the methods of a [`DeviceBuffer`][jaxagents.data.DeviceBuffer], whose arrays it holds with a
    leading axis of groups. Devices that share out the groups draw batches without asking each other for
    rows. Environments are assigned to groups in order, and the rows of a batch are those of the first
    group, then those of the second, and so on.

    Attributes:
        n_groups: Number of groups (static). `capacity` and `n_envs` are those of each group.
    """

    n_groups: int = nonpytree_field()

    @classmethod
    def create(
        cls,
        example: PyTree,
        capacity: int,
        n_envs: int = 1,
        prioritised: bool = False,
        n_groups: int = 1,
        prioritised_length: int = 1,
    ) -> "GroupedBuffer":
        """Empty buffers.

        Args:
            example: One transition of one environment, as for a device buffer.
            capacity: Number of rows that all groups together hold, a multiple of `n_envs`.
            n_envs: Number of transitions that are added at a time, a multiple of `n_groups`.
            prioritised: Whether rows have priorities.
            n_groups: Number of groups.
            prioritised_length: As for a device buffer.

        Returns:
            The buffers.

        Raises:
            ValueError: The numbers do not fit together.
        """
        if min(n_groups, n_envs) < 1 or n_envs % n_groups or capacity % n_envs:
            raise ValueError(
                "capacity must be a multiple of n_envs, and n_envs of n_groups, all positive, got "
                f"{capacity}, {n_envs} and {n_groups}."
            )
        sizes = capacity // n_groups, n_envs // n_groups
        group = DeviceBuffer.create(example, *sizes, prioritised, prioritised_length)

        def of_each_group(tree: PyTree) -> PyTree:
            return jax.tree.map(lambda x: jnp.tile(x, (n_groups, *[1] * x.ndim)), tree)

        return cls(
            storage=of_each_group(group.storage),
            position=group.position,
            size=group.size,
            priorities=of_each_group(group.priorities),
            capacity=group.capacity,
            n_envs=group.n_envs,
            prioritised_length=prioritised_length,
            n_groups=n_groups,
        )

    def add(self, transitions: PyTree) -> "GroupedBuffer":
        """Adds one transition of each environment, in place of the oldest once it is full."""
        after = self._map_groups(DeviceBuffer.add, self._split(transitions), gives_buffers=True)
        return self.replace(**vars(after))

    def sample_indices(
        self, key: Key[Array, ""], batch_size: int
    ) -> Int[Array, "groups rows_of_each"]:
        """Numbers of rows held, equally many of each group, drawn uniformly, with replacement."""
        n_rows = self._rows_of_each(batch_size)

        def sample(buffer: DeviceBuffer, key: Key[Array, ""]) -> Array:
            return buffer.sample_indices(key, n_rows)

        return self._map_groups(sample, jax.random.split(key, self.n_groups))

    def sample_sequences(
        self, key: Key[Array, ""], n_sequences: int, length: int
    ) -> Int[Array, "groups sequences_of_each length"]:
        """Numbers of rows that follow each other in time, equally many sequences of each group."""
        n_of_each = self._rows_of_each(n_sequences, "n_sequences")

        def sample(buffer: DeviceBuffer, key: Key[Array, ""]) -> Array:
            return buffer.sample_sequences(key, n_of_each, length)

        return self._map_groups(sample, jax.random.split(key, self.n_groups))

    def take(self, indices: Int[Array, "groups rows_of_each *rest"]) -> PyTree:
        """Rows by their numbers, with the groups joined."""
        return self._join(self._map_groups(DeviceBuffer.take, indices))

    def n_step(
        self, indices: Int[Array, "groups rows_of_each"], n: int, gamma: ArrayLike
    ) -> PyTree:
        """Transitions over up to `n` steps, with one leading axis."""

        def n_step(buffer: DeviceBuffer, indices: Array) -> PyTree:
            return buffer.n_step(indices, n, gamma)

        return self._join(self._map_groups(n_step, indices))

    def sample_prioritised(
        self, key: Key[Array, ""], batch_size: int
    ) -> tuple[Int[Array, "groups rows_of_each"], Float[Array, "batch_size"]]:
        """Numbers of rows, equally many of each group, in proportion to their priorities within it.

        The probabilities are those of a draw from the group, divided by the number of groups.
        """
        n_rows = self._rows_of_each(batch_size)

        def sample(buffer: DeviceBuffer, key: Key[Array, ""]) -> tuple[Array, Array]:
            return buffer.sample_prioritised(key, n_rows)

        indices, probabilities = self._map_groups(sample, jax.random.split(key, self.n_groups))
        return indices, probabilities.reshape(-1) / self.n_groups

    def with_priorities(
        self, indices: Int[Array, "groups rows_of_each"], priorities: Float[Array, "batch_size"]
    ) -> "GroupedBuffer":
        """Sets the priorities of rows."""
        after = self._map_groups(
            DeviceBuffer.with_priorities, indices, self._split(priorities), gives_buffers=True
        )
        return self.replace(priorities=after.priorities)

    def to_dataset(self, seed: int = 0) -> Dataset:
        """A copy of what the buffers hold, on the host, environment by environment."""
        if jnp.ndim(self.size):
            return super().to_dataset(seed)  # which says what is wrong
        parts = [
            self._group(jax.tree.map(lambda x, i=i: x[i], self.storage)).to_dataset()
            for i in range(self.n_groups)
        ]
        return Dataset(jax.tree.map(lambda *x: np.concatenate(x), *map(dict, parts)), seed)

    def _map_groups(
        self, function: Callable[..., PyTree], *args: PyTree, gives_buffers: bool = False
    ) -> PyTree:
        """Applies a function of one group's buffer to those of all groups."""
        buffers = self._group(self.storage, self.priorities)
        axes = buffers.replace(storage=0, position=None, size=None, priorities=0)
        out_axes = axes if gives_buffers else 0
        return jax.vmap(function, (axes, *[0] * len(args)), out_axes)(buffers, *args)

    def _group(self, storage: PyTree, priorities: PriorityTree | None = None) -> DeviceBuffer:
        static = self.capacity, self.n_envs, self.prioritised_length
        return DeviceBuffer(storage, self.position, self.size, priorities, *static)

    def _split(self, tree: PyTree) -> PyTree:
        def split(x: PyTree) -> PyTree:
            n_rows = self._rows_of_each(len(x), "The leading axis of what is added")
            return jnp.reshape(x, (self.n_groups, n_rows, *jnp.shape(x)[1:]))

        return jax.tree.map(split, tree)

    def _join(self, tree: PyTree) -> PyTree:
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)

    def _rows_of_each(self, n_rows: int, name: str = "batch_size") -> int:
        if n_rows % self.n_groups:
            raise ValueError(
                f"{name} must be a multiple of the {self.n_groups} groups, got {n_rows}; "
                f"{multiples_near(n_rows, self.n_groups)}."
            )
        return n_rows // self.n_groups
