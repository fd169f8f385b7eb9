"""Reading datasets of [Minari](https://minari.farama.org), the successor of D4RL."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.extras import require
from jaxagents.data import rows
from jaxagents.data.dataset import Dataset


def from_minari(
    dataset: Any, *, single_precision: bool = True, rescale_actions: bool = False, seed: int = 0
) -> Dataset:
    """Reads the transitions of a Minari dataset into memory, one episode after another.

    Nothing is downloaded: `minari download ID` does that beforehand. Dict spaces become dicts, and tuple
    spaces dicts with the keys `"0"`, `"1"`, and so on. The successor of an episode's last row is the
    last observation that Minari keeps, so that truncated episodes can be bootstrapped.

    Args:
        dataset: Identifier of a dataset on this machine, or a `minari.MinariDataset`, such as a filtered
            one.
        single_precision: Whether to keep 64-bit real numbers as 32-bit ones.
        rescale_actions: Whether to map the actions from the bounds of their space to [-1, 1], where
            learners act.
        seed: Seed of the sampling.

    Returns:
        A dataset of `observations`, `actions`, `rewards`, `next_observations`, `masks` (0 where the
        environment ended the episode, else 1) and `ends` (whether the row is its episode's last).

    Raises:
        FileNotFoundError: There is no such dataset on this machine; the error lists the others.
        ValueError: It is empty, its episodes do not fit together, or actions that are not of a bounded
            box are to be rescaled.
        TypeError: A part of it, such as a graph, is not an array.
        ImportError: Minari is not installed.
    """
    source = _open(dataset) if isinstance(dataset, str) else dataset
    if rescale_actions:
        _check_bounded(source.action_space)
    n_rows, start = source.total_steps, 0
    arrays: dict[str, np.ndarray] = {}
    for episode in source:
        for name, values in _columns(episode).items():
            arrays[name] = _with_room(arrays.get(name), name, values, n_rows, single_precision)
            arrays[name][start : start + len(episode)] = values
        start += len(episode)
    if not 0 < start == n_rows:
        raise ValueError(
            f"The Minari dataset {source.id!r} must have steps, as many as it says: it says "
            f"{n_rows}, and has {start}."
        )
    if rescale_actions:
        arrays["actions"] = _rescale(arrays["actions"], source.action_space)
    return Dataset(rows.unflatten(arrays), seed)


def _open(dataset_id: str) -> Any:
    minari = require("minari", "jaxagents[minari]")
    try:
        return minari.load_dataset(dataset_id)
    except FileNotFoundError:
        local = ", ".join(minari.list_local_datasets()) or "none"
        raise FileNotFoundError(
            f"There is no Minari dataset {dataset_id!r} on this machine; there are: {local}. "
            f"`minari download {dataset_id}` gets one that is public."
        ) from None


def _columns(episode: Any) -> dict[str, np.ndarray]:
    """The transitions of an episode, by name."""
    observed = _arrays("observations", episode.observations)
    for name, values in observed.items():
        if len(values) != len(episode) + 1:
            raise ValueError(
                f"Episode {episode.id} has {len(values)} of {name!r}, where its {len(episode)} steps "
                "need one more than steps."
            )
    terminated = np.asarray(episode.terminations, bool)
    ends = terminated | np.asarray(episode.truncations, bool)
    ends[-1:] = True
    rewards = np.asarray(episode.rewards)
    return {
        **{name: values[:-1] for name, values in observed.items()},
        **_arrays("actions", episode.actions),
        "rewards": rewards if rewards.dtype.kind == "f" else rewards.astype(np.float64),
        **{f"next_{name}": values[1:] for name, values in observed.items()},
        "masks": (~terminated).astype(np.float32),
        "ends": ends,
    }


def _arrays(key: str, nested: Any) -> dict[str, np.ndarray]:
    """The arrays of an element of a space, by name."""
    flat = rows.flatten({key: _in_dicts(nested)})
    for name, array in flat.items():
        if array.dtype.kind == "O":
            raise TypeError(f"{name!r} is not made of arrays of numbers or text.")
    return flat


def _in_dicts(nested: Any) -> PyTree:
    """Nested dicts and tuples, all as dicts."""
    if isinstance(nested, tuple):
        nested = {str(i): part for i, part in enumerate(nested)}
    if isinstance(nested, Mapping):
        return {key: _in_dicts(part) for key, part in nested.items()}
    return nested


def _with_room(
    array: np.ndarray | None, name: str, values: np.ndarray, n_rows: int, single_precision: bool
) -> np.ndarray:
    """The array for all rows of a name, made or widened so that it can hold these values."""
    dtype = values.dtype if array is None else np.promote_types(array.dtype, values.dtype)
    if single_precision and dtype == np.float64:
        dtype = np.dtype(np.float32)
    if array is None:
        return np.empty((n_rows, *values.shape[1:]), dtype)
    if array.shape[1:] != values.shape[1:]:
        raise ValueError(
            f"{name!r} has shape {values.shape[1:]} in one episode and {array.shape[1:]} in another."
        )
    return array.astype(dtype, copy=False)


def _check_bounded(space: Any) -> None:
    from gymnasium import spaces

    if not isinstance(space, spaces.Box) or not space.is_bounded():
        raise ValueError(f"Only actions of a bounded box can be rescaled, not those of {space}.")


def _rescale(actions: np.ndarray, space: Any) -> np.ndarray:
    unit = (actions - space.low) / (space.high - space.low)
    return (2.0 * unit - 1.0).astype(actions.dtype)
