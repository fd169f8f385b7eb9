"""A replay buffer on the host."""

from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import AnyArray
from jaxagents.core.numbers import positive
from jaxagents.data import rows, units
from jaxagents.data.dataset import Dataset
from jaxagents.envs.spaces import Box

ENVIRONMENTS = "environments"
"""Key of the index of a transition's environment, if there are several."""


class ReplayBuffer(rows.Sampled):
    """A replay buffer on the host, in memory that is allocated once.

    ```python
    buffer = ReplayBuffer.create(example_transition, size=1_000_000)
    buffer.add_transition(transition)
    batch = buffer.sample(256)
    ```

    Once it is full, new transitions overwrite the oldest. Transitions from several environments have an
    entry `environments`, the environment's index.
    """

    _action_space: Box | None = None

    def __init__(
        self, flat: dict[str, np.ndarray], seed: int = 0, action_space: Box | None = None
    ) -> None:
        """Takes ownership of arrays; prefer [`create`][jaxagents.data.ReplayBuffer.create].

        Args:
            flat: Arrays by name, nested names joined with slashes.
            seed: Seed for sampling.
            action_space: The box of the actions, if known.
        """
        self._flat, self._action_space = flat, action_space
        self._capacity = rows.common_length(flat)
        self._columns = [
            (name, name.split(rows.SEPARATOR), array.shape[1:], array.dtype)
            for name, array in flat.items()
        ]
        self._n_added = 0
        self._rng = np.random.default_rng(seed)

    @classmethod
    def create(
        cls,
        example_transition: Mapping[str, PyTree],
        size: int,
        seed: int = 0,
        action_space: units.Bounds = None,
    ) -> "ReplayBuffer":
        """Creates an empty buffer.

        Args:
            example_transition: One transition, for its shapes and dtypes, in a possibly nested dict.
            size: Maximum number of transitions.
            seed: Seed for sampling.
            action_space: The space of the actions, or its bounds, for datasets made from the buffer; by
                default taken from [`example_transition`][jaxagents.host.example_transition].

        Returns:
            The buffer.

        Raises:
            ValueError: `size` is not positive, a value is not an array (the message names the key), or
                `action_space` does not match.
            TypeError: `size` is not an integer.
        """
        example = rows.flatten(example_transition)
        size = positive("size", size)
        box = units.box_of_arrays(example, units.known_box(example_transition), action_space, 0)
        flat = {name: np.zeros((size, *x.shape), x.dtype) for name, x in example.items()}
        return cls(flat, seed, box)

    @classmethod
    def create_from_initial_dataset(
        cls, dataset: Dataset | Mapping[str, PyTree], size: int, seed: int = 0
    ) -> "ReplayBuffer":
        """Creates a buffer from a dataset.

        Args:
            dataset: A [`Dataset`][jaxagents.data.Dataset] or a similar dict of arrays. Transitions added
                later must use the same units; in a custom loop with a learner, pass
                `dataset.rescale_actions()`.
            size: Maximum number of transitions.
            seed: Seed for sampling.

        Returns:
            The buffer.

        Raises:
            ValueError: The dataset is larger than `size`, or `size` is not positive.
            TypeError: `size` is not an integer.
        """
        flat = rows.flatten({**dataset})
        n_rows = rows.common_length(flat)
        size = positive("size", size)
        if n_rows > size:
            raise ValueError(f"The dataset has {n_rows} rows, more than a size of {size}.")
        arrays = {k: np.zeros((size, *v.shape[1:]), v.dtype) for k, v in flat.items()}
        box = units.box_of_arrays(flat, units.known_box(dataset), None)
        buffer = cls(arrays, seed, box)
        buffer.add_transitions(rows.unflatten(flat))
        return buffer

    def __len__(self) -> int:
        """Number of transitions stored."""
        return min(self._n_added, self._capacity)

    @property
    def size(self) -> int:
        """Number of transitions stored."""
        return len(self)

    @property
    def action_space(self) -> Box | None:
        """The box that defines the units of actions; `None` if unknown or if there is none."""
        return self._action_space

    @property
    def capacity(self) -> int:
        """Maximum number of transitions."""
        return self._capacity

    def add_transition(self, transition: Mapping[str, PyTree]) -> None:
        """Adds one transition.

        Args:
            transition: A dict structured like the example.

        Raises:
            ValueError: A key is missing, or a value has a different shape, is not an array, or is an
                integer outside the stored dtype's range; the message names the key.
            TypeError: A value is of a different kind, such as real numbers for stored integers.
        """
        values = self._columns_of(transition, "transition has", 0)
        row = self._n_added % self._capacity
        for array, value in zip(self._flat.values(), values, strict=True):
            array[row] = value
        self._n_added += 1

    def add_transitions(self, transitions: Mapping[str, PyTree]) -> None:
        """Adds many transitions, oldest first.

        Args:
            transitions: A dict structured like the example, whose arrays have a leading axis.

        Raises:
            ValueError: A key is missing, or an array has a different shape or integers outside the
                stored dtype's range; the message names the key.
            TypeError: An array is of a different kind.
        """
        values = self._columns_of(transitions, "transitions have", 1)
        n_new = rows.common_length(dict(zip(self._flat, values, strict=True)))
        first_kept = max(0, n_new - self._capacity)
        start = (self._n_added + first_kept) % self._capacity
        first_wrapped = min(n_new, first_kept + self._capacity - start)
        for array, value in zip(self._flat.values(), values, strict=True):
            new = np.array(value) if np.may_share_memory(value, array) else np.asarray(value)
            array[start : start + first_wrapped - first_kept] = new[first_kept:first_wrapped]
            array[: n_new - first_wrapped] = new[first_wrapped:]
        self._n_added += n_new

    def _columns_of(self, given: PyTree, subject: str, n_axes: int) -> list[AnyArray]:
        """The values for each stored array, checked; they have `n_axes` leading axes."""
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
            if value.dtype is not dtype:  # usually it is, and the check takes time
                rows.check_kind(name, value.dtype, dtype, value)
            values.append(value)
        return values

    def _held(self) -> np.ndarray:
        """Indices of the stored rows, oldest first."""
        return np.arange(self._n_added - len(self), self._n_added) % self._capacity

    def end_episodes(self, environments: Collection[int] | None = None) -> None:
        """Marks the newest transition of each environment as the end of its episode.

        Transitions added later, for instance by another run, then start new episodes.

        Args:
            environments: Indices of the environments, all by default; those without transitions are
                skipped.

        Raises:
            KeyError: Transitions have no entry `ends`.
        """
        held = self._held()
        numbers = self._environments_of(held)
        chosen = np.unique(numbers) if environments is None else environments
        for i in chosen:
            self._flat["ends"][held[numbers == i][-1:]] = True

    def to_dataset(self, seed: int = 0) -> Dataset:
        """Copies the stored transitions to a dataset, oldest first.

        Transitions from several environments are grouped by environment. The last of each group is
        marked in `ends`, so that no episode continues in another environment.

        Args:
            seed: Seed for sampling from the dataset.

        Returns:
            The dataset.
        """
        held = self._held()
        if ENVIRONMENTS not in self._flat:
            return Dataset(rows.take(self._flat, held), seed, self._action_space)
        held = held[np.argsort(self._environments_of(held), kind="stable")]
        taken = rows.take(self._flat, held)
        if "ends" in taken:
            taken["ends"][np.diff(self._environments_of(held), append=-1) != 0] = True
        return Dataset(taken, seed, self._action_space)

    def _environments_of(self, held: np.ndarray) -> np.ndarray:
        """The environment index of each given row."""
        return self._flat[ENVIRONMENTS][held] if ENVIRONMENTS in self._flat else np.zeros_like(held)
