"""Datasets of transitions."""

import functools
import os
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxagents.data import files, rows
from jaxagents.data.sampling import Sampled

_SMALLEST_STD = 1e-6


class Normalisation(NamedTuple):
    """An affine map to zero mean and unit standard deviation.

    Attributes:
        mean: Mean of each component.
        std: Standard deviation of each component; 1 for a component that is constant.
    """

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray) -> "Normalisation":
        """The statistics of an array over its first axis.

        Args:
            array: Samples first.

        Returns:
            The map that normalises it.
        """
        std = array.std(axis=0, dtype=np.float64)
        mean = array.mean(axis=0, dtype=np.float64)
        constant = std < _SMALLEST_STD
        return cls(mean.astype(np.float32), np.where(constant, 1.0, std).astype(np.float32))

    def __call__(self, x: Any) -> Any:
        """Normalises."""
        return (x - self.mean) / self.std

    def inverse(self, x: Any) -> Any:
        """Undoes it."""
        return x * self.std + self.mean


@jax.tree_util.register_pytree_node_class
class Dataset(Sampled):
    """Arrays with a common first axis, in a dict that may be nested.

    ```python
    dataset = Dataset({"observations": {"image": images, "state": states}, "actions": actions})
    batch = dataset.sample(256)
    batch["observations"]["image"]  # (256, ...)
    ```

    It has the keys and items of a dict, and the length of its arrays. It is a pytree of the arrays,
    which it keeps as they are given, without a copy.

    Keys that have a meaning: `observations`, `actions`, `rewards`, `next_observations`, `masks` (0 where
    the environment ended the episode, so that nothing follows, else 1) and `ends` (whether the row is
    the last of its episode, be it terminated or truncated).
    """

    def __init__(self, arrays: Mapping[str, Any], seed: int = 0) -> None:
        """Makes a dataset.

        Args:
            arrays: Arrays, or dicts of them, whose first axes have the same length.
            seed: Seed of the sampling.

        Raises:
            TypeError: A key is no string.
            ValueError: The lengths differ; the error names the key.
        """
        self._arrays = rows.unflatten(rows.flatten(arrays))
        self._rng = np.random.default_rng(seed)
        rows.common_length(self._flat)

    @functools.cached_property
    def _flat(self) -> dict[str, np.ndarray]:
        return rows.flatten(self._arrays)

    @functools.cached_property
    def _size(self) -> int:
        return rows.common_length(self._flat)

    # A dict and a pytree.

    def __getitem__(self, key: str) -> Any:
        """The array, or dict of arrays, of a key."""
        return self._arrays[key]

    def __contains__(self, key: object) -> bool:
        """Whether there is a key."""
        return key in self._arrays

    def __iter__(self) -> Iterator[str]:
        """The keys."""
        return iter(self._arrays)

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._arrays.keys()

    def items(self) -> ItemsView[str, Any]:
        """The keys with their arrays, or dicts of arrays."""
        return self._arrays.items()

    def __len__(self) -> int:
        """Number of rows."""
        return self._size

    def __repr__(self) -> str:
        """Rows, and the shape and type of each array."""
        shapes = ", ".join(f"{k}: {v.dtype}{list(v.shape[1:])}" for k, v in self._flat.items())
        return f"Dataset of {self._size} rows ({shapes})"

    def tree_flatten(self) -> tuple[tuple[rows.Arrays], None]:
        """The arrays, for JAX."""
        return (self._arrays,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[rows.Arrays]) -> "Dataset":
        """Makes a dataset of whatever JAX has made of the arrays, sampled from anew."""
        dataset = object.__new__(cls)
        dataset._arrays = children[0]
        dataset._rng = np.random.default_rng(0)
        return dataset

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._size

    # Choosing rows.

    def get_subset(self, indx: Any) -> "Dataset":
        """The dataset of some rows.

        Args:
            indx: Numbers of the rows, a boolean for each row, or a slice (which copies nothing).

        Returns:
            The dataset.
        """
        return self._map(lambda array: array[indx])

    def split(self, fraction: float, seed: int = 0) -> tuple["Dataset", "Dataset"]:
        """Splits the rows at random.

        Args:
            fraction: Share of the rows in the first part, rounded to whole rows.
            seed: Seed of the choice.

        Returns:
            Two datasets, whose rows keep their order.

        Raises:
            ValueError: One of the parts would be empty.
        """
        n_first = round(fraction * self._size)
        if not 0 < n_first < self._size:
            raise ValueError(
                f"fraction must leave rows on both sides of {self._size}, got {fraction}."
            )
        in_first = np.zeros(self._size, bool)
        in_first[np.random.default_rng(seed).permutation(self._size)[:n_first]] = True
        return self.get_subset(in_first), self.get_subset(~in_first)

    # Transforming.

    def n_step(self, n: int, discount: float) -> "Dataset":
        r"""Transitions over up to `n` steps, none of them over the end of an episode.

        The reward of row $t$ becomes $\sum_{k=0}^{m-1} \gamma^k r_{t+k}$, and its successor, mask and
        end those of row $t + m - 1$, with $m = n$ or what is left of the episode or of the dataset. A
        new key `discounts` holds $\gamma^m$, which weighs the value of the successor. The rows must
        follow each other in time: take it before `split`, not after.

        Sutton, 1988, "Learning to predict by the methods of temporal differences".

        Args:
            n: Largest number of steps.
            discount: $\gamma$.

        Returns:
            The dataset, with as many rows. It needs `rewards`, `next_observations`, `masks` and `ends`.

        Raises:
            KeyError: A key is missing.
            ValueError: `n` is not positive.
        """
        if n < 1:
            raise ValueError(f"n must be positive, got {n}.")
        for key in ("rewards", "next_observations", "masks", "ends"):
            if key not in self:
                raise KeyError(f"n_step needs {key!r}; the dataset has {sorted(self)}.")
        last = np.arange(self._size)
        goes_on = np.ones(self._size, bool)
        rewards = np.array(self["rewards"], np.float32)
        for step in range(1, n):
            goes_on &= ~np.asarray(self["ends"], bool)[last] & (last + 1 < self._size)
            last = last + goes_on
            rewards += np.where(goes_on, np.float32(discount**step) * self["rewards"][last], 0.0)
        discounts = np.float32(discount) ** (last - np.arange(self._size) + 1)
        successor = {
            key: jax.tree.map(lambda array: array[last], self[key])
            for key in ("next_observations", "masks", "ends")
        }
        return Dataset(
            {**self, **successor, "rewards": rewards, "discounts": discounts.astype(np.float32)}
        )

    def normalise(self, keys: Sequence[str]) -> tuple["Dataset", Normalisation]:
        """Normalises arrays by the mean and the standard deviation of the first of them.

        Args:
            keys: Such as `("observations", "next_observations")`; nested ones are joined with slashes.

        Returns:
            The dataset, and the map by which a policy's observations have to be normalised.

        Raises:
            KeyError: A key is missing.
        """
        for key in keys:
            if key not in self._flat:
                raise KeyError(f"There is no array {key!r}; the dataset has {sorted(self._flat)}.")
        normalisation = Normalisation.of(self._flat[keys[0]])
        normalised = {key: normalisation(self._flat[key]) for key in keys}
        return Dataset(rows.unflatten({**self._flat, **normalised})), normalisation

    def _map(self, function: Any) -> "Dataset":
        return Dataset(rows.unflatten({k: function(v) for k, v in self._flat.items()}))

    # On disk.

    def save(self, path: str | os.PathLike) -> None:
        """Writes the arrays, compressed, to a new file.

        Args:
            path: The file, which must not exist. Its ending decides the format: `.npz` of NumPy, or
                HDF5 (`.h5` or `.hdf5`), whose groups nest as the dicts do.

        Raises:
            ValueError: The ending is another.
            FileExistsError: The file exists.
            TypeError: The format cannot keep the type of an array.
            ImportError: HDF5 files need `jaxagents[hdf5]`.
        """
        files.write(path, self._flat)

    @classmethod
    def load(cls, path: str | os.PathLike, seed: int = 0) -> "Dataset":
        """Reads what [`save`][jaxagents.data.Dataset.save] wrote.

        Args:
            path: The file.
            seed: Seed of the sampling.

        Returns:
            The dataset.

        Raises:
            ValueError: The file's ending is of another format, or its arrays do not fit together.
            ImportError: HDF5 files need `jaxagents[hdf5]`.
        """
        return cls(rows.unflatten(files.read(path)), seed)
