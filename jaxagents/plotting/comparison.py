"""Which set of hyperparameters of a sweep was best."""

import os
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from jaxagents.plotting.drawing import colours_on, finish, in_words, new_axes, save
from jaxagents.plotting.statistics import Estimate, inter_quartile_mean
from jaxagents.plotting.trainings import Source, read_trainings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES_PER_SET = 0.32


def plot_sweep(
    result: Source,
    path: str | os.PathLike | None = None,
    *,
    metric: str = "returns",
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draws how well each set of hyperparameters of a sweep did at the last evaluation.

    Each set has a row, named after the hyperparameters that differ and their values: the inter-quartile
    mean over the seeds in its 95 % bootstrap interval, and a small dot for each seed. Several actors
    count by their mean. The set with the highest mean over all seeds, the `best` of the sweep, has
    another colour. A set with numbers that are not finite has no mean.

    ```python
    result = agent.sweep(jax.random.split(jax.random.key(0), 8), hyperparams)
    plot_sweep(result, "sweep.png", title="PPO on CartPole-v1")
    ```

    Args:
        result: What `sweep` returns, its metrics, or its folder.
        path: File to save the picture to; of several processes, the first one does.
        metric: Name of the metric.
        title: Title.
        ax: Axes to draw on; by default new ones, as high as the number of sets needs.

    Returns:
        The axes. Nothing is shown.

    Raises:
        KeyError: There is no such metric, such as `returns` without evaluation during training.
        TypeError: `result` is something else.
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
        _draw_row(axes, row, scores, colour, "best set" if row == best else "_")
    axes.set_yticks(range(n_sets), trainings.labels)
    axes.set_ylim(n_sets - 0.5, -0.5)
    axes.set_xlabel(f"{metric.replace('_', ' ')} at the last evaluation\n({in_words(n_runs)})")
    finish(axes, title)
    axes.margins(x=0.05)
    if best is not None:
        axes.legend(frameon=False, loc="best")
    save(axes, path)
    return axes


def _draw_row(
    axes: "Axes", row: int, scores: Float[np.ndarray, "runs"], colour: str, label: str
) -> None:
    axes.plot(scores, np.full(len(scores), row), ".", color=colour, alpha=0.35, markersize=5)
    if np.isfinite(scores).all():
        estimate: Estimate = inter_quartile_mean(scores)
        axes.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=2)
        axes.plot(estimate.mean, row, "o", color=colour, label=label)
