"""Reads and writes datasets of [Minari](https://minari.farama.org), the successor of D4RL."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.extras import require
from jaxagents.data import rows, units
from jaxagents.data.dataset import Dataset

_KEYS = ("observations", "actions", "rewards", "next_observations", "masks", "ends")


def from_minari(
    dataset: Any, *, single_precision: bool = True, rescale_actions: bool = False, seed: int = 0
) -> Dataset:
    """Reads the transitions of a Minari dataset into memory, episode by episode.

    It does not download anything: run `minari download ID` first. Dict spaces become dicts; tuple
    spaces become dicts with the keys `"0"`, `"1"` and so on. The successor of an episode's last row is
    Minari's last observation, so that learners can bootstrap after truncation. Actions are in the units
    of Minari's action space, which the dataset records.

    Args:
        dataset: Identifier of a local dataset, or a `minari.MinariDataset`, such as a filtered one.
        single_precision: Whether to convert 64-bit real numbers to 32 bits.
        rescale_actions: Whether to rescale actions from their bounds to [-1, 1], for a custom loop with
            a learner; see [`Dataset.rescale_actions`][jaxagents.data.Dataset.rescale_actions].
        seed: Seed for sampling.

    Returns:
        A dataset of `observations`, `actions`, `rewards`, `next_observations`, `masks` (0 where the
        episode terminated, else 1) and `ends` (whether the row is the last of its episode).

    Raises:
        FileNotFoundError: There is no such dataset on this machine.
        ValueError: The dataset is empty, its episodes do not fit together, or `rescale_actions` is set
            but the actions have no finite bounds.
        TypeError: A part of the dataset, such as a graph, is not an array.
        ImportError: Minari is not installed.
    """
    minari = require("minari", "minari")
    source = minari.load_dataset(dataset) if isinstance(dataset, str) else dataset
    space = getattr(source, "action_space", None)
    if rescale_actions and units.box_of(space) is None:
        raise ValueError(
            f"Only bounded continuous actions can be rescaled, not actions of {space}."
        )
    n_rows, start = source.total_steps, 0
    arrays: dict[str, np.ndarray] = {}
    for episode in source:
        for name, values in _columns(episode).items():
            arrays[name] = _with_room(arrays.get(name), name, values, n_rows, single_precision)
            arrays[name][start : start + len(episode)] = values
        start += len(episode)
    if not 0 < start == n_rows:
        raise ValueError(
            f"The Minari dataset {source.id!r} must have as many steps as it says, and at least "
            f"one: it says {n_rows}, and has {start}."
        )
    loaded = Dataset(rows.unflatten(arrays), seed, space)
    return loaded.rescale_actions() if rescale_actions else loaded


def _columns(episode: Any) -> dict[str, np.ndarray]:
    """The transitions of an episode, by name."""
    observed = _arrays("observations", episode.observations)
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
            raise TypeError(f"{name!r} does not consist of arrays of numbers or text.")
    return flat


def _in_dicts(nested: Any) -> PyTree:
    """Converts nested tuples to dicts."""
    if isinstance(nested, tuple):
        nested = {str(i): part for i, part in enumerate(nested)}
    if isinstance(nested, Mapping):
        return {key: _in_dicts(part) for key, part in nested.items()}
    return nested


def _with_room(
    array: np.ndarray | None, name: str, values: np.ndarray, n_rows: int, single_precision: bool
) -> np.ndarray:
    """The array for all rows, allocated or cast to a wider dtype so that it can hold the values."""
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


def to_minari(
    dataset: Dataset,
    dataset_id: str,
    *,
    env: Any = None,
    observation_space: Any = None,
    action_space: Any = None,
    **metadata: Any,
) -> Any:
    """Writes a dataset to Minari's local folder, split into episodes.

    Rows must be in time order. If the last row is not an end, its episode counts as truncated. Actions
    are converted from the dataset's units to `action_space`; apart from that,
    [`from_minari`][jaxagents.data.from_minari] reads the same arrays back. Only the keys that
    `from_minari` returns are written; images are stored losslessly unless `jpeg_encoding=True`.

    If the units of the dataset's actions are unknown, they are assumed to match `action_space`, with a
    warning if the actions may have been rescaled to [-1, 1].

    Args:
        dataset: Transitions, with the keys that `from_minari` returns.
        dataset_id: A new name, such as `"pendulum/expert-v0"`.
        env: The transitions' environment, its identifier or its specification.
        observation_space: Observation space; by default `env.observation_space`.
        action_space: Action space; by default `env.action_space`.
        **metadata: Additional arguments of `minari.create_dataset_from_buffers`: `author`,
            `author_email`, `algorithm_name`, `code_permalink`, `description`, `eval_env`, and so on.

    Returns:
        The `minari.MinariDataset`.

    Raises:
        KeyError: A key is missing.
        ValueError: The name is taken, a space is missing or does not match, the rows are not whole
            episodes in time order, or actions in unknown units lie in [-1, 1] but not in
            `action_space`.
        ImportError: Minari is not installed.
    """
    minari = require("minari", "minari")
    rows.check_has("Minari needs", _KEYS, dataset, "the dataset")
    spaces = _spaces(env, observation_space, action_space)
    dataset = _in_units_of(spaces["actions"], dataset)
    slices = _episodes(dataset)
    buffers = (_buffer(dataset.get_subset(episode), spaces) for episode in slices)
    minari_dataset = minari.create_dataset_from_buffers(
        dataset_id,
        [next(buffers)],
        env=env,
        observation_space=spaces["observations"],
        action_space=spaces["actions"],
        **{"jpeg_encoding": False, **metadata},
    )
    minari_dataset.storage.update_episodes(buffers)  # one by one, not all in memory
    return minari.load_dataset(dataset_id)


def _spaces(env: Any, observation_space: Any, action_space: Any) -> dict[str, Any]:
    if observation_space is None or action_space is None:
        if env is None:
            raise ValueError("Without env, pass both observation_space and action_space.")
        import gymnasium

        made_env = env if isinstance(env, gymnasium.Env) else gymnasium.make(env)
        observation_space = observation_space or made_env.observation_space
        action_space = action_space or made_env.action_space
    return {"observations": observation_space, "actions": action_space}


def _in_units_of(space: Any, dataset: Dataset) -> Dataset:
    """Converts a dataset's actions to the units of a space."""
    own, known, actions = units.box_of(space), dataset.action_space, dataset["actions"]
    if own is None or np.shape(actions)[1:] != own.shape:  # an error is raised later if it is wrong
        return dataset
    if known is None:
        units.check_units(actions, own, "the environment")
    if known in (None, own):
        return dataset
    actions = units.from_unit(dataset.rescale_actions()["actions"], space)
    return Dataset({**dataset, "actions": actions.astype(space.dtype)}, action_space=own)


