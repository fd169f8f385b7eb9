"""The metrics of trainings as their folders hold them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

_METRICS = "metrics.jsonl"
_SWEEP = "sweep"
COUNTERS = ("update_step", "step")
"""Names of the metric that counts the steps of an agent, or of a loop on the host."""
_MEMBER = ("set", "seed")


def read_folder(path: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The metrics of a training or a sweep, and what its sets of hyperparameters differ in.

    Args:
        path: The folder of a training or a sweep, or that in which there is only a sweep.

    Returns:
        The metrics, with a leading axis of points, or axes of sets, seeds and points; those of several
        actors have axes `(1, n_actors)` besides. And the hyperparameters of the sets, by name; empty
        if this is no sweep.

    Raises:
        FileNotFoundError: It holds no metrics.
        ValueError: They are not what a training writes.
    """
    path = path.expanduser()
    path = path.parent if path.name == _METRICS else path
    if not (path / _METRICS).exists() and (path / _SWEEP / _METRICS).exists():
        path = path / _SWEEP
    file = path / _METRICS
    if not file.exists():
        raise FileNotFoundError(
            f"{path} holds no {_METRICS}: give the checkpoint_dir of a training or a sweep."
        )
    lines = read_points(file)
    if not all(name in lines[0] for name in _MEMBER):
        return _with_actors(_columns(lines)), {}
    return _of_sweep(file, lines), _sets(path / "hyperparameters.json")


def read_points(file: Path) -> list[dict[str, Any]]:
    """The points in a file of metrics, in the order of their lines.

    Where a training began anew, or went on from an earlier point, the later points that were made before
    are left out, and so are lines that a kill has cut off.

    Raises:
        ValueError: There are none yet, or a line is not what a training writes.
    """
    lines = enumerate(_lines(file), 1)
    points = [_line(file, number, line) for number, line in lines if not _is_cut_off(line)]
    if not points:
        raise ValueError(f"{file} holds no points yet.")
    return _of_the_last_training(points)


def _lines(file: Path) -> list[str]:
    """The lines that were written whole: a training may be writing the next one."""
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def _is_cut_off(line: str) -> bool:
    """Whether a line begins as trainings write them, and does not end so."""
    return line[:2] in ("{", '{"') and not line.endswith("}")


def _line(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file}: line {number} is not JSON: {line[:60]!r}.") from error
    if not (isinstance(found, dict) and any(name in found for name in COUNTERS)):
        raise ValueError(f"{file}: line {number} is not a point of a training: {line[:60]!r}.")
    return found


def _of_the_last_training(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points of each member after which it never went back, to an earlier step or to the same."""
    kept: list[dict[str, Any]] = []
    next_steps: dict[tuple[Any, ...], float] = {}
    for point in reversed(points):
        member = tuple(point.get(name) for name in _MEMBER)
        step = next(point[name] for name in COUNTERS if name in point)
        if step < next_steps.get(member, np.inf):
            kept.append(point)
            next_steps[member] = step
    return kept[::-1]


def _columns(points: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Numbers by name, one for each point."""
    names = dict.fromkeys(name for point in points for name in point)
    return {name: np.array([_number(point.get(name)) for point in points]) for name in names}


def _number(value: object) -> float:
    """A number as the logger writes it: NaN as `null`, infinity as a word."""
    return np.nan if value is None else float(value)  # pyright: ignore[reportArgumentType]


def _with_actors(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Replaces each mean by the stack of its columns `name/0`, `name/1`, ..."""
    whole = dict(columns)
    for name in columns:
        of_actors = [f"{name}/{i}" for i in range(len(columns)) if f"{name}/{i}" in columns]
        if of_actors:
            stack = np.stack([whole.pop(actor) for actor in of_actors], axis=-1)
            whole[name] = stack[:, None]
    return whole


def _of_sweep(file: Path, lines: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    members: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for line in lines:
        point = {name: value for name, value in line.items() if name not in _MEMBER}
        members.setdefault((line["set"], line["seed"]), []).append(point)
    columns = {member: _with_actors(_columns(members[member])) for member in sorted(members)}
    n_points = min(len(next(iter(column.values()))) for column in columns.values())
    n_sets, n_seeds = (1 + max(member[axis] for member in members) for axis in (0, 1))
    if len(members) != n_sets * n_seeds:
        raise ValueError(f"{file} lacks members of the sweep: wait until its first point is done.")
    first = next(iter(columns.values()))
    stacks = {
        name: np.stack([column[name][:n_points] for column in columns.values()]) for name in first
    }
    return {
        name: stack.reshape(n_sets, n_seeds, *stack.shape[1:]) for name, stack in stacks.items()
    }


def _sets(file: Path) -> dict[str, Float[np.ndarray, "n_sets"]]:
    if not file.exists():
        return {}
    return dict(_flat(json.loads(file.read_text(encoding="utf-8"))))


def _flat(
    tree: Mapping[str, Any], prefix: str = "", separator: str = "."
) -> list[tuple[str, np.ndarray]]:
    """Numbers of all sets by name, those of schedules with spaces, as in `learning_rate initial`."""
    pairs: list[tuple[str, np.ndarray]] = []
    for name, value in tree.items():
        if isinstance(value, list) and all(isinstance(part, list) for part in value):
            value = {str(i): part for i, part in enumerate(value)}  # as a PiecewiseSchedule has
        if isinstance(value, Mapping):
            within = " " if "schedule" in value else separator
            pairs += _flat(value, f"{prefix}{name}{within}", within)
        elif isinstance(value, list):
            pairs.append((prefix + name, np.array([_number(number) for number in value])))
    return pairs
