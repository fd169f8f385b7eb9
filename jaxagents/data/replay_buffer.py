"""A replay buffer on the host."""

import os
from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxagents.core.arrays import AnyArray
from jaxagents.data import files, rows
from jaxagents.data.dataset import Dataset
from jaxagents.data.device_buffer import DeviceBuffer

ENVIRONMENTS = "environments"
"""The key of the number of the environment that a transition is from, where there are several."""


class ReplayBuffer(rows.Sampled):
    """The most recent transitions, in memory that is allocated once.

    ```python
    buffer = ReplayBuffer.create(example_transition, size=1_000_000)
    buffer.add_transition(transition)
    batch = buffer.sample(256)
    ```

    Once it is full, a new transition takes the place of the oldest. Transitions of several environments,
    which come in turns, have an entry `environments`, the number of the environment; or the buffer is
    created with their number, and takes one transition of each at a time, in order.

    It has the methods of a [`DeviceBuffer`][jaxagents.data.DeviceBuffer] that take a random key or
    numbers of rows, and draws the same rows: `add`, `sample_indices`, `take`, `sample_sequences`,
    `sequences`, `n_step`, `sample_prioritised` and `with_priorities`. It is changed in place, and holds
    dicts, in which there are no tuples or dataclasses. Priorities are on the device.
    """

    def __init__(
        self,
        flat: dict[str, np.ndarray],
        seed: int = 0,
        n_envs: int = 1,
        prioritised: bool = False,
        prioritised_length: int = 1,
    ) -> None:
        """Takes over arrays to write to; see [`create`][jaxagents.data.ReplayBuffer.create].

        Args:
            flat: Arrays by name, nested ones joined with slashes.
            seed: Seed of the sampling.
            n_envs: Number of environments.
            prioritised: Whether rows have priorities.
            prioritised_length: Number of rows that each priority is for.
        """
        self._flat = flat
        self._capacity, self._n_envs = rows.check_size("size", rows.common_length(flat), n_envs)
        self._columns = [
            (name, name.split(rows.SEPARATOR), array.shape[1:], array.dtype)
            for name, array in flat.items()
        ]
        self._n_added = 0
        self._rng = np.random.default_rng(seed)
        self._prioritised_length, self._priorities = prioritised_length, None
        if prioritised:
            sizes = (self._capacity, self._n_envs, True, prioritised_length)
            self._priorities = DeviceBuffer.create({}, *sizes).priorities

    @classmethod
    def create(
        cls,
        example_transition: Mapping[str, PyTree],
        size: int,
        seed: int = 0,
        n_envs: int = 1,
        prioritised: bool = False,
        prioritised_length: int = 1,
    ) -> "ReplayBuffer":
        """An empty buffer.

        Args:
            example_transition: Shapes and types of one transition, in a dict that may be nested.
            size: Number of transitions it can hold.
            seed: Seed of the sampling without a key.
            n_envs: Number of transitions that are added at a time, one of each environment; with 1, any
                number of them.
            prioritised: Whether rows have priorities.
            prioritised_length: Number of rows that each priority is for, as for a
                [`DeviceBuffer`][jaxagents.data.DeviceBuffer.create].

        Returns:
            The buffer.

        Raises:
            ValueError: `size` is not a positive multiple of `n_envs`, or does not hold
                `prioritised_length` rows of each environment, or a value is not an array; the error
                names the key.
            TypeError: `size` is not a whole number.
        """
        example = rows.flatten(example_transition)
        size, n_envs = rows.check_size("size", size, n_envs)
        flat = {name: np.zeros((size, *x.shape), x.dtype) for name, x in example.items()}
        return cls(flat, seed, n_envs, prioritised, prioritised_length)

    @classmethod
    def create_from_initial_dataset(
        cls, dataset: Dataset | Mapping[str, PyTree], size: int, seed: int = 0
    ) -> "ReplayBuffer":
        """A buffer that holds a dataset.

        Args:
            dataset: A [`Dataset`][jaxagents.data.Dataset], or a dict of arrays like one.
            size: Number of transitions it can hold.
            seed: Seed of the sampling.

        Returns:
            The buffer.

        Raises:
            ValueError: The dataset is larger than `size`, or `size` is not positive.
            TypeError: `size` is not a whole number.
        """
        flat = rows.flatten({**dataset})
        n_rows = rows.common_length(flat)
        size, _ = rows.check_size("size", size, 1)
        buffer = cls(_zeros(flat, size), seed)
        if n_rows > size:
            raise ValueError(f"The dataset has {n_rows} rows, more than a size of {size}.")
        buffer.add_transitions(rows.unflatten(flat))
        return buffer

    def __len__(self) -> int:
        """Number of transitions held."""
        return min(self._n_added, self._capacity)

    @property
    def size(self) -> int:
        """Number of transitions held."""
        return len(self)

    @property
    def capacity(self) -> int:
        """Number of transitions it can hold."""
        return self._capacity

    @property
    def n_envs(self) -> int:
        """Number of transitions that are added at a time, if they are not one by one."""
        return self._n_envs

    # Adding.

    def add(self, transitions: Mapping[str, PyTree]) -> "ReplayBuffer":
        """Adds one transition of each environment.

        With priorities, they get the largest that any row had so far; with a `prioritised_length`, once
        so many rows are there.

        Args:
            transitions: A dict structured as the example, whose arrays have a leading axis of `n_envs`.

        Returns:
            The buffer itself.

        Raises:
            ValueError: As of [`add_transitions`][jaxagents.data.ReplayBuffer.add_transitions].
            TypeError: An array is of another kind.
        """
        self.add_transitions(transitions)
        return self

    def add_transition(self, transition: Mapping[str, PyTree]) -> None:
        """Adds one transition.

        Args:
            transition: A dict structured as the example.

        Raises:
            ValueError: A key is missing, or a value has another shape, is not an array, or is a whole
                number beyond the type that is held; the error names the key. Or transitions come from
                several environments at a time.
            TypeError: An array is of another kind, such as real numbers where whole ones are held.
        """
        self._check_turns(1)
        values = self._columns_of(transition, "transition has", 0)
        row = self._n_added % self._capacity
        for array, value in zip(self._flat.values(), values, strict=True):
            array[row] = value
        self._count(1)

    def add_transitions(self, transitions: Mapping[str, PyTree]) -> None:
        """Adds many transitions, oldest first.

        Args:
            transitions: A dict structured as the example, whose arrays have a leading axis.

        Raises:
            ValueError: A key is missing, or an array has another shape or whole numbers beyond the type
                that is held; the error names the key. Or there are not equally many of each environment.
            TypeError: An array is of another kind.
        """
        values = self._columns_of(transitions, "transitions have", 1)
        n_new = rows.common_length(dict(zip(self._flat, values, strict=True)))
        self._check_turns(n_new)
        first_kept = max(0, n_new - self._capacity)
        start = (self._n_added + first_kept) % self._capacity
        first_wrapped = min(n_new, first_kept + self._capacity - start)
        for array, value in zip(self._flat.values(), values, strict=True):
            new = np.array(value) if np.may_share_memory(value, array) else np.asarray(value)
            array[start : start + first_wrapped - first_kept] = new[first_kept:first_wrapped]
            array[: n_new - first_wrapped] = new[first_wrapped:]
        self._count(n_new)

    def _columns_of(self, given: PyTree, subject: str, n_axes: int) -> list[AnyArray]:
        """The value for each array, with so many leading axes, after a check that it fits."""
        values = []
        for name, path, shape, dtype in self._columns:
            value = given
            try:
                for key in path:
                    value = value[key]
            except (LookupError, TypeError):
                raise ValueError(f"The {subject} no {name!r}.") from None
            if not hasattr(value, "dtype"):
                value = rows.as_array(name, value)
            if value.shape[n_axes:] != shape:
                raise ValueError(
                    f"{name!r} has shape {value.shape[n_axes:]}, but the buffer holds {shape}."
                )
            if value.dtype is not dtype:  # it mostly is, and the check takes time
                _check_kind(name, value, dtype)
            values.append(value)
        return values

    def _check_turns(self, n_new: int) -> None:
        if n_new % self._n_envs:
            raise ValueError(
                f"The buffer takes one transition of each of {self._n_envs} environments at a time, got "
                f"{n_new}."
            )

    def _count(self, n_new: int) -> None:
        if self._priorities is None:
            self._n_added += n_new
            return
        for _ in range(n_new // self._n_envs):
            self._priorities = _add(self._numbering(), {}).priorities
            self._n_added += self._n_envs

    # Choosing rows.

    def sample_indices(self, key: Key[Array, ""], batch_size: int) -> Int[np.ndarray, "batch_size"]:
        """Numbers of rows held, drawn uniformly, with replacement.

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            The numbers.
        """
        return np.asarray(_sample_indices(self._numbering(), key, batch_size))

    def sample_sequences(
        self, key: Key[Array, ""], n_sequences: int, length: int
    ) -> Int[np.ndarray, "n_sequences length"]:
        """Numbers of rows that follow each other in time, drawn uniformly, with replacement.

        A sequence is from one environment, and may hold ends of episodes. Each environment must have
        added `length` rows.

        Args:
            key: Random key.
            n_sequences: Number of sequences.
            length: Number of rows of each.

        Returns:
            The numbers, in order of time.

        Raises:
            ValueError: The buffer does not know which rows follow each other.
        """
        self._check_order()
        return np.asarray(_sample_sequences(self._numbering(), key, n_sequences, length))

    def sequences(
        self, starts: Int[np.ndarray, "*shape"], length: int
    ) -> Int[np.ndarray, "*shape length"]:
        """Numbers of rows that follow each other in time.

        Args:
            starts: Number of the first row of each sequence.
            length: Number of rows of each.

        Returns:
            The numbers, in order of time.
        """
        return np.add.outer(starts, self._n_envs * np.arange(length)) % self._capacity

    def take(self, indices: Int[np.ndarray, "*shape"]) -> rows.Arrays:
        """Copies rows by their numbers.

        Args:
            indices: The numbers.

        Returns:
            A dict structured as the example, with the axes of `indices` in front.
        """
        return rows.take(self._flat, indices)

    def n_step(self, indices: Int[np.ndarray, "*shape"], n: int, gamma: float) -> rows.Arrays:
        r"""Transitions over up to `n` steps, none of them over the end of an episode.

        See [`DeviceBuffer.n_step`][jaxagents.data.DeviceBuffer.n_step].

        Args:
            indices: Numbers of the rows.
            n: Largest number of steps.
            gamma: $\gamma$.

        Returns:
            The rows as `take` gives them, with `discounts`.

        Raises:
            ValueError: `n` is not positive, there is not one reward, mask and end for each row, or the
                buffer does not know which rows follow each other.
            KeyError: A key is missing.
        """
        if n < 1:
            raise ValueError(f"n must be positive, got {n}.")
        self._check_order()
        held = rows.unflatten(self._flat)
        rows.check_columns("n_step", ("rewards", *rows.OF_THE_LAST), held, "the buffer holds")

        def following(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            after = (row + self._n_envs) % self._capacity
            return after, after // self._n_envs != self._n_added % self._capacity // self._n_envs

        indices = np.asarray(indices)
        rewards, last, discounts = rows.n_step_rewards(self._flat, indices, n, gamma, following)
        of_last = rows.flatten({key: held[key] for key in rows.OF_THE_LAST})
        columns = {**rows.take(of_last, last), "rewards": rewards, "discounts": discounts}
        return self.take(indices) | columns

    def sample_prioritised(
        self, key: Key[Array, ""], batch_size: int
    ) -> tuple[Int[np.ndarray, "batch_size"], Float[Array, "batch_size"]]:
        """Numbers of rows, drawn with probabilities in proportion to their priorities.

        See [`DeviceBuffer.sample_prioritised`][jaxagents.data.DeviceBuffer.sample_prioritised].

        Args:
            key: Random key.
            batch_size: Number of rows.

        Returns:
            The numbers, and the probability of each.

        Raises:
            ValueError: The buffer has no priorities.
        """
        indices, probabilities = _sample_prioritised(self._numbering(), key, batch_size)
        return np.asarray(indices), probabilities

    def with_priorities(
        self, indices: Int[np.ndarray, "n"], priorities: Float[AnyArray, "n"]
    ) -> "ReplayBuffer":
        """Sets the priorities of rows.

        Args:
            indices: Numbers of the rows. One that occurs twice gets either of its priorities.
            priorities: Not negative, and finite.

        Returns:
            The buffer itself.

        Raises:
            ValueError: The buffer has no priorities.
        """
        after = _with_priorities(self._numbering(), indices, priorities)
        self._priorities = after.priorities
        return self

    def _numbering(self) -> DeviceBuffer:
        """A buffer on the device that has the same rows, but no arrays of them."""
        position, size = np.int32(self._n_added % self._capacity), np.int32(len(self))
        static = (self._capacity, self._n_envs, self._prioritised_length)
        return DeviceBuffer({}, jnp.asarray(position), jnp.asarray(size), self._priorities, *static)

    def _check_order(self) -> None:
        if ENVIRONMENTS in self._flat and self._n_envs == 1:
            raise ValueError(
                "The rows of several environments come in turns, and the buffer does not know which "
                "follow each other: create it with n_envs."
            )

    def _environments(self) -> np.ndarray:
        """The number of the environment of each row."""
        return self._flat.get(ENVIRONMENTS, np.arange(self._capacity) % self._n_envs)

    def _held(self) -> np.ndarray:
        """The numbers of the rows held, oldest first."""
        return np.arange(self._n_added - len(self), self._n_added) % self._capacity

    def last(self, n: int) -> rows.Arrays:
        """Copies the newest transitions.

        Args:
            n: Number of transitions.

        Returns:
            A dict structured as the example, whose arrays have `n` rows, oldest first.

        Raises:
            ValueError: The buffer does not hold as many.
        """
        if not 0 <= n <= len(self):
            raise ValueError(f"n must lie in [0, {len(self)}], the transitions held, got {n}.")
        return self.take(self._held()[len(self) - n :])

    def end_episodes(self, environments: Collection[int] | None = None) -> None:
        """Marks the newest transition of environments as the last of its episode.

        So no row goes on in one that is added later, such as by another run.

        Args:
            environments: Their numbers; those without transitions do not matter. By default all.

        Raises:
            KeyError: Transitions have no entry `ends`.
        """
        held = self._held()
        numbers = self._environments()[held]
        chosen = np.unique(numbers) if environments is None else environments
        for i in chosen:
            self._flat["ends"][held[numbers == i][-1:]] = True

    def to_dataset(self, seed: int = 0) -> Dataset:
        """A copy of the transitions held, oldest first.

        The transitions of each of several environments come together, and the last of them is marked
        among the `ends`, so that no row goes on in one of another environment.

        Args:
            seed: Seed of the dataset's sampling.

        Returns:
            The dataset.
        """
        held = self._held()
        if ENVIRONMENTS not in self._flat and self._n_envs == 1:
            return Dataset(self.take(held), seed)
        environments = self._environments()
        held = held[np.argsort(environments[held], kind="stable")]
        taken = self.take(held)
        if "ends" in taken:
            taken["ends"][np.diff(environments[held], append=-1) != 0] = True
        return Dataset(taken, seed)

    # Saving and loading.

    def state_dict(self) -> dict[str, PyTree]:
        """Everything that a buffer needs to go on exactly from here.

        Returns:
            The transitions held (views of the memory, in its order, by name), the number ever added,
            the capacity and other sizes, the state of the sampling, and priorities if it has them.
        """
        priorities = jax.device_get(rows.in_dicts(self._priorities))
        return {
            **({} if self._priorities is None else {"priorities": priorities}),
            "transitions": {name: array[: len(self)] for name, array in self._flat.items()},
            "n_added": self._n_added,
            "capacity": self._capacity,
            "n_envs": self._n_envs,
            "prioritised_length": self._prioritised_length,
            "rng": self.rng_state(),
        }

    def load_state_dict(self, state: Mapping[str, PyTree]) -> None:
        """Goes on from a saved state.

        Args:
            state: State from [`state_dict`][jaxagents.data.ReplayBuffer.state_dict], of a buffer of the
                same capacity and structure.

        Raises:
            ValueError: The state is of another structure or capacity.
        """
        n_added, saved = int(state["n_added"]), state["transitions"]
        n_held = min(n_added, self._capacity)
        held = {name: array[:n_held] for name, array in self._flat.items()}
        found, own = _about(state), _about({**self.state_dict(), "transitions": held})
        for name in {**own, **found}:
            if found.get(name) != own.get(name):
                raise ValueError(
                    f"The state is of another buffer: {name} is {found.get(name)} in it, and "
                    f"{own.get(name)} in this one."
                )
        for name, array in self._flat.items():
            array[:n_held] = saved[name]
        self._n_added = n_added
        self.set_rng_state(state["rng"])
        if self._priorities is not None:
            priorities = rows.structured_as(self._priorities, state["priorities"])
            self._priorities = jax.tree.map(jnp.array, priorities)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the transitions held, and the state of the sampling, to a new file.

        Args:
            path: The file, which must not exist, as for [`Dataset.save`][jaxagents.data.Dataset.save].
        """
        state = self.state_dict()
        flat = {f"transitions/{name}": array for name, array in state.pop("transitions").items()}
        files.write(path, flat | rows.flatten(state))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "ReplayBuffer":
        """Reads what [`save`][jaxagents.data.ReplayBuffer.save] wrote.

        Args:
            path: The file.

        Returns:
            A buffer that goes on as the saved one.

        Raises:
            ValueError: The file is of something else.
        """
        state = rows.unflatten(files.read(path))
        if not {"transitions", "n_added", "capacity", "rng"} <= state.keys():
            raise ValueError(f"{path} is no file of a replay buffer; it holds {sorted(state)}.")
        state["transitions"] = rows.flatten(state["transitions"])
        about = _about(state)
        sizes = [about[k] for k in ("n_envs", "prioritised", "prioritised_length")]
        buffer = cls(_zeros(state["transitions"], about["capacity"]), 0, *sizes)
        buffer.load_state_dict(state)
        return buffer


def _zeros(flat: Mapping[str, PyTree], size: int) -> dict[str, np.ndarray]:
    """Empty memory for rows like the rows of some arrays."""
    return {k: np.zeros((size, *v.shape[1:]), v.dtype) for k, v in flat.items()}


_sample_indices = jax.jit(DeviceBuffer.sample_indices, static_argnums=2)
_sample_sequences = jax.jit(DeviceBuffer.sample_sequences, static_argnums=(2, 3))
_sample_prioritised = jax.jit(DeviceBuffer.sample_prioritised, static_argnums=2)
_add = jax.jit(DeviceBuffer.add, donate_argnums=0)
_with_priorities = jax.jit(DeviceBuffer.with_priorities, donate_argnums=0)


def _about(state: Mapping[str, PyTree]) -> dict[str, Any]:
    """The sizes of a saved buffer, and the type and shape of each of its arrays."""
    arrays = state["transitions"].items()
    return {
        "capacity": int(state["capacity"]),
        "n_envs": int(state.get("n_envs", 1)),
        "prioritised": "priorities" in state,
        "prioritised_length": int(state.get("prioritised_length", 1)),
        **{repr(name): f"{array.dtype}{list(array.shape)}" for name, array in arrays},
    }


def _check_kind(name: str, values: AnyArray, expected: np.dtype) -> None:
    if not np.can_cast(values.dtype, expected, "same_kind"):
        raise rows.type_error(name, values.dtype, expected)
    if expected.kind in "iu" and not np.can_cast(values.dtype, expected):
        limits, numbers = np.iinfo(expected), np.asarray(values)
        outside = numbers[(numbers < limits.min) | (numbers > limits.max)]
        if outside.size:
            raise ValueError(
                f"{name!r} has the value {outside[0]}, but the buffer holds {expected}, from "
                f"{limits.min} to {limits.max}."
            )
