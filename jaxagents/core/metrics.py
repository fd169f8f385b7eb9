"""Metrics of evaluation points: dicts of arrays."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.tree_util import DictKey
from jaxtyping import ArrayLike

from jaxagents.core.summary import Summarised, as_html, as_text, in_a_line, is_known

Metrics = dict[str, Any]
RunnerT = TypeVar("RunnerT")


@jax.tree_util.register_pytree_with_keys_class
class MetricDict(dict[str, Any]):
    """Metrics by name: a dict that prints one line per metric, and a pytree like any dict."""

    def __repr__(self) -> str:
        return as_text("MetricDict", self.lines())

    def _repr_html_(self) -> str:
        return as_html("MetricDict", self.lines())

    def lines(self) -> dict[str, str]:
        """Each metric by shape, with the mean at the last point of a run or over all episodes."""
        n_axes = np.ndim(self.get("update_step", 0))  # 2 if there are several runs
        lines = {name: in_a_line(values) for name, values in self.items()}
        for name, values in self.items():
            if n_axes < 2 and np.ndim(values) and np.size(values) and is_known(values):
                shown = (
                    f"last {np.mean(values[-1]):.4g}" if n_axes else f"mean {np.mean(values):.4g}"
                )
                lines[name] += f", {shown}"
        return lines

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        """The children of the pytree, sorted by name as those of any dict."""
        names = tuple(sorted(self))
        return [(DictKey(name), self[name]) for name in names], names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Iterable[Any]) -> Self:
        """The inverse of `tree_flatten_with_keys`."""
        return cls(zip(names, values, strict=True))


class RunResult(NamedTuple, Generic[RunnerT]):
    """The result of a run; unpack it with `runner, metrics = agent.train(0)`.

    Attributes:
        runner: The final runner.
        metrics: Metrics with a leading axis of evaluation points.
    """

    runner: RunnerT
    metrics: MetricDict

    def __repr__(self) -> str:
        return as_text("RunResult", self._lines())

    def _repr_html_(self) -> str:
        return as_html("RunResult", self._lines())

    def _lines(self) -> dict[str, str]:
        return {"runner": in_a_line(self.runner), **self.metrics.lines()}

    @classmethod
    def of(cls, runner: RunnerT, metrics: Metrics) -> "RunResult[RunnerT]":
        """Combines a runner with its metrics, given as any dict."""
        return cls(runner, MetricDict(metrics))


def stack_metrics(metrics: Sequence[Metrics]) -> Metrics:
    """Stacks the metrics of evaluation points, or of runs, along a new first axis.

    Missing metrics, such as losses before the first update, are NaN.
    """
    names = metrics[-1] if metrics else {}
    return {name: np.stack([_get(point, name, names[name]) for point in metrics]) for name in names}


def join(earlier: Metrics | None, later: Metrics) -> Metrics:
    """Appends a later run's metrics to an earlier run's, skipping repeated points.

    Args:
        earlier: Metrics with a leading axis of points, if there are any.
        later: Metrics that follow; empty if no point was reached.

    Returns:
        The metrics of both, NaN where one of them lacks a metric.
    """
    if not earlier or not later:
        return later or earlier or {}
    new = ~np.isin(later["update_step"], earlier["update_step"])

    def joined(name: str) -> np.ndarray:
        like = next(each[name][0] for each in (earlier, later) if name in each)
        missing = _get({}, name, like)
        parts = [
            each.get(name, np.stack([missing] * len(each["update_step"])))
            for each in (earlier, later)
        ]
        return np.concatenate([parts[0], parts[1][new]])

    return {name: joined(name) for name in {**later, **earlier}}


def _get(point: Metrics, name: str, like: Any) -> np.ndarray:
    """A metric of a point, or NaN of the same shape as at another point."""
    if name in point:
        return point[name]
    dtype = np.result_type(like)
    return np.full(np.shape(like), np.nan, dtype if dtype.kind == "f" else np.float32)


def mean_metrics(metrics: Metrics) -> dict[str, float]:
    """The mean of each metric over episodes and actors, and of each actor over episodes.

    Args:
        metrics: Metrics of one evaluation point, shaped `()`, `(episodes,)` or `(episodes, n_actors)`.

    Returns:
        Means by name; the first actor's is `name/0`.
    """
    means = {}
    for name, values in metrics.items():
        means[name] = np.mean(values)
        if np.ndim(values) == 2:
            means |= {f"{name}/{i}": mean for i, mean in enumerate(np.mean(values, axis=0))}
    return {name: float(str(np.float32(mean))) for name, mean in means.items()}


class MetricStats(Summarised, struct.PyTreeNode):
    """Statistics over the last axis of a metric.

    Attributes:
        episode_metric: The metric itself.
        mean: Mean.
        var: Variance.
        std: Standard deviation.
        min: Smallest value.
        max: Largest value.
        median: Median.
        has_nans: Whether any value is NaN.
    """

    episode_metric: Any
    mean: ArrayLike
    var: ArrayLike
    std: ArrayLike
    min: ArrayLike
    max: ArrayLike
    median: ArrayLike
    has_nans: ArrayLike

    @classmethod
    def of(cls, metric: ArrayLike) -> "MetricStats":
        """Summarises a metric over its last axis.

        Raises:
            TypeError: The metric is not an array of numbers but, for example, a dict of metrics or a
                name.
            ValueError: The metric has no axis, or its last axis is empty.
        """
        if isinstance(metric, Mapping | str):
            given = f"a dict of {sorted(metric)}" if isinstance(metric, Mapping) else repr(metric)
            raise TypeError(f"summarize takes one metric, such as metrics['returns'], got {given}.")
        try:
            metric = jnp.asarray(metric, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(
                "summarize takes an array of numbers, such as metrics['returns'], or lists of the same "
                f"length, got {reprlib.repr(metric)}."
            ) from None
        if not metric.shape or not metric.shape[-1]:
            raise ValueError(
                "summarize takes a metric with values along its last axis, such as metrics['returns'], "
                f"got one of shape {metric.shape}."
            )
        return cls(
            episode_metric=metric,
            mean=metric.mean(axis=-1),
            var=metric.var(axis=-1),
            std=metric.std(axis=-1),
            min=metric.min(axis=-1),
            max=metric.max(axis=-1),
            median=jnp.median(metric, axis=-1),
            has_nans=jnp.isnan(metric).any(axis=-1),
        )
