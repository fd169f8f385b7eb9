"""Metrics of evaluation points: dicts of arrays."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

Metrics = dict[str, Any]


def stack_points(points: Sequence[Metrics]) -> Metrics:
    """Stacks the metrics of evaluation points along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *points)


def join(earlier: Metrics | None, later: Metrics) -> Metrics:
    """Appends a later training's metrics to an earlier one's, whose points it may repeat."""
    if earlier is None:
        return later
    new = ~np.isin(later["update_step"], earlier["update_step"])
    return jax.tree.map(lambda a, b: np.concatenate([a, b[new]]), earlier, later)


def mean_metrics(metrics: Metrics) -> dict[str, float]:
    """The mean of each metric over its episodes and actors."""
    return {name: float(str(np.float32(np.mean(values)))) for name, values in metrics.items()}
