"""A replay buffer on the device."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key, PyTree

from jaxagents import ops
from jaxagents.core.arrays import leaves_by_name
from jaxagents.core.numbers import check_divides, check_multiple, positive
from jaxagents.core.pickling import nonpytree_field
from jaxagents.data import rows, units
from jaxagents.data.dataset import Dataset
from jaxagents.data.priorities import PriorityTree
from jaxagents.envs.spaces import Box


class DeviceBuffer(struct.PyTreeNode):
    """A replay buffer for several environments, as a pytree for compiled loops.

    ```python
    buffer = DeviceBuffer.create(example_transition, capacity=100_000, n_envs=10)


    @partial(jax.jit, donate_argnums=0)
    def train(buffer, key):
        def step(i, buffer):
            buffer = buffer.add(transitions)
            batch = buffer.sample(jax.random.fold_in(key, i), 256)
            ...
            return buffer

        return jax.lax.fori_loop(0, n_steps, step, buffer)
    ```

    A loop's carry and donated arguments are written in place. In each step, add first, then sample: if
    you sample first, XLA copies the whole buffer before it writes, unless the new transitions depend on
    the sampled ones.

    Transitions are dicts as in [`ReplayBuffer`][jaxagents.data.ReplayBuffer], with the *true* successor
    as `next_observations`, `masks` (0 where the episode terminated, else 1) and `ends` (whether the row
    is the last of its episode, terminated or truncated). Rows are ordered by time, then by environment:
    the successor in time of row `i` is row `(i + n_envs) % capacity`.

    Environments may be split into groups. Each batch takes equally many rows from every group, so that
    devices that share the groups need not exchange rows. Arrays then have a leading group axis, and row
    indices are shaped `(groups, rows per group, ...)`. Environments are assigned to groups in order, and
    batches concatenate the groups' rows in order.

    Attributes:
        storage: Arrays with a leading axis of `capacity` rows.
        position: Row at which the next transitions are written.
        size: Number of rows stored; they are always the first ones.
        priorities: Priorities of the rows; `None` if the buffer is not prioritised.
        capacity: Maximum number of rows per group (static).
        n_envs: Number of environments per group (static).
        prioritised_length: Length of the sequences that priorities apply to; the first row of each
            stores the priority (static).
        n_groups: Number of groups (static).
        action_space: The box that defines the units of actions, for datasets created from the buffer;
            `None` if unknown or if there is none (static).
    """

    storage: PyTree
    position: Int[Array, ""]
    size: Int[Array, ""]
    priorities: PriorityTree | None
    capacity: int = nonpytree_field()
    n_envs: int = nonpytree_field()
    prioritised_length: int = nonpytree_field(default=1)
    n_groups: int = nonpytree_field(default=1)
    action_space: Box | None = nonpytree_field(default=None)

    @classmethod
    def create(
        cls,
        example: PyTree,
        capacity: int,
        n_envs: int = 1,
        prioritised: bool = False,
        prioritised_length: int = 1,
        n_groups: int = 1,
        action_space: units.Bounds = None,
    ) -> "DeviceBuffer":
        """Creates an empty buffer.

        Args:
            example: One transition of one environment, or its shapes (`jax.ShapeDtypeStruct`), in a
                possibly nested dict.
            capacity: Maximum number of rows in all groups together, a multiple of `n_envs`.
            n_envs: Number of environments; each adds one transition at a time. A multiple of `n_groups`.
            prioritised: Whether rows have priorities.
            prioritised_length: Length of the sequence that starts at a row and shares its priority. Rows
                without a complete sequence have priority zero.
            n_groups: Number of groups of environments.
            action_space: The space of the actions, or its bounds; see
                [`ReplayBuffer.create`][jaxagents.data.ReplayBuffer.create].

        Returns:
            The buffer.

        Raises:
            ValueError: A number is not positive, `capacity` is not a multiple of `n_envs` or `n_envs`
                not a multiple of `n_groups`, or `capacity` is too small for `prioritised_length` rows
                per environment.
            TypeError: A size is not an integer.
        """
        capacity, n_envs = positive("capacity", capacity), positive("n_envs", n_envs)
        check_multiple("capacity", capacity, n_envs, f"n_envs ({n_envs})")
        check_divides("n_groups", positive("n_groups", n_groups), n_envs, "n_envs")
        if not 1 <= prioritised_length <= capacity // n_envs:
            raise ValueError(
                f"prioritised_length must lie in 1..{capacity // n_envs}, the rows of each environment, "
                f"got {prioritised_length}."
            )
        groups = (n_groups,) if n_groups > 1 else ()
        capacity, n_envs = capacity // n_groups, n_envs // n_groups
        known = units.known_box(example)
        example = dict(example) if isinstance(example, units.Transitions) else example
        shapes = jax.eval_shape(lambda x: jax.tree.map(jnp.asarray, x), example)
        arrays = shapes if isinstance(shapes, dict) else {}
        box = units.box_of_arrays(arrays, known, action_space, n_axes=0)
        tree = PriorityTree.create(capacity) if prioritised else None
        return cls(
            storage=jax.tree.map(
                lambda x: jnp.zeros((*groups, capacity, *x.shape), x.dtype), shapes
            ),
            position=jnp.zeros((), jnp.int32),
            size=jnp.zeros((), jnp.int32),
            priorities=jax.tree.map(lambda x: jnp.tile(x, (*groups, *[1] * x.ndim)), tree),
            capacity=capacity,
            n_envs=n_envs,
            prioritised_length=prioritised_length,
            n_groups=n_groups,
            action_space=box,
        )

    def add(self, transitions: PyTree) -> "DeviceBuffer":
        """Adds one transition per environment, overwriting the oldest once it is full.

        New rows get the largest priority so far; with a `prioritised_length`, once their sequence is
        complete.

        Args:
            transitions: Structured like the example, with a leading axis of all environments.

        Returns:
            The updated buffer.

        Raises:
            ValueError: The structure or a shape differs; the message names the key.
            TypeError: An array is of a different kind, such as real numbers for stored integers.
        """
        if self.n_groups > 1:
            return self._of_groups(DeviceBuffer.add, self._split(transitions), gives_buffer=True)
        new = _convert(transitions, self.storage, self.n_envs)
        size = jnp.minimum(self.size + self.n_envs, self.capacity)
        return self.replace(
            storage=jax.tree.map(lambda x, y: _write(x, y, self.position), self.storage, new),
            position=(self.position + self.n_envs) % self.capacity,
            size=size,
            priorities=self._priorities_after_adding(size),
        )

    def end_episodes(self, where: Bool[Array, "environments"]) -> "DeviceBuffer":
        """Marks the newest transition of some environments as the end of its episode.

        Use it to abandon an episode and start a new one.

        Args:
            where: Whether to mark the newest transition of each environment.

        Returns:
            The updated buffer.
        """
        if self.n_groups > 1:
            return self._of_groups(DeviceBuffer.end_episodes, self._split(where), gives_buffer=True)
        newest = (self.position - self.n_envs + jnp.arange(self.n_envs)) % self.capacity
        ends = self.storage["ends"]
        ends = ends.at[newest].set(ends[newest] | where & (self.size > 0))
        return self.replace(storage={**self.storage, "ends": ends})

    def _priorities_after_adding(self, size: Int[Array, ""]) -> PriorityTree | None:
        tree, n_behind = self.priorities, (self.prioritised_length - 1) * self.n_envs
        if tree is None:
            return None
        if n_behind == 0:
            return tree.set_block(self.position, self.n_envs, tree.largest)
        tree = tree.set_block(self.position, self.n_envs, jnp.zeros(()))
        priority = jnp.where(size > n_behind, tree.largest, 0.0)
        first = (self.position - n_behind) % self.capacity
        return tree.set_block(first, self.n_envs, priority)

    def sample(self, key: Key[Array, ""], batch_size: int) -> PyTree:
        """Draws rows uniformly, with replacement; all zeros if the buffer is empty.

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            Rows structured like the example, with a leading axis of `batch_size`.
        """
        return self.take(self.sample_indices(key, batch_size))

    def sample_indices(self, key: Key[Array, ""], batch_size: int) -> Int[Array, "batch_size"]:
        """Draws indices of stored rows uniformly, with replacement.

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            The indices.
        """
        if self.n_groups > 1:
            n_rows = self._of_each(batch_size)
            return self._draw(lambda group, key: group.sample_indices(key, n_rows), key)
        return ops.random_indices(key, batch_size, self.size)

    def sample_sequences(
        self, key: Key[Array, ""], n_sequences: int, length: int
    ) -> Int[Array, "n_sequences length"]:
        """Draws sequences of consecutive rows uniformly, with replacement.

        A sequence comes from one environment and may cross ends of episodes. Each environment must have
        added at least `length` rows.

        Args:
            key: Random key.
            n_sequences: Number of sequences.
            length: Number of rows per sequence.

        Returns:
            Row indices in time order.
        """
        if self.n_groups > 1:
            n_of_each = self._of_each(n_sequences, "n_sequences")
            return self._draw(
                lambda group, key: group.sample_sequences(key, n_of_each, length), key
            )
        n_starts = jnp.maximum(self.size - (length - 1) * self.n_envs, 0)
        oldest = jnp.where(self.size == self.capacity, self.position, 0)
        return self.sequences(oldest + ops.random_indices(key, n_sequences, n_starts), length)

    def sequences(self, starts: Int[Array, "*shape"], length: int) -> Int[Array, "*shape length"]:
        """Indices of consecutive rows of the same environment.

        Args:
            starts: Index of the first row of each sequence.
            length: Number of rows per sequence.

        Returns:
            Row indices in time order.
        """
        return jnp.add.outer(starts, self.n_envs * jnp.arange(length)) % self.capacity

    def take(self, indices: Int[Array, "*shape"]) -> PyTree:
        """Gathers rows.

        Args:
            indices: Row indices.

        Returns:
            Rows structured like the example, with leading axes as in `indices`, but with the groups
            concatenated.
        """
        if self.n_groups > 1:
            return _join_groups(self._of_groups(DeviceBuffer.take, indices))
        return _take(self.storage, indices)

    def n_step(self, indices: Int[Array, "*shape"], n: int, gamma: ArrayLike) -> PyTree:
        r"""Gathers transitions of up to `n` steps, which never cross the end of an episode.

        The reward of the row at time $t$ becomes $\sum_{k=0}^{m-1} \gamma^k r_{t+k}$, and its
        successor, mask and end come from time $t + m - 1$, where $m = n$, or less at the end of the
        episode or of its environment's rows. A new key `discounts` holds $\gamma^m$, the discount of the
        successor's value.

        Sutton, 1988, "Learning to predict by the methods of temporal differences".

        Args:
            indices: Row indices.
            n: Maximum number of steps (static).
            gamma: Discount factor $\gamma$.

        Returns:
            Rows as from `take`, with `discounts`.

        Raises:
            ValueError: `n` is not positive, or there is not one reward, mask and end per row.
            KeyError: A key is missing.
        """
        positive("n", n)
        if self.n_groups > 1:
            return _join_groups(
                self._of_groups(lambda group, i: group.n_step(i, n, gamma), indices)
            )
        keys = "rewards", *rows.OF_THE_LAST
        rows.check_columns("n_step", keys, self.storage, "the buffer")
        window = jnp.add.outer(indices, self.n_envs * jnp.arange(n)) % self.capacity
        following = (window + self.n_envs) % self.capacity
        newest = following // self.n_envs == self.position // self.n_envs
        goes_on = ~(self.storage["ends"][window].astype(bool) | newest)[..., :-1]
        rewards, n_steps, discounts = ops.n_step_rewards(
            self.storage["rewards"][window], goes_on, gamma
        )
        last = (indices + self.n_envs * (n_steps - 1)) % self.capacity
        return _take(self.storage, indices) | {
            **_take({key: self.storage[key] for key in rows.OF_THE_LAST}, last),
            "rewards": rewards,
            "discounts": discounts,
        }

    def sample_prioritised(
        self, key: Key[Array, ""], batch_size: int
    ) -> tuple[Int[Array, "batch_size"], Float[Array, "batch_size"]]:
        r"""Draws row indices with probabilities proportional to their priorities.

        $$P_i = \frac{p_i}{\sum_j p_j}$$

        Rows with priority zero are never drawn; with a `prioritised_length`, these include rows without
        a complete sequence. If all priorities are zero, every draw is row 0, with probability NaN.

        Schaul et al., 2016, "Prioritized experience replay", the proportional variant.

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            The indices, and their $P_i$ for
            [`importance_weights`][jaxagents.data.importance_weights]. Groups provide equally many rows,
            so $P_i$ is the probability within the group divided by the number of groups.

        Raises:
            ValueError: The buffer has no priorities.
        """
        if self.n_groups > 1:
            n_rows = self._of_each(batch_size)
            indices, within = self._draw(lambda x, key: x.sample_prioritised(key, n_rows), key)
            return indices, within.reshape(-1) / self.n_groups
        return self._priority_tree().sample(key, batch_size)

    def with_priorities(
        self, indices: Int[Array, "n"], priorities: Float[Array, "n"]
    ) -> "DeviceBuffer":
        r"""Sets the priorities of rows.

        Args:
            indices: Row indices. If an index is repeated, one of its priorities is kept.
            priorities: New priorities, non-negative and finite; in the paper
                $p_i = (|\delta_i| + \epsilon)^\alpha$ for the temporal-difference error $\delta_i$.

        Returns:
            The updated buffer.

        Raises:
            ValueError: The buffer has no priorities.
        """
        if self.n_groups > 1:
            split = self._split(priorities)
            after = self._of_groups(DeviceBuffer.with_priorities, indices, split, gives_buffer=True)
            return self.replace(priorities=after.priorities)
        return self.replace(priorities=self._priority_tree().set(indices, priorities))

    def to_dataset(self, seed: int = 0) -> Dataset:
        """Copies the stored rows to a dataset on the host.

        Rows are grouped by environment, in time order. The newest row of each environment is marked as
        an end, even in the middle of an episode, so that
        [`Dataset.n_step`][jaxagents.data.Dataset.n_step] does not continue in another environment.
        Tuples and dataclasses, as in observations or memories, become dicts of their parts.

        Args:
            seed: Seed for sampling from the dataset.

        Returns:
            The dataset.

        Raises:
            ValueError: The buffer is a batch of buffers, such as `jax.vmap` creates.
        """
        if jnp.ndim(self.size):
            raise ValueError(
                f"These are stacked buffers of shape {jnp.shape(self.size)}; use one at a time, "
                "such as jax.tree.map(lambda x: x[0], buffers)."
            )
        n_times = int(self.size) // self.n_envs
        oldest = int(self.position) if self.size == self.capacity else 0
        times = oldest + self.n_envs * np.arange(n_times)
        order = (times + np.arange(self.n_envs)[:, None]).ravel() % self.capacity
        flat = rows.flatten(rows.in_dicts(jax.device_get(self.storage)))
        if self.n_groups > 1:
            held = {name: np.concatenate(array[:, order]) for name, array in flat.items()}
        else:
            held = {name: array[order] for name, array in flat.items()}
        if "ends" in held and n_times:
            held["ends"][n_times - 1 :: n_times] = True
        return Dataset(rows.unflatten(held), seed, self.action_space)

    def _priority_tree(self) -> PriorityTree:
        if self.priorities is None:
            raise ValueError("The buffer has no priorities: create it with prioritised=True.")
        return self.priorities

    def _of_groups(
        self, function: Callable[..., PyTree], *args: PyTree, gives_buffer: bool = False
    ) -> PyTree:
        """Vmaps a function of one group's buffer over all groups."""
        groups = self.replace(n_groups=1)
        axes = groups.replace(storage=0, position=None, size=None, priorities=0)
        out_axes = axes if gives_buffer else 0
        after = jax.vmap(function, (axes, *[0] * len(args)), out_axes)(groups, *args)
        return after.replace(n_groups=self.n_groups) if gives_buffer else after

    def _draw(self, function: Callable[..., PyTree], key: Key[Array, ""]) -> PyTree:
        return self._of_groups(function, jax.random.split(key, self.n_groups))

    def _split(self, tree: PyTree) -> PyTree:
        def split(x: PyTree) -> PyTree:
            n_rows = self._of_each(len(x), "The leading axis of transitions")
            return jnp.reshape(x, (self.n_groups, n_rows, *jnp.shape(x)[1:]))

        return jax.tree.map(split, tree)

    def _of_each(self, n_rows: int, name: str = "batch_size") -> int:
        check_multiple(name, n_rows, self.n_groups, f"the {self.n_groups} groups")
        return n_rows // self.n_groups


