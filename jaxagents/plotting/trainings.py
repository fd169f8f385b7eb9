"""Metrics of runs, read from any source into one form."""

import functools
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, PyTree

from jaxagents.core.describe import to_json
from jaxagents.core.numbers import positive

_METRICS = "metrics.jsonl"
_COUNTERS = ("update_step", "step")
"""Step counters of agents, and of custom loops."""
_MEMBER = ("set", "seed")
_LEADING = 3
"""Number of the axes of sets, runs and points."""


@runtime_checkable
class SweepLike(Protocol):
    """Result of a sweep: runners and metrics with leading axes of sets and seeds."""

    @property
    def runners(self) -> PyTree:
        """Runners, which hold their hyperparameters."""
        ...

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Metrics."""
        ...


Source: TypeAlias = Mapping[str, Any] | SweepLike | str | os.PathLike | Sequence["Source"]
"""Metrics of one run, of seeds trained under `jax.vmap`, or of a sweep; the result of `sweep`; the
folder (`checkpoint_dir`) of a run or a sweep; or a list of these, for several runs of one experiment."""


class Trainings(NamedTuple):
    """Metrics of runs with one or more sets of hyperparameters.

    Attributes:
        metrics: Arrays shaped `(sets, runs, points, ...)`.
        counter: Name of the step counter.
        labels: A label for each set, with the values that differ.
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

    def axis(self, steps_per_update: int | None) -> tuple[np.ndarray, str]:
        """The steps of the points and their unit; environment steps if their number per update is given.

        Raises:
            TypeError: `steps_per_update` is not an integer.
            ValueError: It is not positive.
        """
        if steps_per_update is None:
            return self.steps, "update steps" if self.counter == "update_step" else "steps"
        return self.steps * positive("steps_per_update", steps_per_update), "environment steps"

    def has_episodes(self, name: str) -> bool:
        """Whether a metric has an axis of episodes."""
        return self.metrics[name].ndim > _LEADING

    def values(self, name: str) -> Float[np.ndarray, "sets runs points episodes actors"]:
        """A metric with all five axes, of length one where it has none.

        Raises:
            KeyError: There is no such metric.
        """
        if name not in self.metrics:
            raise KeyError(f"There is no metric '{name}'; there are {', '.join(self.metrics)}.")
        values = np.asarray(self.metrics[name], float)
        n_episodes = values.shape[_LEADING] if self.has_episodes(name) else 1
        return values.reshape(*values.shape[:_LEADING], n_episodes, -1)


def read_trainings(source: Source) -> Trainings:
    """Reads the metrics of runs from any source.

    Args:
        source: Metrics, a sweep, a folder, or a list of them.

    Returns:
        The metrics.

    Raises:
        FileNotFoundError: A folder holds no metrics.
        TypeError: The source has the wrong type.
        ValueError: The metrics have no points or no step counter, or runs have no points in common or
            different numbers of actors.
    """
    if isinstance(source, Mapping):
        return _of_metrics(source, {})
    if isinstance(source, str | os.PathLike):
        return _of_folder(Path(source).expanduser())
    if isinstance(source, SweepLike):
        hyperparams = getattr(source.runners, "hyperparams", {})
        sets = to_json(jax.tree.map(lambda x: np.asarray(x)[:, 0], hyperparams))
        return _of_metrics(source.metrics, sets)
    if isinstance(source, Sequence) and len(source):
        return _joined([read_trainings(run) for run in source])
    raise TypeError(
        "Pass metrics as train returns them, the result of a sweep, the folder of a run, or a "
        f"list of these, got {'nothing' if source == [] else type(source).__name__}."
    )


