"""Learning curves of runs, read from their metrics."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxagents.cli.mistakes import MistakeError, told_in_a_line
from jaxagents.cli.runs import FILE, Run
from jaxagents.cli.values import differences, in_words


class Curve(NamedTuple):
    """A metric of a run, or of one set of a sweep.

    Attributes:
        label: Its name in the legend, if it is not alone.
        metrics: `update_step` (or `step`) and the metric, of a sweep with an axis of seeds.
        steps_per_update: Environment steps of an update, if they are known.
    """

    label: str | None
    metrics: dict[str, Any]
    steps_per_update: int | None


def curves_of(folder: Path, metric: str) -> list[Curve]:
    """The curves of a folder.

    Args:
        folder: Folder of a training or of a sweep, of the command line or not.
        metric: The metric.

    Returns:
        A curve for each set of hyperparameters.

    Raises:
        MistakeError: The folder holds no metrics, or not this one.
    """
    places = folder / "metrics.jsonl", folder / "sweep" / "metrics.jsonl"
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise MistakeError(f"{folder} holds no metrics.jsonl, to which trainings write.")
    from jaxagents.plotting.folders import read_points

    with told_in_a_line():
        lines = read_points(path)
    known = sorted(
        {name for line in lines for name in line} - {"update_step", "step", "set", "seed"}
    )
    if metric not in known:
        raise MistakeError(f"{path} has no metric '{metric}'; there are: {', '.join(known)}.")
    run = Run.read(folder) if (folder / FILE).is_file() else None
    per_update = None if run is None else run.steps_per_update
    name = folder.resolve().name
    if not any("set" in line for line in lines):
        return [Curve(name, _columns(lines, metric), per_update)]
    words = [f"set {i}" for i in range(1 + max(line["set"] for line in lines))]
    if run is not None:
        words = [in_words(values) for values in differences(run.hyperparams)]
    return [
        Curve(
            f"{name}, {label}" if label else name,
            _columns([line for line in lines if line["set"] == i], metric),
            per_update,
        )
        for i, label in enumerate(words)
    ]


def draw(curves: Sequence[Curve], path: Path, metric: str = "returns", title: str = "") -> None:
    """Draws curves into one picture, over environment steps if these are known of all.

    Args:
        curves: The curves.
        path: File of the picture.
        metric: The metric that they show.
        title: The title.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from jaxagents.plotting import plot_learning_curve

    in_steps = all(curve.steps_per_update for curve in curves)
    axes = None
    for number, curve in enumerate(curves, start=1):
        axes = plot_learning_curve(
            curve.metrics,
            path if number == len(curves) else None,
            metric=metric,
            steps_per_update=curve.steps_per_update if in_steps else None,
            title=title,
            label=curve.label,
            ax=axes,
        )
    import matplotlib.pyplot as plt

    plt.close("all")


def _columns(lines: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """The counter and the metric of lines, of which the last of each step and seed counts."""
    counter = "update_step" if "update_step" in lines[0] else "step"
    values = {
        (line[counter], line.get("seed")): float(
            "nan" if line.get(metric) is None else line[metric]
        )
        for line in lines
    }
    steps = sorted({step for step, _ in values})
    seeds = sorted({seed for _, seed in values}, key=str)
    table = np.array([[values.get((step, seed), np.nan) for seed in seeds] for step in steps])
    return {counter: np.array(steps), metric: table[:, 0] if seeds == [None] else table}