def _in_space(space: Any, name: str, values: PyTree) -> PyTree:
    """Converts nested dicts of arrays to the dicts and tuples of a space."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        is_dict = isinstance(space, spaces.Dict)
        parts = space.spaces if is_dict else {str(i): part for i, part in enumerate(space.spaces)}
        if not isinstance(values, Mapping) or values.keys() != parts.keys():
            found = sorted(values) if isinstance(values, Mapping) else "an array"
            raise ValueError(f"{name!r} is {found}, but its space has {sorted(parts)}.")
        inside = {key: _in_space(parts[key], f"{name}/{key}", values[key]) for key in parts}
        return inside if is_dict else tuple(inside.values())
    if isinstance(values, Mapping):
        raise ValueError(f"{name!r} is a dict of {sorted(values)}, but its space is {space}.")
    if space.shape is not None and values.shape[1:] != space.shape:
        raise ValueError(f"{name!r} has shape {values.shape[1:]}, but its space is {space}.")
    return values.tolist() if isinstance(space, spaces.Text) else values


def _episodes(dataset: Dataset) -> list[slice]:
    """The rows of each episode; checks that episodes are whole and in time order."""
    if len(dataset) == 0:
        raise ValueError("The dataset has no rows to write.")
    ends = np.asarray(dataset["ends"], bool)
    rows.check_ends(dataset["masks"], ends)
    stops = [*(np.flatnonzero(ends[:-1]) + 1), len(dataset)]
    episodes = [slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
    observed = rows.flatten({"observations": dataset["observations"]})
    successors = rows.flatten({"observations": dataset["next_observations"]})
    for episode in episodes:
        for name, array in observed.items():
            following, has_nan = array[episode][1:], array.dtype.kind in "fc"
            if not np.array_equal(successors[name][episode][:-1], following, equal_nan=has_nan):
                raise ValueError(
                    f"Rows {episode.start} to {episode.stop - 1} are one episode by their 'ends', but "
                    f"'next_{name}' are not the {name!r} of the next rows: rows must be in the order of "
                    "time."
                )
    return episodes


def _buffer(episode: Dataset, spaces: Mapping[str, Any]) -> Any:
    """Converts an episode to Minari's format."""
    from minari.data_collector import EpisodeBuffer

    observed = rows.flatten({"observations": episode["observations"]})
    successors = rows.flatten({"observations": episode["next_observations"]})
    whole = {name: np.concatenate([x, successors[name][-1:]]) for name, x in observed.items()}
    observations = rows.unflatten(whole)["observations"]
    terminations = np.asarray(episode["masks"]) == 0
    truncations = np.zeros(len(episode), bool)
    truncations[-1] = not terminations[-1]
    return EpisodeBuffer(
        observations=_in_space(spaces["observations"], "observations", observations),
        actions=_in_space(spaces["actions"], "actions", episode["actions"]),
        rewards=episode["rewards"],
        terminations=terminations,
        truncations=truncations,  # pyright: ignore[reportArgumentType]
    )