def _join_groups(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def _take(arrays: PyTree, indices: Array) -> PyTree:
    return jax.tree.map(lambda x: x[indices], arrays)


def _write(array: Array, new: Array, first: Int[Array, ""]) -> Array:
    """Writes new rows to an array.

    A single row is written twice. Otherwise XLA considers the write so cheap that it repeats it wherever
    rows are read, and copies the whole array to keep the old one for that.
    """
    if len(new) == 1:
        return array.at[jnp.stack([first, first])].set(jnp.concatenate([new, new]))
    return jax.lax.dynamic_update_slice_in_dim(array, new, first, axis=0)


def _convert(transitions: PyTree, storage: PyTree, n_envs: int) -> PyTree:
    """Checks transitions and converts them to the structure and dtypes of the storage."""
    new, held = leaves_by_name(transitions), leaves_by_name(storage)
    if new.keys() != held.keys():
        raise ValueError(
            f"The transitions have {sorted(new)}, but the buffer holds {sorted(held)}."
        )
    for name, array in held.items():
        shape, expected = jnp.shape(new[name]), (n_envs, *array.shape[1:])
        if shape != expected:
            raise ValueError(f"{name!r} has shape {shape}, but the buffer needs {expected}.")
        rows.check_kind(name, jnp.result_type(new[name]), array.dtype)
    leaves = [jnp.asarray(new[name], array.dtype) for name, array in held.items()]
    return jax.tree.unflatten(jax.tree.structure(storage), leaves)
