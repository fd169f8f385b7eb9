"""Datasets of transitions and their normalisation."""

import functools
import os
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.numbers import positive
from jaxagents.data import files, rows, units
from jaxagents.envs.spaces import Box, box_bounds

_OF_EPISODES = ("rewards", "masks", "ends")
_SMALLEST_STD = 1e-6
_NUMBERS_AT_ONCE = 2**16


class Normalisation(NamedTuple):
    """An affine map to zero mean and unit standard deviation.

    Attributes:
        mean: Mean of each component.
        std: Standard deviation of each component; 1 for constant components (below 1e-6).
    """

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray) -> "Normalisation":
        """Computes the statistics of an array over its first axis.

        Args:
            array: Samples first.

        Returns:
            The normalisation, in the array's precision, but at least in single precision.
        """
        precision = np.promote_types(array.dtype, np.float32)
        mean = array.mean(axis=0, dtype=np.float64)
        std = _std(array, mean)
        constant = std < _SMALLEST_STD
        return cls(mean.astype(precision), np.where(constant, 1.0, std).astype(precision))

    def __call__(self, x: PyTree) -> PyTree:
        """Normalises an array."""
        centred = x - self.mean
        centred /= self.std
        return centred

    def inverse(self, x: PyTree) -> PyTree:
        """Undoes the normalisation."""
        return x * self.std + self.mean