def _of_metrics(metrics: Mapping[str, Any], sets: Mapping[str, Any]) -> Trainings:
    """Creates `Trainings` from metrics and the hyperparameters of all sets in JSON form."""
    counter = next((name for name in _COUNTERS if name in metrics), None)
    if counter is None:
        raise ValueError(
            "Metrics must hold 'update_step' or 'step', as train returns them, got "
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
    return Trainings(arrays, counter, labels_of(_flat(sets), len(arrays[counter])))


def _joined(runs: list[Trainings]) -> Trainings:
    """Stacks the runs of one experiment, at the points that all have."""
    first, *others = runs
    if not others:
        return first
    if any(run.shape[0] > 1 for run in runs):
        raise ValueError(
            "A list holds the runs of one experiment, but this one has a sweep with several "
            "sets of hyperparameters: plot it by itself, or on the same axes (ax=...)."
        )
    counters = dict.fromkeys(run.counter for run in runs)
    if len(counters) > 1:
        raise ValueError(f"Runs must all count {' or all '.join(map(repr, counters))}.")
    common = functools.reduce(np.intersect1d, [run.steps for run in runs])
    if not len(common):
        raise ValueError("Runs of one experiment need evaluation points at the same steps.")
    joined = {}
    for name in first.metrics:
        if all(name in run.metrics for run in others):
            parts = [_means(run, name)[:, :, np.searchsorted(run.steps, common)] for run in runs]
            joined[name] = np.concatenate(parts, axis=1)
    return first._replace(metrics=joined)


def _means(run: Trainings, name: str) -> np.ndarray:
    """Means over episodes; with several actors, the axis of episodes stays, of length one."""
    values = run.metrics[name]
    n_axes = values.ndim - _LEADING
    return values.mean(axis=_LEADING, keepdims=n_axes > 1) if n_axes else values


def _of_folder(path: Path) -> Trainings:
    """Creates `Trainings` from the folder of a run or a sweep, or the parent folder of a sweep."""
    path = path.parent if path.name == _METRICS else path
    if not (path / _METRICS).exists() and (path / "sweep" / _METRICS).exists():
        path = path / "sweep"
    file = path / _METRICS
    if not file.exists():
        raise FileNotFoundError(
            f"{path} holds no {_METRICS}: pass the checkpoint_dir of a run or a sweep."
        )
    members: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for point in read_points(file):
        members.setdefault(tuple(point.pop(name, None) for name in _MEMBER), []).append(point)
    columns = [_columns(members[member]) for member in sorted(members)]
    if members.keys() == {(None, None)}:
        return _of_metrics(columns[0], {})
    n_sets, n_seeds = (1 + max(member[axis] for member in members) for axis in (0, 1))
    if len(members) != n_sets * n_seeds:
        raise ValueError(f"{file} lacks members of the sweep: wait until its first point is done.")
    n_points = min(len(next(iter(column.values()))) for column in columns)
    metrics = {}
    for name, first in columns[0].items():
        stack = np.stack([column[name][:n_points] for column in columns])
        metrics[name] = stack.reshape(n_sets, n_seeds, n_points, *first.shape[1:])
    sets = path / "hyperparameters.json"
    return _of_metrics(metrics, json.loads(sets.read_text("utf-8")) if sets.exists() else {})


def read_points(file: Path) -> list[dict[str, Any]]:
    """The evaluation points in a file of metrics, in order.

    Points that a run abandoned when it restarted, or resumed from an earlier point, are left out, as are
    lines cut off by a kill, and a last line that is still being written.

    Raises:
        ValueError: There are no points yet, or a line is not a point.
    """
    points = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1], 1):
        if line[:2] in ("{", '{"') and not line.endswith("}"):
            continue
        try:
            point = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{file}: line {number} is not JSON: {line[:60]!r}.") from error
        if not (isinstance(point, dict) and any(name in point for name in _COUNTERS)):
            raise ValueError(f"{file}: line {number} is not an evaluation point: {line[:60]!r}.")
        points.append(point)
    if not points:
        raise ValueError(f"{file} holds no points yet.")
    kept = []
    next_steps: dict[tuple[Any, ...], float] = {}
    for point in reversed(points):
        member = tuple(point.get(name) for name in _MEMBER)
        step = next(point[name] for name in _COUNTERS if name in point)
        if step < next_steps.get(member, np.inf):
            kept.append(point)
            next_steps[member] = step
    return kept[::-1]


def _columns(points: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Metrics by name, shaped `(points,)`.

    `name/0`, `name/1`, ... of several actors are stacked to `(points, 1, n_actors)` and replace `name`.
    """
    names = dict.fromkeys(name for point in points for name in point)
    columns = {name: np.array([_number(point.get(name)) for point in points]) for name in names}
    for name in names:
        possible = (f"{name}/{i}" for i in itertools.count())
        if actors := list(itertools.takewhile(columns.__contains__, possible)):
            columns[name] = np.stack([columns.pop(actor) for actor in actors], axis=-1)[:, None]
    return columns


def _number(value: Any) -> float:
    """A number from JSON, where NaN is `null` and infinity is a string."""
    return np.nan if value is None else float(value)


def _flat(
    tree: Mapping[str, Any], prefix: str = "", separator: str = "."
) -> dict[str, Float[np.ndarray, "n_sets"]]:
    """Hyperparameters of all sets by full name, such as `optimizer.eps` or `learning_rate initial`."""
    flat = {}
    for name, value in tree.items():
        if isinstance(value, list) and all(isinstance(part, list) for part in value):
            value = {str(i): part for i, part in enumerate(value)}  # of a PiecewiseSchedule
        if isinstance(value, Mapping):
            within = " " if "schedule" in value else separator
            flat |= _flat(value, f"{prefix}{name}{within}", within)
        elif isinstance(value, list):
            flat[prefix + name] = np.array([_number(number) for number in value])
    return flat


def labels_of(sets: Mapping[str, Float[np.ndarray, "n_sets"]], n_sets: int) -> list[str]:
    """A label for each set of hyperparameters, such as `learning_rate 0.001, ent_coeff 0.01`.

    Hyperparameters with equal values in each set, such as two learning rates, share a name.

    Args:
        sets: Values by full name; empty if unknown.
        n_sets: Number of sets.

    Returns:
        The labels; `set 0`, `set 1`, ... if the sets do not differ.
    """
    columns: dict[tuple[str, ...], list[str]] = {}
    for name, values in sets.items():
        texts = _texts(np.broadcast_to(values, n_sets))
        if len(set(texts)) > 1:
            columns.setdefault(texts, []).append(name)
    if not columns:
        return [f"set {number}" for number in range(n_sets)]
    short = [
        " and ".join(dict.fromkeys(name.split(".")[-1] for name in names))
        for names in columns.values()
    ]
    are_clear = len(set(short)) == len(short)
    titles = short if are_clear else [" and ".join(names) for names in columns.values()]
    return [
        ", ".join(f"{title} {texts[number]}" for title, texts in zip(titles, columns, strict=True))
        for number in range(n_sets)
    ]


def _texts(values: Float[np.ndarray, "n_sets"]) -> tuple[str, ...]:
    """Numbers with three digits, or more if three do not distinguish them."""
    numbers = [float(str(np.float32(value))) for value in values]
    short = tuple(f"{number:.3g}" for number in numbers)
    if len(set(short)) == len(set(numbers)):
        return short
    return tuple(f"{number:.9g}" for number in numbers)
