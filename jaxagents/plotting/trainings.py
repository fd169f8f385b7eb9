"""Trainings in whatever form they come, brought into one."""

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, PyTree

from jaxagents.core.numbers import positive
from jaxagents.core.schedules import Schedule
from jaxagents.plotting.folders import COUNTERS, read_folder
from jaxagents.plotting.labels import labels_of

_LEADING = 3
"""Number of the axes of sets, runs and points."""


@runtime_checkable
class Sweep(Protocol):
    """The result of a sweep: runners and metrics with leading axes of sets and seeds."""

    @property
    def runners(self) -> PyTree:
        """Runners, which hold their hyperparameters."""
        ...

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Metrics."""
        ...


Source: TypeAlias = Mapping[str, Any] | Sweep | str | os.PathLike | Sequence["Source"]
"""Metrics of one training, of seeds that `jax.vmap` trained, or of a sweep; what `sweep` returned; a
folder (`checkpoint_dir`) of a training or a sweep; or a list of such trainings, which are the runs of
one experiment."""


class Trainings(NamedTuple):
    """Metrics of trainings: of every set of hyperparameters, so many runs.

    Attributes:
        metrics: Arrays shaped `(sets, runs, points, ...)`.
        counter: Name of the metric that counts the steps.
        labels: What tells the sets apart, in words.
    """

    metrics: dict[str, np.ndarray]
    counter: str
    labels: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of sets and of runs."""
        n_sets, n_runs, *_ = self.metrics[self.counter].shape
        return n_sets, n_runs

    @property
    def steps(self) -> np.ndarray:
        """The steps of the points."""
        return self.metrics[self.counter][0, 0]

    def steps_in(self, steps_per_update: int | None) -> np.ndarray:
        """The steps of the points, or as many environment steps.

        Raises:
            TypeError: `steps_per_update` is not an integer.
            ValueError: It is not positive.
        """
        if steps_per_update is None:
            return self.steps
        return self.steps * positive("steps_per_update", steps_per_update)

    @property
    def unit(self) -> str:
        """That of the steps; of the loops on the host, only the online one plays episodes."""
        if self.counter == "update_step":
            return "update steps"
        return "environment steps" if "episode_return" in self.metrics else "updates"

    def has_episodes(self, name: str) -> bool:
        """Whether there are numbers of several episodes for each point."""
        return self.metrics[name].ndim > _LEADING

    def values(self, name: str) -> Float[np.ndarray, "sets runs points episodes actors"]:
        """A metric, with axes of length one where it has none.

        Raises:
            KeyError: There is no such metric.
        """
        if name not in self.metrics:
            raise KeyError(f"There is no metric '{name}'; there are {', '.join(self.metrics)}.")
        values = np.asarray(self.metrics[name], float)
        n_episodes = values.shape[_LEADING] if self.has_episodes(name) else 1
        return values.reshape(*values.shape[:_LEADING], n_episodes, -1)


def read_trainings(source: Source) -> Trainings:
    """Trainings in whatever form they come.

    Args:
        source: Metrics, a sweep, a folder, or a list of them.

    Returns:
        The trainings.

    Raises:
        FileNotFoundError: A folder holds no metrics.
        TypeError: It is something else.
        ValueError: The metrics hold no points or count no steps, or runs have no points or not the same
            actors in common.
    """
    if isinstance(source, Mapping):
        return _of_metrics(source, {})
    if isinstance(source, str | os.PathLike):
        return _of_metrics(*read_folder(Path(source)))
    if isinstance(source, Sweep):
        return _of_metrics(source.metrics, _sets_of(source.runners))
    if isinstance(source, Sequence) and len(source):
        return functools.reduce(_join, [read_trainings(run) for run in source])
    raise TypeError(
        "Needed are metrics as train returns them, the outcome of a sweep, the folder of a training, "
        f"or a list of these, got {'nothing' if source == [] else type(source).__name__}."
    )


def _of_metrics(metrics: Mapping[str, Any], sets: Mapping[str, np.ndarray]) -> Trainings:
    counter = next((name for name in COUNTERS if name in metrics), None)
    if counter is None:
        raise ValueError(
            "Metrics must hold 'update_step' or 'step', as those of train do, got "
            f"{', '.join(metrics) or 'none'}."
        )
    n_axes = np.ndim(metrics[counter])
    if not 1 <= n_axes <= _LEADING:
        raise ValueError(
            f"'{counter}' must be shaped (points,), (seeds, points) or (sets, seeds, points), got "
            f"shape {np.shape(metrics[counter])}."
        )
    if not np.size(metrics[counter]):
        raise ValueError(
            f"There are no points to draw yet: '{counter}' has shape {np.shape(metrics[counter])}."
        )
    arrays = {
        name: np.asarray(values)[(None,) * (_LEADING - n_axes)]
        for name, values in metrics.items()
        if not isinstance(values, Mapping)
    }
    n_sets = len(arrays[counter])
    return Trainings(arrays, counter, labels_of(sets, n_sets))


def _sets_of(runners: PyTree) -> dict[str, np.ndarray]:
    """The hyperparameters of each set of a sweep, by name, as a folder names them."""
    hyperparams, _ = jax.tree_util.tree_flatten_with_path(
        getattr(runners, "hyperparams", {}), is_leaf=lambda x: isinstance(x, Schedule)
    )
    return {
        f"{_name(path, '.')} {_name(within, ' ')}".rstrip(): np.asarray(leaf)[:, 0]
        for path, hyperparam in hyperparams
        for within, leaf in jax.tree_util.tree_leaves_with_path(hyperparam)
    }


def _name(path: tuple, separator: str) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=separator)


def _join(one: Trainings, other: Trainings) -> Trainings:
    """The runs of both, at the points that both have."""
    if one.shape[0] > 1 or other.shape[0] > 1:
        raise ValueError(
            "A list holds the runs of one experiment, got a sweep with several sets of "
            "hyperparameters in it: draw that by itself, or on the same axes (ax=...)."
        )
    if one.counter != other.counter:
        raise ValueError(f"Runs count either '{one.counter}' or '{other.counter}', and not both.")
    common = np.intersect1d(one.steps, other.steps)
    if not len(common):
        raise ValueError("Runs of one experiment need evaluation points at the same steps.")
    parts = [_at(trainings, common) for trainings in (one, other)]
    names = [name for name in parts[0] if name in parts[1]]
    for name in names:
        n_actors = [int(np.prod(part[name].shape[_LEADING:])) for part in parts]
        if n_actors[0] != n_actors[1]:
            raise ValueError(
                f"Runs of one experiment have as many actors, got '{name}' of {n_actors[0]} and of "
                f"{n_actors[1]}: draw each by itself, or on the same axes (ax=...)."
            )
    joined = {name: np.concatenate([part[name] for part in parts], axis=1) for name in names}
    return Trainings(joined, one.counter, one.labels)


def _at(trainings: Trainings, steps: np.ndarray) -> dict[str, np.ndarray]:
    """The means over the episodes at some points."""
    here = np.searchsorted(trainings.steps, steps)
    metrics = {name: values[:, :, here] for name, values in trainings.metrics.items()}
    return {name: _mean_of_episodes(values) for name, values in metrics.items()}


def _mean_of_episodes(values: np.ndarray) -> np.ndarray:
    """The mean over episodes, which only the metrics of several actors keep as an axis."""
    n_axes = values.ndim - _LEADING
    return values if not n_axes else values.mean(axis=_LEADING, keepdims=n_axes > 1)
