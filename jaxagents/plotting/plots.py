"""Learning curves, losses, and the results of sweeps."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from jaxagents.core.extras import require
from jaxagents.plotting.drawing import (
    COLOURS,
    EXTRA,
    colours_on,
    draw_curve,
    draw_runs,
    finish,
    in_words,
    inter_quartile_mean,
    middle_mean,
    name_steps,
    new_axes,
    save,
)
from jaxagents.plotting.trainings import Source, Trainings, read_trainings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OF_EPISODES = ("return", "reward", "length", "terminated", "truncated", "episode")
_ORDER = ("loss", "norm", "entropy", "kl")
_N_COLUMNS = 3
_N_IN_ROW = 2
_INCHES_PER_ROW = 0.22
"""Height of a legend row in `plot_losses`, with two sets per row."""
_INCHES_PER_SET = 0.32


def plot_learning_curve(
    metrics: Source,
    path: str | os.PathLike | None = None,
    *,
    metric: str = "returns",
    steps_per_update: int | None = None,
    title: str | None = None,
    label: str | None = None,
    x_label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plots a metric over the steps of one run, several runs, or a sweep.

    One run: the mean over episodes, with a band from the 10th to the 90th percentile. A metric with one
    value per point, such as a loss, is drawn as a line without a band; NaNs are skipped.

    Several runs: each run is averaged over its episodes, and the curve is the inter-quartile mean over
    runs with its 95% bootstrap interval, at the points where all runs are finite.

    A sweep: such a curve for each set of hyperparameters. The six best sets at the last point are
    in colour, the others in grey.

    ```python
    plot_learning_curve(metrics, "one.png")
    runs = ["runs/1", "runs/2", "runs/3"]
    plot_learning_curve(runs, "three_runs.svg", label="PPO")
    plot_learning_curve(agent.sweep(keys, hyperparams), "sweep.png")
    ```

    Args:
        metrics: Metrics from `train`, or from seeds trained under `jax.vmap`, with seeds along the
            first axis; the result of `sweep`; the folder of a run or a sweep, which only contains means
            over episodes; or a list of runs.
        path: File to save the plot to. Only the first process writes it.
        metric: Name of a metric, of shape `(points,)`, `(points, episodes)` or
            `(points, episodes, n_actors)` in each run.
        steps_per_update: Environment steps per update (`batch_size * rollout_length`). Without it, the x
            axis shows the steps that the metrics count.
        title: Title.
        label: Name of the curve in the legend. Curves of several actors are numbered, and curves of a
            sweep are named after their hyperparameters. By default, the name says what the curve shows.
        x_label: Label of the x axis. The default is the unit of the steps: `update steps`, or
            `environment steps` with `steps_per_update`.
        ax: Axes to draw on, for example to add a curve to another plot; by default, new ones.

    Returns:
        The axes. Call `matplotlib.pyplot.show()` to show them.

    Raises:
        KeyError: There is no such metric.
        TypeError: `metrics` has the wrong type, or `steps_per_update` is not an integer.
        ValueError: The metrics have no points or no step counter, `steps_per_update` is not positive, or
            runs have no evaluation points in common, or have different numbers of actors.
        FileNotFoundError: A folder holds no metrics.
        ImportError: matplotlib is not installed.
    """
    trainings = read_trainings(metrics)
    values = trainings.values(metric)
    x, unit = trainings.axis(steps_per_update)
    axes = new_axes() if ax is None else ax
    n_sets, n_runs = trainings.shape
    if n_sets > 1:
        _draw_sets(axes, x, values.mean(axis=3), trainings.labels)
    elif n_runs > 1:
        for of_actor, name in _actors(values[0].mean(axis=2), label or in_words(n_runs)):
            draw_runs(axes, x, of_actor, name)
    elif trainings.has_episodes(metric):
        for of_actor, name in _actors(values[0, 0], label or "mean of the episodes"):
            low, high = np.quantile(of_actor, [0.1, 0.9], axis=1)
            draw_curve(axes, x, of_actor.mean(axis=1), name, (low, high))
    else:
        draw_runs(axes, x, values[0, ..., 0, 0], label or metric.replace("_", " "))
    name_steps(axes, x_label or unit)
    axes.set_ylabel(metric.replace("_", " "))
    finish(axes, title)
    legend_title = f"{label or ''}\n{in_words(n_runs)}".strip() if n_sets > 1 else None
    axes.legend(frameon=False, title=legend_title)
    save(axes, path)
    return axes


def _draw_sets(
    axes: "Axes",
    x: np.ndarray,
    values: Float[np.ndarray, "sets runs points actors"],
    labels: list[str],
) -> None:
    """Draws the sets of a sweep in their order, the best ones in colour, the others in grey."""
    last = [middle_mean(of_set[:, -1].mean(axis=-1)) for of_set in values]
    order = np.argsort(-np.nan_to_num(last, nan=-np.inf), kind="stable")
    for number in sorted(order[: len(COLOURS)]):
        for of_actor, name in _actors(values[number], labels[number]):
            draw_runs(axes, x, of_actor, name)
    others = sorted(order[len(COLOURS) :])
    for number in others:
        means = values[number].mean(axis=-1)
        known = np.isfinite(means).all(axis=0)
        name = f"{len(others)} other sets" if number == others[0] else "_"
        look = {"color": "grey", "alpha": 0.5, "linewidth": 0.8}
        draw_curve(axes, x[known], middle_mean(means[:, known]), name, **look)


