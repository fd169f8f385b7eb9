"""A replay buffer on the host."""

import operator
import os
from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import AnyArray
from jaxagents.data import files, rows
from jaxagents.data.dataset import Dataset
from jaxagents.data.sampling import Sampled

ENVIRONMENTS = "environments"
"""The key of the number of the environment that a transition is from, where there are several."""


class ReplayBuffer(Sampled):
    """The most recent transitions, in memory that is allocated once.

    ```python
    buffer = ReplayBuffer.create(example_transition, size=1_000_000)
    buffer.add_transition(transition)
    batch = buffer.sample(256)
    ```

    Once it is full, a new transition takes the place of the oldest. Transitions of several environments,
    which come in turns, have an entry `environments`, the number of the environment.
    """

    def __init__(self, flat: dict[str, np.ndarray], seed: int = 0) -> None:
        """Takes over arrays to write to; see [`create`][jaxagents.data.ReplayBuffer.create].

        Args:
            flat: Arrays by name, nested ones joined with slashes.
            seed: Seed of the sampling.
        """
        self._flat = flat
        self._capacity = rows.common_length(flat)
        self._columns = [
            (name, name.split(rows.SEPARATOR), array.shape[1:], array.dtype)
            for name, array in flat.items()
        ]
        self._n_added = 0
        self._rng = np.random.default_rng(seed)

    @classmethod
    def create(
        cls, example_transition: Mapping[str, PyTree], size: int, seed: int = 0
    ) -> "ReplayBuffer":
        """An empty buffer.

        Args:
            example_transition: Shapes and types of one transition, in a dict that may be nested.
            size: Number of transitions it can hold.
            seed: Seed of the sampling.

        Returns:
            The buffer.

        Raises:
            ValueError: `size` is not positive, or a value is not an array; the error names the key.
            TypeError: `size` is not a whole number.
        """
        example = rows.flatten(example_transition)
        return cls(_zeros(size, {k: (v.shape, v.dtype) for k, v in example.items()}), seed)

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
        buffer = cls(_zeros(size, {k: (v.shape[1:], v.dtype) for k, v in flat.items()}), seed)
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

    def add_transition(self, transition: Mapping[str, PyTree]) -> None:
        """Adds one transition.

        Args:
            transition: A dict structured as the example.

        Raises:
            ValueError: A key is missing, or a value has another shape, is not an array, or is a whole
                number beyond the type that is held; the error names the key.
            TypeError: An array is of another kind, such as real numbers where whole ones are held.
        """
        values = []
        for name, path, shape, dtype in self._columns:
            value: PyTree = transition
            try:
                for key in path:
                    value = value[key]
            except (LookupError, TypeError):
                raise ValueError(f"The transition has no {name!r}.") from None
            if not hasattr(value, "dtype"):
                value = rows.as_array(name, value)
            if value.shape != shape:
                raise _shape_error(name, value.shape, shape)
            if value.dtype is not dtype:  # it mostly is, and the check takes time
                _check_kind(name, value, dtype)
            values.append(value)
        row = self._n_added % self._capacity
        for array, value in zip(self._flat.values(), values, strict=True):
            array[row] = value
        self._n_added += 1

    def add_transitions(self, transitions: Mapping[str, PyTree]) -> None:
        """Adds many transitions, oldest first.

        Args:
            transitions: A dict structured as the example, whose arrays have a leading axis.

        Raises:
            ValueError: A key is missing, or an array has another shape or whole numbers beyond the type
                that is held; the error names the key.
            TypeError: An array is of another kind.
        """
        flat = rows.flatten(transitions)
        for name, array in self._flat.items():
            if name not in flat:
                raise ValueError(f"The transitions have no {name!r}.")
            if flat[name].shape[1:] != array.shape[1:]:
                raise _shape_error(name, flat[name].shape[1:], array.shape[1:])
            _check_kind(name, flat[name], array.dtype)
        n_new = rows.common_length({name: flat[name] for name in self._flat})
        first_kept = max(0, n_new - self._capacity)
        start = (self._n_added + first_kept) % self._capacity
        first_wrapped = min(n_new, first_kept + self._capacity - start)
        for name, array in self._flat.items():
            new = flat[name].copy() if np.may_share_memory(flat[name], array) else flat[name]
            array[start : start + first_wrapped - first_kept] = new[first_kept:first_wrapped]
            array[: n_new - first_wrapped] = new[first_wrapped:]
        self._n_added += n_new

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
        return rows.take(self._flat, np.arange(self._n_added - n, self._n_added) % self._capacity)

    def end_episodes(self, environments: Collection[int] | None = None) -> list[int]:
        """Marks the newest transition of environments as the last of its episode.

        So no row goes on in one that is added later, such as that of another training.

        Args:
            environments: Their numbers; those without transitions do not matter. By default all.

        Returns:
            The numbers of these transitions, counted from the first ever added.

        Raises:
            KeyError: Transitions have no entry `ends`.
        """
        held = np.arange(self._n_added - len(self), self._n_added)
        of_one = np.zeros(self._capacity, int)
        numbers = self._flat.get(ENVIRONMENTS, of_one)[held % self._capacity]
        chosen = np.unique(numbers) if environments is None else environments
        newest = [int(held[numbers == i][-1]) for i in chosen if i in numbers]
        self._flat["ends"][np.array(newest, int) % self._capacity] = True
        return newest

    def to_dataset(self, seed: int = 0) -> Dataset:
        """A copy of the transitions held, oldest first.

        Where they have an entry `environments`, those of each environment come together, and the last
        of them is marked among the `ends`, so that no row goes on in one of another environment.

        Args:
            seed: Seed of the dataset's sampling.

        Returns:
            The dataset.
        """
        held = np.arange(self._n_added - len(self), self._n_added) % self._capacity
        if ENVIRONMENTS not in self._flat:
            return Dataset(rows.take(self._flat, held), seed)
        held = held[np.argsort(self._flat[ENVIRONMENTS][held], kind="stable")]
        taken = rows.take(self._flat, held)
        if "ends" in taken:
            taken["ends"][np.diff(taken[ENVIRONMENTS], append=-1) != 0] = True
        return Dataset(taken, seed)

    # Saving and loading.

    def state_dict(self) -> dict[str, PyTree]:
        """Everything that a buffer needs to go on exactly from here.

        Returns:
            The transitions held (views of the memory, in its order, by name), the number ever added,
            the capacity, and the state of the sampling.
        """
        return {
            "transitions": {name: array[: len(self)] for name, array in self._flat.items()},
            "n_added": self._n_added,
            "capacity": self._capacity,
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
        n_added, capacity = int(state["n_added"]), int(state["capacity"])
        if capacity != self._capacity:
            raise ValueError(
                f"The state is of a buffer of capacity {capacity}; this one has {self._capacity}."
            )
        saved, n_held = state["transitions"], min(n_added, capacity)
        if sorted(saved) != sorted(self._flat):
            raise ValueError(f"The state holds {sorted(saved)}; the buffer {sorted(self._flat)}.")
        for name, array in self._flat.items():
            found, expected = saved[name], array[:n_held]
            if (found.shape, found.dtype) != (expected.shape, expected.dtype):
                raise ValueError(
                    f"The state has {found.dtype}{list(found.shape)} for {name!r}, where "
                    f"{expected.dtype}{list(expected.shape)} would fit."
                )
        for name, array in self._flat.items():
            array[:n_held] = saved[name]
        self._n_added = n_added
        self.set_rng_state(state["rng"])

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
        flat, capacity = rows.flatten(state["transitions"]), int(state["capacity"])
        buffer = cls({k: np.zeros((capacity, *v.shape[1:]), v.dtype) for k, v in flat.items()})
        buffer.load_state_dict({**state, "transitions": flat})
        return buffer


def _zeros(
    size: int, columns: Mapping[str, tuple[tuple[int, ...], np.dtype]]
) -> dict[str, np.ndarray]:
    """Empty arrays for transitions, from the shape and type of each."""
    try:
        n_rows = operator.index(size)
    except TypeError:
        raise TypeError(f"size must be a whole number, got {size!r}.") from None
    if n_rows < 1:
        raise ValueError(f"size must be positive, got {size}.")
    return {name: np.zeros((n_rows, *shape), dtype) for name, (shape, dtype) in columns.items()}


def _shape_error(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> ValueError:
    return ValueError(f"{name!r} has shape {shape}, but the buffer holds {expected}.")


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
