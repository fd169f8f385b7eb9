"""Metrics of evaluation points: dicts of arrays."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

Metrics = dict[str, Any]


def stack_metrics(metrics: Sequence[Metrics]) -> Metrics:
    """Stacks the metrics of evaluation points, or of trainings, along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *metrics)


def join(earlier: Metrics | None, later: Metrics) -> Metrics:
    """Appends a later training's metrics to an earlier one's, whose points it may repeat."""
    if earlier is None:
        return later
    new = ~np.isin(later["update_step"], earlier["update_step"])
    return jax.tree.map(lambda a, b: np.concatenate([a, b[new]]), earlier, later)


def mean_metrics(metrics: Metrics) -> dict[str, float]:
    """The mean of each metric over episodes and actors, and over episodes of each actor.

    Args:
        metrics: Metrics of one evaluation point, shaped `()`, `(episodes,)` or `(episodes, n_actors)`.

    Returns:
        Means by name; that of the first actor as `name/0`.
    """
    means = {}
    for name, values in metrics.items():
        means[name] = np.mean(values)
        if np.ndim(values) == 2:
            means |= {f"{name}/{i}": mean for i, mean in enumerate(np.mean(values, axis=0))}
    return {name: float(str(np.float32(mean))) for name, mean in means.items()}