def _actors(
    values: Float[np.ndarray, "*axes actors"], label: str
) -> Iterator[tuple[np.ndarray, str]]:
    """The values of each actor, and its name in the legend."""
    n_actors = values.shape[-1]
    for actor in range(n_actors):
        yield values[..., actor], f"{label}, actor {actor}" if n_actors > 1 else label


def plot_losses(
    metrics: Source,
    path: str | os.PathLike | None = None,
    *,
    names: str | Sequence[str] | None = None,
    steps_per_update: int | None = None,
    title: str | None = None,
) -> list["Axes"]:
    """Plots losses, gradient norms, entropy, KL divergence and other metrics of updates in small panels.

    Several runs: the inter-quartile mean with its 95% bootstrap interval. A sweep: a curve for each set
    of hyperparameters.

    Args:
        metrics: Metrics, in any form that
            [`plot_learning_curve`][jaxagents.plotting.plot_learning_curve] takes.
        path: File to save the plot to. Only the first process writes it.
        names: Names of the metrics, or one name; by default all metrics of updates.
        steps_per_update: Environment steps per update, for an x axis in environment steps.
        title: Title of the figure.

    Returns:
        The axes of the panels.

    Raises:
        KeyError: There is no such metric.
        TypeError: `metrics` has the wrong type, or `steps_per_update` is not an integer.
        ValueError: There are no metrics of updates, or `steps_per_update` is not positive.
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
    x, unit = trainings.axis(steps_per_update)
    series = [trainings.values(name).mean(axis=(3, 4)) for name in chosen]
    n_sets, n_runs = trainings.shape
    figure, panels = _panels(len(chosen), n_in_legend=n_sets if n_sets > 1 else 0)
    for axes, name, values in zip(panels, chosen, series, strict=True):
        for of_set, label in zip(values, trainings.labels, strict=True):
            draw_runs(axes, x, of_set, label)
        finish(axes, name.replace("_", " "))
        name_steps(axes, unit)
    if n_sets > 1:
        look = {"loc": "outside lower center", "ncols": _N_IN_ROW, "frameon": False}
        figure.legend(*panels[0].get_legend_handles_labels(), title=in_words(n_runs), **look)
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
    """Equal panels, in a figure with room for a legend below them."""
    n_columns = min(_N_COLUMNS, number)
    n_rows = -(-number // n_columns)
    height = 0.4 + 2.1 * n_rows + _INCHES_PER_ROW * (n_in_legend // _N_IN_ROW)
    figure, grid = require("matplotlib.pyplot", EXTRA).subplots(
        n_rows, n_columns, figsize=(3.2 * n_columns, height), layout="constrained", squeeze=False
    )
    for axes in grid.flat[number:]:
        axes.remove()
    return figure, list(grid.flat[:number])


def plot_sweep(
    result: Source,
    path: str | os.PathLike | None = None,
    *,
    metric: str = "returns",
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plots the last evaluation of each set of hyperparameters in a sweep.

    Each set has a row, named after the hyperparameters that differ: the inter-quartile mean over seeds
    with its 95% bootstrap interval, and a small dot for each seed. Metrics are averaged over actors. The
    set with the highest mean over all seeds, the sweep's `best`, has a different colour. A set with
    non-finite values has no mean.

    ```python
    result = agent.sweep(jax.random.split(jax.random.key(0), 8), hyperparams)
    plot_sweep(result, "sweep.png", title="PPO on CartPole-v1")
    ```

    Args:
        result: The result of `sweep`, its metrics, or its folder.
        path: File to save the plot to. Only the first process writes it.
        metric: Name of the metric.
        title: Title.
        ax: Axes to draw on; by default, new ones with room for all sets.

    Returns:
        The axes.

    Raises:
        KeyError: There is no such metric: `returns` needs evaluation during training.
        TypeError: `result` has the wrong type.
        FileNotFoundError: The folder holds no metrics.
        ImportError: matplotlib is not installed.
    """
    trainings = read_trainings(result)
    last = trainings.values(metric)[:, :, -1].mean(axis=(2, 3))
    n_sets, n_runs = trainings.shape
    axes = new_axes((7, 1.5 + _INCHES_PER_SET * n_sets)) if ax is None else ax
    is_known = np.isfinite(last).all(axis=1)
    means = np.where(is_known, last.mean(axis=1), -np.inf)
    best = int(np.argmax(means)) if is_known.any() else None
    for row, scores in enumerate(last):
        colour = colours_on(axes)[1 if row == best else 0]
        axes.plot(scores, np.full(n_runs, row), ".", color=colour, alpha=0.35, markersize=5)
        if is_known[row]:
            mean, low, high = inter_quartile_mean(scores)
            axes.plot([low, high], [row, row], color=colour, linewidth=2)
            axes.plot(mean, row, "o", color=colour, label="best set" if row == best else "_")
    axes.set_yticks(range(n_sets), trainings.labels)
    axes.set_ylim(n_sets - 0.5, -0.5)
    axes.set_xlabel(f"{metric.replace('_', ' ')} at the last evaluation\n({in_words(n_runs)})")
    finish(axes, title)
    axes.margins(x=0.05)
    if best is not None:
        axes.legend(frameon=False, loc="best")
    save(axes, path)
    return axes
