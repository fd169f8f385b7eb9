"""A replay buffer on the host."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxagents.data import rows
from jaxagents.data.dataset import Dataset


class ReplayBuffer:
    """The most recent transitions, in memory that is taken once.

    ```python
    buffer = ReplayBuffer.create(example_transition, size=1_000_000)
    buffer.add_transition(transition)
    batch = buffer.sample(256)
    ```

    Once it is full, a new transition takes the place of the oldest.
    """

    def __init__(self, flat: dict[str, np.ndarray], seed: int = 0) -> None:
        """Takes over arrays to write to; see [`create`][jaxagents.data.ReplayBuffer.create].

        Args:
            flat: Arrays by name, nested ones joined with slashes.
            seed: Seed of the sampling.
        """
        self._flat = flat
        self._capacity = rows.common_length(flat)
        self._paths = {name: name.split(rows.SEPARATOR) for name in flat}
        self._n_added = 0
        self._rng = np.random.default_rng(seed)

    @classmethod
    def create(
        cls, example_transition: Mapping[str, Any], size: int, seed: int = 0
    ) -> "ReplayBuffer":
        """An empty buffer.

        Args:
            example_transition: Shapes and types of one transition, in a dict that may be nested.
            size: Number of transitions it can hold.
            seed: Seed of the sampling.

        Returns:
            The buffer.

        Raises:
            ValueError: `size` is not positive.
        """
        if size < 1:
            raise ValueError(f"size must be positive, got {size}.")
        example = rows.flatten(example_transition)
        return cls({k: np.zeros((size, *v.shape), v.dtype) for k, v in example.items()}, seed)

    @classmethod
    def create_from_initial_dataset(
        cls, dataset: Mapping[str, Any], size: int, seed: int = 0
    ) -> "ReplayBuffer":
        """A buffer that holds a dataset.

        Args:
            dataset: A [`Dataset`][jaxagents.data.Dataset], or a dict of arrays like one.
            size: Number of transitions it can hold.
            seed: Seed of the sampling.

        Returns:
            The buffer.

        Raises:
            ValueError: The dataset is larger than `size`.
        """
        flat = rows.flatten(dataset)
        n_rows = rows.common_length(flat)
        if n_rows > size:
            raise ValueError(f"The dataset has {n_rows} rows, more than a size of {size}.")
        buffer = cls.create(rows.unflatten({k: v[0] for k, v in flat.items()}), size, seed)
        buffer.add_transitions(dataset)
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

    def add_transition(self, transition: Mapping[str, Any]) -> None:
        """Adds one transition.

        Args:
            transition: A dict structured as the example.

        Raises:
            ValueError: A key is missing, or an array has another shape; the error names the key.
        """
        row = self._n_added % self._capacity
        for name, array in self._flat.items():
            value: Any = transition
            try:
                for key in self._paths[name]:
                    value = value[key]
            except KeyError:
                raise ValueError(f"The transition has no {name!r}.") from None
            if np.shape(value) != array.shape[1:]:
                raise _misshapen(name, np.shape(value), array.shape[1:])
            array[row] = value
        self._n_added += 1

    def add_transitions(self, transitions: Mapping[str, Any]) -> None:
        """Adds many transitions, oldest first.

        Args:
            transitions: A dict structured as the example, whose arrays have a leading axis.

        Raises:
            ValueError: A key is missing, or an array has another shape; the error names the key.
        """
        flat = rows.flatten(transitions)
        for name, array in self._flat.items():
            if name not in flat:
                raise ValueError(f"The transitions have no {name!r}.")
            if flat[name].shape[1:] != array.shape[1:]:
                raise _misshapen(name, flat[name].shape[1:], array.shape[1:])
        n_new = rows.common_length({name: flat[name] for name in self._flat})
        kept = np.arange(max(0, n_new - self._capacity), n_new)
        places = (self._n_added + kept) % self._capacity
        for name, array in self._flat.items():
            array[places] = flat[name][kept]
        self._n_added += n_new

    def sample(self, batch_size: int, indx: Any = None) -> rows.Arrays:
        """Copies transitions drawn uniformly, with replacement.

        Args:
            batch_size: Number of transitions.
            indx: Numbers of the rows to take instead, in the order of the memory.

        Returns:
            A dict structured as the example, whose arrays have `batch_size` rows.

        Raises:
            ValueError: The buffer is empty, or `batch_size` is not positive.
            IndexError: An index is out of range.
        """
        return rows.take(self._flat, rows.drawn_indices(self._rng, len(self), batch_size, indx))

    def to_dataset(self) -> Dataset:
        """A copy of what the buffer holds, oldest first."""
        order = np.arange(self._n_added - len(self), self._n_added) % self._capacity
        return Dataset(rows.take(self._flat, order))

    def state_dict(self) -> dict[str, Any]:
        """What has to be saved to go on as if the buffer had never been away.

        Returns:
            The transitions held (views of the memory), the count and the state of the sampling.
        """
        return {
            "transitions": {name: array[: len(self)] for name, array in self._flat.items()},
            "n_added": self._n_added,
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a saved state.

        Args:
            state: What [`state_dict`][jaxagents.data.ReplayBuffer.state_dict] gave, of a buffer of the
                same capacity and structure.

        Raises:
            ValueError: The state is of another structure or capacity.
        """
        saved, held = state["transitions"], min(state["n_added"], self._capacity)
        for name, array in self._flat.items():
            expected = (held, *array.shape[1:])
            if name not in saved or saved[name].shape != expected:
                found = saved[name].shape if name in saved else "nothing"
                raise ValueError(f"The state has {found} for {name!r}, where {expected} would fit.")
        for name, array in self._flat.items():
            array[:held] = saved[name]
        self._n_added = int(state["n_added"])
        self._rng.bit_generator.state = state["rng"]


def _misshapen(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> ValueError:
    return ValueError(f"{name!r} has shape {shape}, but the buffer holds {expected}.")
