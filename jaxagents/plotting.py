"""Plots of a training (matplotlib, extra `plot`)."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxagents.core import processes
from jaxagents.core.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def plot_learning_curve(
    metrics: dict[str, Any],
    path: str | os.PathLike | None = None,
    *,
    metric: str = "returns",
    steps_per_update: int | None = None,
    title: str | None = None,
    label: str | None = None,
    x_label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draws the mean of a metric over episodes, in a band from its 10 % to its 90 % quantile.

    A metric with one number for each point, such as `episode_return` or a loss, is drawn as a line
    without a band, from one number to the next: points that are NaN are left out.

    Args:
        metrics: Metrics of one training, as `train`, `train_online` or `train_offline` returns them.
        path: File to save the picture to; of several processes, the first one does.
        metric: Name of the metric, shaped `(points,)`, `(points, episodes)` or
            `(points, episodes, n_actors)`.
        steps_per_update: Environment steps of an agent's update (`batch_size * rollout_length`);
            without it the axis counts what the metrics count.
        title: Title.
        label: Name of the curve in the legend; the curves of several actors are numbered besides. By
            default that of the metric, or "mean of the episodes".
        x_label: What the axis counts; by default what the metrics do: updates of an agent or of
            `train_offline`, or environment steps of `train_online` (or with `steps_per_update`).
        ax: Axes to draw on; by default new ones.

    Returns:
        The axes.

    Raises:
        KeyError: The metrics hold no such metric.
        ImportError: matplotlib is not installed.
    """
    plt = require("matplotlib.pyplot", "jaxagents[plot]")
    if metric not in metrics:
        raise KeyError(f"There is no metric '{metric}'; there are {', '.join(metrics)}.")
    axes: Axes = plt.subplots(figsize=(7, 4), layout="constrained")[1] if ax is None else ax
    counter = "update_step" if "update_step" in metrics else "step"
    x = np.asarray(metrics[counter]) * (steps_per_update or 1)
    values = np.asarray(metrics[metric], float)
    if values.ndim == 1:
        _plot_line(axes, x, values, label or metric.replace("_", " "))
    else:
        _plot_bands(axes, x, values, label or "mean of the episodes")
    axes.set_xlabel(x_label or ("environment steps" if steps_per_update else _unit(metrics)))
    axes.set_ylabel(metric.replace("_", " "))
    axes.set_title(title or "")
    axes.margins(x=0.01)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    if path is not None and processes.leads():
        axes.get_figure(root=True).savefig(path, dpi=150)  # pyright: ignore[reportOptionalMemberAccess]
    return axes


def _plot_line(axes: "Axes", x: np.ndarray, values: np.ndarray, label: str) -> None:
    known = ~np.isnan(values)
    axes.plot(x[known], values[known], color=_next_colour(axes), label=label)


def _plot_bands(axes: "Axes", x: np.ndarray, values: np.ndarray, label: str) -> None:
    """Draws the mean and the band of each actor, of values shaped `(points, episodes, ...)`."""
    by_actor = values.reshape(*values.shape[:2], -1)
    n_actors = by_actor.shape[-1]
    for actor in range(n_actors):
        colour = _next_colour(axes)
        episodes = by_actor[..., actor]
        low, high = np.quantile(episodes, [0.1, 0.9], axis=1)
        name = f"{label}, actor {actor}" if n_actors > 1 else label
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(x, episodes.mean(axis=1), color=colour, label=name)


def _next_colour(axes: "Axes") -> str:
    return _COLOURS[len(axes.lines) % len(_COLOURS)]


def _unit(metrics: dict[str, Any]) -> str:
    """The unit of the steps, in words; of the loops on the host, only the online one plays episodes."""
    if "update_step" in metrics:
        return "update steps"
    return "environment steps" if "episode_return" in metrics else "updates"
