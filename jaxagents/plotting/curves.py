"""Learning curves."""

import os
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from jaxagents.plotting.drawing import (
    COLOURS,
    draw_curve,
    draw_line,
    draw_runs,
    finish,
    in_words,
    name_steps,
    new_axes,
    next_look,
    save,
)
from jaxagents.plotting.statistics import middle_mean
from jaxagents.plotting.trainings import Source, Trainings, read_trainings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_N_IN_COLOUR = len(COLOURS)


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
    """Draws a metric over the steps of one training, of several runs, or of a sweep.

    Of one training it draws the mean over episodes, in a band from their 10 % to their 90 % quantile. A
    metric with one number for each point, such as `episode_return` or a loss, is drawn as a line
    without a band, from one number to the next: points that are NaN are left out.

    Of several runs it draws the inter-quartile mean of the runs' means over episodes, in its 95 %
    bootstrap interval, at the points where the numbers of all runs are finite. Of a sweep it draws such
    a curve for each set of hyperparameters; of more than six sets, all but the last six best in grey.

    ```python
    plot_learning_curve(metrics, "one.png")
    runs = ["runs/1", "runs/2", "runs/3"]
    plot_learning_curve(runs, "three_runs.svg", label="PPO")
    plot_learning_curve(agent.sweep(keys, hyperparams), "sweep.png")
    ```

    Args:
        metrics: Metrics of one training, as `train`, `train_online` or `train_offline` returns them;
            those of seeds under `jax.vmap`, with a first axis of seeds; what `sweep` returns; the folder
            of a training or a sweep, which knows the means of episodes alone; or a list of trainings.
        path: File to save the picture to; of several processes, the first one does.
        metric: Name of the metric, of each training shaped `(points,)`, `(points, episodes)` or
            `(points, episodes, n_actors)`.
        steps_per_update: Environment steps of an agent's update (`batch_size * rollout_length`);
            without it the axis counts what the metrics count.
        title: Title.
        label: Name of the curve in the legend; the curves of several actors are numbered besides, and
            those of a sweep have the values of their hyperparameters. By default it says what is drawn.
        x_label: What the axis counts; by default what the metrics do: updates of an agent or of
            `train_offline`, or environment steps of `train_online` (or with `steps_per_update`).
        ax: Axes to draw on, such as those of another curve; by default new ones.

    Returns:
        The axes. Nothing is shown; `matplotlib.pyplot.show()` does.

    Raises:
        KeyError: The metrics hold no such metric.
        TypeError: `metrics` is something else, or `steps_per_update` no integer.
        ValueError: The metrics hold no points or count no steps, `steps_per_update` is not positive, or
            runs have no evaluation points in common or not as many actors.
        FileNotFoundError: A folder holds no metrics.
        ImportError: matplotlib is not installed.
    """
    trainings = read_trainings(metrics)
    values = trainings.values(metric)
    x = trainings.steps_in(steps_per_update)
    axes = new_axes() if ax is None else ax
    n_sets, n_runs = trainings.shape
    if n_sets > 1:
        _draw_sets(axes, x, values.mean(axis=3), trainings, label)
    elif n_runs > 1:
        _draw_actors(axes, x, values[0].mean(axis=2), label or in_words(n_runs))
    elif trainings.has_episodes(metric):
        _draw_bands(axes, x, values[0, 0], label or "mean of the episodes")
    else:
        draw_line(axes, x, values[0, 0, :, 0, 0], label or metric.replace("_", " "))
    name_steps(axes, x_label or ("environment steps" if steps_per_update else trainings.unit))
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
    trainings: Trainings,
    label: str | None,
) -> None:
    """Draws the sets of a sweep, in their order, all but the best of them in grey."""
    last = [middle_mean(of_set[:, -1].mean(axis=-1)) for of_set in values]
    best = np.argsort(-np.nan_to_num(last, nan=-np.inf), kind="stable")[:_N_IN_COLOUR]
    for number in sorted(best):
        _draw_actors(axes, x, values[number], trainings.labels[number])
    others = [i for i in range(len(values)) if i not in best]
    for count, number in enumerate(others):
        means = values[number].mean(axis=-1)
        known = np.isfinite(means).all(axis=0)
        name = "_" if count else f"{len(others)} other sets"
        look = {"color": "grey", "alpha": 0.5, "linewidth": 0.8}
        draw_curve(axes, x[known], middle_mean(means[:, known]), label=name, **look)


def _draw_actors(
    axes: "Axes", x: np.ndarray, values: Float[np.ndarray, "runs points actors"], label: str
) -> None:
    n_actors = values.shape[-1]
    for actor in range(n_actors):
        name = f"{label}, actor {actor}" if n_actors > 1 else label
        draw_runs(axes, x, values[..., actor], name)


def _draw_bands(
    axes: "Axes", x: np.ndarray, values: Float[np.ndarray, "points episodes actors"], label: str
) -> None:
    """Draws the mean over episodes and the band of each actor."""
    n_actors = values.shape[-1]
    for actor in range(n_actors):
        look, episodes = next_look(axes), values[..., actor]
        low, high = np.quantile(episodes, [0.1, 0.9], axis=1)
        name = f"{label}, actor {actor}" if n_actors > 1 else label
        axes.fill_between(x, low, high, color=look.color, alpha=0.2, linewidth=0)
        draw_curve(axes, x, episodes.mean(axis=1), label=name, **look._asdict())
