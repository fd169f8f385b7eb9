"""A replay buffer on the device."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, ArrayLike, Float, Int, Key, PyTree

from jaxagents import ops
from jaxagents.core.pickling import nonpytree_field
from jaxagents.data import rows
from jaxagents.data.dataset import Dataset
from jaxagents.data.device_rows import check_sizes, convert, take_rows, write
from jaxagents.data.priorities import PriorityTree
from jaxagents.data.several_steps import OF_THE_LAST, several_steps


class DeviceBuffer(struct.PyTreeNode):
    """The most recent transitions of several environments, as a pytree for compiled loops.

    ```python
    buffer = DeviceBuffer.create(example_transition, capacity=1_000_000, n_envs=10)


    @partial(jax.jit, donate_argnums=0)
    def train(buffer, key):
        def step(i, buffer):
            buffer = buffer.add(transitions)
            batch = buffer.sample(jax.random.fold_in(key, i), 256)
            ...
            return buffer

        return jax.lax.fori_loop(0, n_steps, step, buffer)
    ```

    A loop's carry and donated arguments are written in place. In each step, add first, then sample: to
    write after reading, XLA copies the whole buffer, unless what is added depends on what was read.

    Transitions are dicts as [`ReplayBuffer`][jaxagents.data.ReplayBuffer] has them, with the *true*
    successor as `next_observations`, `masks` (0 where the environment ended the episode, so that nothing
    follows, else 1) and `ends` (whether the row is the last of its episode, be it terminated or
    truncated). Rows lie in order of time, those of one time in order of the environments: the next row
    in time after row `i` is row `(i + n_envs) % capacity`.

    Attributes:
        storage: Arrays with a leading axis of `capacity` rows.
        position: Row to which the next transitions go.
        size: Number of rows held, which are the first ones.
        priorities: Priorities of the rows; `None` without them.
        capacity: Number of rows that it can hold (static).
        n_envs: Number of transitions that are added at a time (static).
        prioritised_length: Number of rows, following each other in time, whose first one has their
            priority (static).
    """

    storage: PyTree
    position: Int[Array, ""]
    size: Int[Array, ""]
    priorities: PriorityTree | None
    capacity: int = nonpytree_field()
    n_envs: int = nonpytree_field()
    prioritised_length: int = nonpytree_field()

    @classmethod
    def create(
        cls,
        example: PyTree,
        capacity: int,
        n_envs: int = 1,
        prioritised: bool = False,
        prioritised_length: int = 1,
    ) -> "DeviceBuffer":
        """An empty buffer.

        Args:
            example: One transition of one environment, or its shapes (`jax.ShapeDtypeStruct`), in a dict
                that may be nested.
            capacity: Number of rows that it can hold, a multiple of `n_envs`.
            n_envs: Number of transitions that are added at a time, one of each environment.
            prioritised: Whether rows have priorities.
            prioritised_length: Number of rows that each priority is of, the row itself and those that
                follow it in time. Rows that are not followed by so many have a priority of zero.

        Returns:
            The buffer.

        Raises:
            ValueError: `n_envs` is not positive, `capacity` is not a positive multiple of it, or it does
                not hold `prioritised_length` rows of each environment.
            TypeError: One of them is not a whole number.
        """
        capacity, n_envs = check_sizes(capacity, n_envs)
        if not 1 <= prioritised_length <= capacity // n_envs:
            raise ValueError(
                f"prioritised_length must lie in 1..{capacity // n_envs}, the rows of each environment, "
                f"got {prioritised_length}."
            )
        shapes = jax.eval_shape(lambda x: jax.tree.map(jnp.asarray, x), example)
        return cls(
            storage=jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), shapes),
            position=jnp.zeros((), jnp.int32),
            size=jnp.zeros((), jnp.int32),
            priorities=PriorityTree.create(capacity) if prioritised else None,
            capacity=capacity,
            n_envs=n_envs,
            prioritised_length=prioritised_length,
        )

    def add(self, transitions: PyTree) -> "DeviceBuffer":
        """Adds one transition of each environment, in place of the oldest once it is full.

        With priorities, they get the largest that any row had so far; with a `prioritised_length`, when
        so many rows are there.

        Args:
            transitions: Structured as the example, with a leading axis of `n_envs`.

        Returns:
            The buffer.

        Raises:
            ValueError: The structure or a shape differs; the error names the key.
            TypeError: An array is of another kind, such as real numbers where whole ones are held.
        """
        new = convert(transitions, self.storage, self.n_envs)
        size = jnp.minimum(self.size + self.n_envs, self.capacity)
        return self.replace(
            storage=jax.tree.map(lambda x, y: write(x, y, self.position), self.storage, new),
            position=(self.position + self.n_envs) % self.capacity,
            size=size,
            priorities=self._priorities_after_adding(size),
        )

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
        """Rows drawn uniformly, with replacement. An empty buffer gives zeros.

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            Structured as the example, with a leading axis of `batch_size`.
        """
        return self.take(self.sample_indices(key, batch_size))

    def sample_indices(self, key: Key[Array, ""], batch_size: int) -> Int[Array, "batch_size"]:
        """Numbers of rows held, drawn uniformly, with replacement.

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            The numbers.
        """
        return ops.random_indices(key, batch_size, self.size)

    def sample_sequences(
        self, key: Key[Array, ""], n_sequences: int, length: int
    ) -> Int[Array, "n_sequences length"]:
        """Numbers of rows that follow each other in time, drawn uniformly, with replacement.

        A sequence is of one environment, and may hold ends of episodes. So many times must have been
        added.

        Args:
            key: Random key.
            n_sequences: Number of sequences.
            length: Number of rows of each.

        Returns:
            The numbers, in order of time.
        """
        n_starts = jnp.maximum(self.size - (length - 1) * self.n_envs, 0)
        oldest = jnp.where(self.size == self.capacity, self.position, 0)
        return self.sequences(oldest + ops.random_indices(key, n_sequences, n_starts), length)

    def sequences(self, starts: Int[Array, "*shape"], length: int) -> Int[Array, "*shape length"]:
        """Numbers of rows that follow each other in time.

        Args:
            starts: Number of the first row of each sequence.
            length: Number of rows of each.

        Returns:
            The numbers, in order of time.
        """
        return jnp.add.outer(starts, self.n_envs * jnp.arange(length)) % self.capacity

    def take(self, indices: Int[Array, "*shape"]) -> PyTree:
        """Rows by their numbers.

        Args:
            indices: The numbers.

        Returns:
            Structured as the example, with the axes of `indices` in front.
        """
        return take_rows(self.storage, indices)

    def n_step(self, indices: Int[Array, "*shape"], n: int, gamma: ArrayLike) -> PyTree:
        r"""Transitions over up to `n` steps, none of them over the end of an episode.

        The reward of the row at time $t$ becomes $\sum_{k=0}^{m-1} \gamma^k r_{t+k}$, and its
        successor, mask and end those of the row at time $t + m - 1$, with $m = n$ or what is left of the
        episode or of its environment's rows. A new key `discounts` holds $\gamma^m$, which weighs the
        value of the successor.

        Sutton, 1988, "Learning to predict by the methods of temporal differences".

        Args:
            indices: Numbers of the rows.
            n: Largest number of steps (static).
            gamma: $\gamma$.

        Returns:
            The rows as `take` gives them, with `discounts`.

        Raises:
            ValueError: `n` is not positive, or there is not one reward, mask and end for each row.
            KeyError: A key is missing.
        """
        if n < 1:
            raise ValueError(f"n must be positive, got {n}.")
        self._check_can_step()
        window = jnp.add.outer(indices, self.n_envs * jnp.arange(n)) % self.capacity
        following = (window + self.n_envs) % self.capacity
        newest = following // self.n_envs == self.position // self.n_envs
        goes_on = ~(self.storage["ends"][window].astype(bool) | newest)[..., :-1]
        taken = several_steps(self.storage["rewards"][window], goes_on, gamma)
        last = (indices + self.n_envs * (taken.n_steps - 1)) % self.capacity
        return take_rows(self.storage, indices) | {
            **take_rows({key: self.storage[key] for key in OF_THE_LAST}, last),
            "rewards": taken.rewards,
            "discounts": taken.discounts,
        }

    def sample_prioritised(
        self, key: Key[Array, ""], batch_size: int
    ) -> tuple[Int[Array, "batch_size"], Float[Array, "batch_size"]]:
        r"""Numbers of rows, drawn with probabilities in proportion to their priorities.

        $$P_i = \frac{p_i}{\sum_j p_j}$$

        Rows whose priority is zero are never drawn: with a `prioritised_length`, those that are not
        followed by so many. If all are zero, the first row is drawn each time, with a probability that
        is not a number.

        Schaul et al., 2016, "Prioritized experience replay", the proportional variant.

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            The numbers, and $P_i$ of each, for
            [`importance_weights`][jaxagents.data.importance_weights].

        Raises:
            ValueError: The buffer has no priorities.
        """
        return self._priority_tree().sample(key, batch_size)

    def with_priorities(
        self, indices: Int[Array, "n"], priorities: Float[Array, "n"]
    ) -> "DeviceBuffer":
        r"""Sets the priorities of rows.

        Args:
            indices: Numbers of the rows. One that occurs twice gets either of its priorities.
            priorities: Not negative, and finite; in the paper
                $p_i = (|\delta_i| + \epsilon)^\alpha$ of the temporal-difference error $\delta_i$.

        Returns:
            The buffer.

        Raises:
            ValueError: The buffer has no priorities.
        """
        return self.replace(priorities=self._priority_tree().set(indices, priorities))

    def to_dataset(self, seed: int = 0) -> Dataset:
        """A copy of what the buffer holds, on the host.

        The rows of an environment follow each other in time, then come those of the next one. The newest
        row of each is an end, even in the middle of an episode, so that
        [`Dataset.n_step`][jaxagents.data.Dataset.n_step] does not go on with another environment. Tuples
        and dataclasses, such as observations or memories may be, become dicts of their parts.

        Args:
            seed: Seed of the dataset's sampling.

        Returns:
            The dataset.

        Raises:
            ValueError: The buffer is one of several, as `jax.vmap` makes them.
        """
        if jnp.ndim(self.size):
            raise ValueError(
                f"These are buffers of shape {jnp.shape(self.size)}; take one at a time, such as "
                "jax.tree.map(lambda x: x[0], buffers)."
            )
        n_times = int(self.size) // self.n_envs
        oldest = int(self.position) if self.size == self.capacity else 0
        times = oldest + self.n_envs * np.arange(n_times)
        order = (times + np.arange(self.n_envs)[:, None]).ravel() % self.capacity
        flat = rows.flatten(rows.in_dicts(jax.device_get(self.storage)))
        held = {name: array[order] for name, array in flat.items()}
        if "ends" in held and n_times:
            held["ends"][n_times - 1 :: n_times] = True
        return Dataset(rows.unflatten(held), seed)

    def _priority_tree(self) -> PriorityTree:
        if self.priorities is None:
            raise ValueError("The buffer has no priorities: create it with prioritised=True.")
        return self.priorities

    def _check_can_step(self) -> None:
        for key in ("rewards", *OF_THE_LAST):
            if key not in self.storage:
                raise KeyError(f"n_step needs {key!r}; the buffer holds {sorted(self.storage)}.")
        for key in ("rewards", "masks", "ends"):
            if self.storage[key].ndim != 1:
                raise ValueError(
                    f"n_step needs one number of {key!r} for each row, got shape "
                    f"{self.storage[key].shape}."
                )
