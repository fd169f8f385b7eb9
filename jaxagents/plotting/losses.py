"""Losses, gradient norms and the like, in small panels."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxagents.core.extras import require
from jaxagents.plotting.drawing import draw_line, draw_runs, finish, in_words, name_steps, save
from jaxagents.plotting.trainings import Source, Trainings, read_trainings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OF_EPISODES = ("return", "reward", "length", "terminated", "truncated", "episode")
_ORDER = ("loss", "norm", "entropy", "kl")
_N_COLUMNS = 3
_N_IN_ROW = 2
_INCHES_PER_ROW = 0.22
"""Of the legend, in which so many sets are side by side."""


def plot_losses(
    metrics: Source,
    path: str | os.PathLike | None = None,
    *,
    names: str | Sequence[str] | None = None,
    steps_per_update: int | None = None,
    title: str | None = None,
) -> list["Axes"]:
    """Draws the losses, gradient norms, entropy, KL divergence and all else that updates report.

    Each has a small panel. Of several runs it draws the inter-quartile mean in its 95 % bootstrap
    interval; of a sweep, that of each set of hyperparameters.

    Args:
        metrics: Trainings, as [`plot_learning_curve`][jaxagents.plotting.plot_learning_curve] takes
            them.
        path: File to save the picture to; of several processes, the first one does.
        names: Names of the metrics, or of one; by default all that are not of episodes.
        steps_per_update: Environment steps of an agent's update, for an axis that counts these.
        title: Title of the figure.

    Returns:
        The axes of the panels. Nothing is shown.

    Raises:
        KeyError: The metrics hold no such metric.
        TypeError: `metrics` is something else, or `steps_per_update` no integer.
        ValueError: There are no such numbers, or `steps_per_update` is not positive.
        FileNotFoundError: A folder holds no metrics.
        ImportError: matplotlib is not installed.
    """
    trainings = read_trainings(metrics)
    names = [names] if isinstance(names, str) else names
    chosen = _reported(trainings) if names is None else list(names)
    if not chosen:
        raise ValueError(
            f"There are no losses other than NaN: there are {', '.join(trainings.metrics)}."
        )
    x = trainings.steps_in(steps_per_update)
    series = [trainings.values(name).mean(axis=(3, 4)) for name in chosen]
    n_sets, n_runs = trainings.shape
    figure, panels = _panels(len(chosen), n_in_legend=n_sets if n_sets > 1 else 0)
    for axes, name, values in zip(panels, chosen, series, strict=True):
        _draw_panel(axes, x, values, trainings.labels)
        finish(axes, name.replace("_", " "))
        name_steps(axes, "environment steps" if steps_per_update else trainings.unit)
    if n_sets > 1:
        handles, labels = panels[0].get_legend_handles_labels()
        where = "outside lower center"
        figure.legend(
            handles, labels, loc=where, ncols=_N_IN_ROW, frameon=False, title=in_words(n_runs)
        )
    words = in_words(n_runs) if n_runs > 1 and n_sets == 1 else ""
    figure.suptitle("\n".join(filter(None, [title, words])))
    save(panels[0], path)
    return panels


def _reported(trainings: Trainings) -> list[str]:
    """The metrics of updates, the most telling first."""
    names = [
        name
        for name in trainings.metrics
        if name != trainings.counter
        and not trainings.has_episodes(name)
        and not any(word in name for word in _OF_EPISODES)
        and not np.isnan(trainings.values(name)).all()
    ]

    def rank(name: str) -> tuple[int, str]:
        return next((i for i, word in enumerate(_ORDER) if word in name), len(_ORDER)), name

    return sorted(names, key=rank)


def _panels(number: int, n_in_legend: int) -> tuple["Figure", list["Axes"]]:
    """Panels of one size, in a figure that has room for a legend below them."""
    n_columns = min(_N_COLUMNS, number)
    n_rows = -(-number // n_columns)
    plt = require("matplotlib.pyplot", "jaxagents[plot]")
    figure, grid = plt.subplots(
        n_rows,
        n_columns,
        figsize=(
            3.2 * n_columns,
            0.4 + 2.1 * n_rows + _INCHES_PER_ROW * (n_in_legend // _N_IN_ROW),
        ),
        layout="constrained",
        squeeze=False,
    )
    for axes in grid.flat[number:]:
        axes.remove()
    return figure, list(grid.flat[:number])


def _draw_panel(axes: "Axes", x: np.ndarray, values: np.ndarray, labels: list[str]) -> None:
    for of_set, label in zip(values, labels, strict=True):
        if len(of_set) == 1:
            draw_line(axes, x, of_set[0], label)
        else:
            draw_runs(axes, x, of_set, label)