@jax.tree_util.register_pytree_node_class
class Dataset(rows.Sampled):
    """Arrays with a common first axis, in a dict that may be nested.

    ```python
    observations = {"image": images, "state": states}
    dataset = Dataset({"observations": observations, "actions": actions})
    batch = dataset.sample(256)
    batch["observations"]["image"]  # (256, ...)
    ```

    Read it like a dict, except that its length is the number of rows and that it equals only itself. It
    is a pytree of its arrays, which are not copied.

    Derived datasets inherit its seed; the two parts of a `split` get seeds derived from it. Use
    `Dataset({**dataset}, seed)` to choose another.

    Keys with a special meaning: `observations`, `actions`, `rewards`, `next_observations`, `masks` (0
    where the episode terminated, else 1) and `ends` (whether the row is the last of its episode,
    terminated or truncated).

    A dataset records the units of continuous actions as a box, its `action_space`. The box is passed to
    the constructor, or comes from an environment, a buffer or Minari, and carries over to derived
    datasets and files. Agents convert actions from these units. `Dataset({**dataset})` drops the box.
    """

    _seed: int = 0  # of datasets that JAX makes
    _action_space: Box | None = None
    _single_steps: "Dataset | None" = None
    _in_order: bool = True

    def __init__(
        self,
        arrays: Mapping[str, PyTree],
        seed: int = 0,
        action_space: units.Bounds = None,
    ) -> None:
        """Creates a dataset.

        Args:
            arrays: Arrays, or dicts of them, whose first axes have the same length.
            seed: Seed for sampling.
            action_space: The space of `actions`, such as `env.action_space`, or its lower and upper
                bounds, such as `(-1, 1)`; by default taken from `arrays` if that is a dataset or a
                trajectory. Only boxes with finite bounds matter.

        Raises:
            TypeError: A key is not a string.
            ValueError: The lengths differ, a value is not an array (the message names the key), or
                `action_space` does not match the actions' shape or the space of `arrays`.
        """
        self._arrays = rows.unflatten(rows.flatten(arrays))
        known = units.known_box(arrays)
        self._action_space = units.box_of_arrays(self._flat, known, action_space)
        self._seed = seed
        self._rng = np.random.default_rng(seed)
        rows.common_length(self._flat)

    @functools.cached_property
    def _flat(self) -> dict[str, PyTree]:
        return rows.flatten(self._arrays)

    @functools.cached_property
    def _size(self) -> int:
        return rows.common_length(self._flat)

    # The interfaces of dicts and pytrees.

    def __getitem__(self, key: str) -> PyTree:
        """The array, or dict of arrays, for a key."""
        return self._arrays[key]

    def get(self, key: str, default: PyTree = None) -> PyTree:
        """The array or dict of arrays under a key; `default` if the key does not exist."""
        return self._arrays.get(key, default)

    def __contains__(self, key: object) -> bool:
        """Whether a key exists."""
        return key in self._arrays

    def __iter__(self) -> Iterator[str]:
        """The keys."""
        return iter(self._arrays)

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._arrays.keys()

    def values(self) -> ValuesView[PyTree]:
        """The arrays, or dicts of arrays."""
        return self._arrays.values()

    def items(self) -> ItemsView[str, PyTree]:
        """Pairs of keys and arrays, or dicts of arrays."""
        return self._arrays.items()

    def __len__(self) -> int:
        """Number of rows."""
        return self._size

    def __repr__(self) -> str:
        """Number of rows, and the shape and dtype of each array."""
        shapes = ", ".join(f"{k}: {v.dtype}{list(v.shape[1:])}" for k, v in self._flat.items())
        box = self._action_space
        bounds = "" if box is None else f", actions in {units.words(box)}"
        return f"Dataset of {self._size} rows ({shapes}){bounds}"

    def tree_flatten(self) -> tuple[tuple[rows.Arrays], Box | None]:
        """Flattens the dataset for JAX."""
        return (self._arrays,), self._action_space

    @classmethod
    def tree_unflatten(cls, action_space: Box | None, children: tuple[rows.Arrays]) -> "Dataset":
        """Rebuilds a dataset for JAX, with seed 0."""
        dataset = object.__new__(cls)
        dataset._arrays, dataset._action_space = children[0], action_space
        dataset._rng = np.random.default_rng(0)
        return dataset

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._size

    @property
    def action_space(self) -> Box | None:
        """The box that defines the units of actions; `None` if unknown or if there is none."""
        return self._action_space

    @property
    def single_steps(self) -> "Dataset":
        """`rewards`, `masks` and `ends` before `n_step` or `split`; else the dataset itself."""
        return self if self._single_steps is None else self._single_steps

    @property
    def in_order(self) -> bool:
        """Whether consecutive rows of an episode are consecutive in time.

        New datasets are assumed to be in order. The results of `split`, and of `get_subset` with gaps
        within an episode, are not.
        """
        return self._in_order

    # Choosing rows.

    def get_subset(self, indx: PyTree) -> "Dataset":
        """Selects rows.

        Args:
            indx: Row indices, a boolean mask of all rows, or a slice (which copies nothing).

        Returns:
            A dataset of these rows.

        Raises:
            TypeError: `indx` is none of these.
            ValueError: `indx` is a scalar.
            IndexError: An index is out of range, or the mask has the wrong length.
        """
        return self._subset(indx, self._seed)

    def split(self, fraction: float, seed: int = 0) -> tuple["Dataset", "Dataset"]:
        """Splits the rows at random.

        Because a split cuts episodes, `normalise_rewards` uses the returns of the whole dataset for both
        parts, so that their rewards have the same scale.

        Args:
            fraction: Fraction of the rows in the first part, rounded to whole rows.
            seed: Seed of the split.

        Returns:
            Two datasets, whose rows keep their order.

        Raises:
            ValueError: One of the parts would be empty.
        """
        n_first = round(fraction * self._size)
        if not 0 < n_first < self._size:
            raise ValueError(
                f"fraction must leave at least one of the {self._size} rows on each side, got "
                f"{fraction}."
            )
        in_first = np.zeros(self._size, bool)
        in_first[np.random.default_rng(seed).permutation(self._size)[:n_first]] = True
        first, second = np.random.SeedSequence(self._seed).spawn(2)
        parts = self._subset(in_first, _seed_of(first)), self._subset(~in_first, _seed_of(second))
        for part in parts:
            part._single_steps = self._single_steps or self._steps_of_episodes()
        return parts

    def _steps_of_episodes(self) -> "Dataset | None":
        """Rewards, masks and ends of single steps, not copied; `None` if any is missing."""
        if "discounts" in self._flat or not {"rewards", "ends"} <= self._flat.keys():
            return None
        return Dataset({key: self._flat[key] for key in _OF_EPISODES if key in self._flat})

    def _subset(self, indx: PyTree, seed: int) -> "Dataset":
        chosen = indx if isinstance(indx, slice) else rows.chosen(indx, self._size)
        flat = {name: array[chosen] for name, array in self._flat.items()}
        subset = Dataset(rows.unflatten(flat), seed, self._action_space)
        subset._in_order = self._in_order and self._follow_each_other(chosen)
        if self._single_steps is not None:
            subset._single_steps = self._single_steps._subset(chosen, seed)
        return subset

    def _follow_each_other(self, chosen: slice | np.ndarray) -> bool:
        """Whether the chosen rows are consecutive in time within episodes."""
        if isinstance(chosen, slice):
            return chosen.step in (None, 1)
        numbers = chosen.ravel()
        ends = self._flat.get("ends", np.zeros(self._size))[numbers[:-1]]
        return bool(np.all(np.asarray(ends, bool).T | (np.diff(numbers) == 1)))

    # Transforming.

    def n_step(self, n: int, discount: float) -> "Dataset":
        r"""Computes transitions of up to `n` steps, which never cross the end of an episode.

        The reward of row $t$ becomes $\sum_{k=0}^{m-1} \gamma^k r_{t+k}$, and its successor, mask and
        end come from row $t + m - 1$, where $m = n$, or less at the end of the episode or the dataset. A
        new key `discounts` holds $\gamma^m$, the discount of the successor's value. The rows must be in
        time order: call it before `split`, not after.

        Successors are copied; observations and actions are shared with this dataset.

        Sutton, 1988, "Learning to predict by the methods of temporal differences".

        Args:
            n: Maximum number of steps.
            discount: Discount factor $\gamma$.

        Returns:
            A dataset with as many rows. It needs `rewards`, `next_observations`, `masks` and `ends`.

        Raises:
            KeyError: A key is missing.
            ValueError: `n` is not positive, the dataset already has `discounts`, its rows are not in
                order, there is not one reward, mask and end per row, or a row with a mask of 0 is not an
                end.
        """
        positive("n", n)
        if "discounts" in self:
            raise ValueError("The dataset has 'discounts', so its rows already span several steps.")
        if not self._in_order:
            raise ValueError(
                "n_step needs rows in time order, but some rows of this dataset were removed "
                "or moved: call n_step before split and get_subset."
            )
        rows.check_columns("n_step", ("rewards", *rows.OF_THE_LAST), self, "the dataset")
        rows.check_ends(self["masks"], self["ends"])
        flat = self._flat
        rewards, last, discounts = _n_step_rewards(flat["rewards"], flat["ends"], n, discount)
        of_last = rows.take(rows.flatten({key: self[key] for key in rows.OF_THE_LAST}), last)
        columns = {**of_last, "rewards": rewards, "discounts": discounts}
        stepped = Dataset({**self._arrays, **columns}, self._seed, self._action_space)
        stepped._single_steps = self._steps_of_episodes()
        return stepped

    def normalise(self, keys: Sequence[str]) -> tuple["Dataset", Normalisation]:
        """Normalises arrays with the mean and standard deviation of the first one.

        Args:
            keys: Keys such as `("observations", "next_observations")`; join nested keys with slashes.

        Returns:
            The normalised dataset, and the normalisation, which you must also apply to the policy's
            observations.

        Raises:
            KeyError: A key is missing.
            ValueError: The arrays differ in shape.
            TypeError: `keys` is a string.
        """
        if isinstance(keys, str):
            raise TypeError(f"keys must be a list of names, got {keys!r}; try [{keys!r}].")
        for key in keys:
            shape, expected = self._flat[key].shape[1:], self._flat[keys[0]].shape[1:]
            if shape != expected:
                raise ValueError(f"{key!r} has shape {shape}, but {keys[0]!r} has {expected}.")
        normalisation = Normalisation.of(self._flat[keys[0]])
        dataset = self._with({key: normalisation(self._flat[key]) for key in keys})
        if "rewards" not in keys:
            dataset._single_steps = self._single_steps
        return dataset, normalisation

    def rescale_actions(self) -> "Dataset":
        """Rescales continuous actions to [-1, 1], the range that learners expect.

        Agents do this themselves; only custom loops with a learner need it.

        Returns:
            The dataset with `action_space` from -1 to 1; the same object if nothing needs to be
            rescaled, or if actions are integers.

        Raises:
            ValueError: The units of the actions are unknown.
        """
        box, actions = self._action_space, self._flat.get(units.ACTIONS)
        if box is None and actions is not None and actions.dtype.kind in "iu":
            return self
        if box is None or actions is None:
            raise ValueError(
                "The dataset does not know the bounds of its actions, so they cannot be "
                "rescaled: pass action_space to Dataset or Dataset.load, such as "
                "env.action_space."
            )
        unit = units.box_of((-1.0, 1.0), box.shape)
        if box == unit:
            return self
        rescaled = units.to_unit(actions, box).astype(np.result_type(actions.dtype, np.float16))
        dataset = self._with({units.ACTIONS: rescaled})
        dataset._action_space, dataset._single_steps = unit, self._single_steps
        return dataset

    def _with(self, columns: Mapping[str, np.ndarray]) -> "Dataset":
        """Returns the dataset with some columns replaced; new actions lose their units."""
        space = None if units.ACTIONS in columns else self._action_space
        dataset = Dataset(rows.unflatten({**self._flat, **columns}), self._seed, space)
        dataset._in_order = self._in_order
        return dataset

    # On disk.

    def save(self, path: str | os.PathLike) -> None:
        """Writes the compressed arrays, and the bounds of the actions if known, to a new file.

        Args:
            path: A new file. The suffix decides the format: NumPy's `.npz`, or HDF5 (`.h5` or `.hdf5`)
                with groups for nested dicts.

        Raises:
            ValueError: The suffix is unknown.
            FileExistsError: The file exists.
            FileNotFoundError: The folder does not exist.
            TypeError: The format does not support the dtype of an array.
            ImportError: HDF5 files need `jaxagents[hdf5]`.
        """
        box = self._action_space
        low_and_high = () if box is None else box_bounds(box)
        bounds = dict(zip(files.BOUNDS, low_and_high, strict=False))
        files.write(path, {**self._flat, **bounds})

    @classmethod
    def load(
        cls, path: str | os.PathLike, seed: int = 0, action_space: units.Bounds = None
    ) -> "Dataset":
        """Reads a file written by [`save`][jaxagents.data.Dataset.save].

        Args:
            path: The file.
            seed: Seed for sampling.
            action_space: The space of the actions, or its bounds, if the file lacks them; see the
                constructor.

        Returns:
            The dataset.

        Raises:
            ValueError: The suffix is unknown, the arrays do not fit together, or the file declares a
                different action space.
            ImportError: HDF5 files need `jaxagents[hdf5]`.
        """
        flat, known = files.read(path), None
        if units.ACTIONS in flat and flat.keys() >= {*files.BOUNDS}:
            known = tuple(flat.pop(name) for name in files.BOUNDS)
        space = units.box_of_arrays(flat, known, action_space)
        return cls(rows.unflatten(flat), seed, space)


def _seed_of(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1)[0])


def _n_step_rewards(
    rewards: np.ndarray, ends: np.ndarray, n: int, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Discounted sums of up to `n` rewards, the last row of each sum, and the discount after it."""
    last = np.arange(len(rewards))
    n_steps, goes_on = np.ones(len(rewards), int), np.ones(len(rewards), bool)
    sums = np.asarray(rewards, np.float32)[last]
    for step in range(1, n):
        goes_on &= ~np.asarray(ends[last], bool) & (last + 1 < len(rewards))
        last = np.where(goes_on, last + 1, last)
        sums += np.where(goes_on, np.float32(gamma**step) * rewards[last], 0.0)
        n_steps += goes_on
    return sums, last, (np.float32(gamma) ** n_steps).astype(np.float32)


def _std(array: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Standard deviation over the first axis, computed in chunks to save memory."""
    n_rows = max(1, _NUMBERS_AT_ONCE // max(1, mean.size))
    squares = np.zeros_like(mean)
    for start in range(0, len(array), n_rows):
        squares += np.square(array[start : start + n_rows] - mean).sum(axis=0)
    return np.sqrt(squares / len(array))
