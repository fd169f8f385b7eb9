"""Callbacks: told how a training goes, and able to end it early."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.intervals import Interval
from jaxagents.core.metrics import Metrics
from jaxagents.core.numbers import positive

_ANY = Interval(float("-inf"), float("inf"), infinite=True)
_NOT_NEGATIVE = Interval(0.0, float("inf"), infinite=True)


class Progress(NamedTuple):
    """How far a training has come, or a sweep, whose members all go on at once.

    Attributes:
        step: Number of updates made so far; of trainings in a Gymnasium environment, of steps.
        n_steps: Number of them when the training is complete.
        seconds: Seconds since it began or went on, compilation included.
        metrics: Means of the newest evaluation point by name, such as `"returns"`; of a sweep, over
            all members.
        history: The metrics of this training and of those that it goes on from, with a leading axis of
            evaluation points; of a sweep, with axes `(n_points, n_sets, n_seeds)`.
        runner: The state of the training. Later updates use up its arrays: copy what is to be kept, for
            example with `jax.device_get`. Of a sweep, the runners with leading axes
            `(n_sets, n_seeds)` at evaluation points, and `None` in between.
    """

    step: int
    n_steps: int
    seconds: float
    metrics: dict[str, float]
    history: Metrics
    runner: PyTree


class Callback:
    """Base of what is told how a training goes. Override one method or both.

    ```python
    class Report(Callback):
        def on_point(self, progress):
            print(progress.step, progress.metrics["returns"])
    ```

    An error in a callback ends the training, of which nothing is lost.
    """

    def on_point(self, progress: Progress) -> bool | None:
        """Called after each evaluation point, the first of which is before any update.

        Args:
            progress: How far the training has come.

        Returns:
            Whether the training is to end; `None` for no.
        """

    def on_chunk(self, progress: Progress) -> bool | None:
        """Called several times a second, between updates and after the first evaluation point.

        Args:
            progress: How far the training has come.

        Returns:
            Whether the training is to end; `None` for no.
        """


@dataclasses.dataclass
class StopAtReturn(Callback):
    """Ends a training once the mean return of an evaluation reaches a target.

    Attributes:
        target: The mean return.
        metric: Name of the metric, if it is another.
    """

    target: float
    metric: str = "returns"

    def __post_init__(self) -> None:
        _ANY.check("target", self.target)

    def on_point(self, progress: Progress) -> bool:
        """Compares the newest evaluation with the target."""
        return _mean(progress, self.metric) >= self.target


@dataclasses.dataclass
class StopOnPlateau(Callback):
    """Ends a training whose mean return has not become larger for several evaluations.

    They count from the first that is not NaN, as losses are before any update.

    When a training goes on, the evaluations before count too. One that has ended so makes no more
    updates with it; in the loops for Gymnasium, those up to the next evaluation.

    Attributes:
        patience: Number of evaluations without a larger mean return after which the training ends.
        min_improvement: By how much it has to be larger.
        metric: Name of the metric, if it is another.
    """

    patience: int
    min_improvement: float = 0.0
    metric: str = "returns"

    def __post_init__(self) -> None:
        self.patience = positive("patience", self.patience)
        _NOT_NEGATIVE.check("min_improvement", self.min_improvement)

    def on_point(self, progress: Progress) -> bool:
        """Looks for the last evaluation that was better than all before it."""
        _mean(progress, self.metric)
        values = progress.history[self.metric]
        means = values.reshape(len(values), -1).mean(axis=1)
        best, since = float("-inf"), 0
        for mean in means[np.cumsum(~np.isnan(means)) > 0]:
            better = mean > best + self.min_improvement
            best, since = (mean, 0) if better else (best, since + 1)
        return since >= self.patience


@dataclasses.dataclass
class StopAfter(Callback):
    """Ends a training after a time, compilation included.

    Attributes:
        seconds: The time.
    """

    seconds: float

    def __post_init__(self) -> None:
        _NOT_NEGATIVE.check("seconds", self.seconds)

    def on_chunk(self, progress: Progress) -> bool:
        """Looks at the clock."""
        return progress.seconds >= self.seconds

    def on_point(self, progress: Progress) -> bool:
        """Looks at the clock."""
        return progress.seconds >= self.seconds


@dataclasses.dataclass
class _Function(Callback):
    """A function that is called at each evaluation point."""

    function: Callable[[Progress], bool | None]

    def on_point(self, progress: Progress) -> bool | None:
        """Calls it."""
        return self.function(progress)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def as_callbacks(callbacks: object) -> list[Callback]:
    """Callbacks as a list.

    Args:
        callbacks: Callbacks, or functions that are to be called at each evaluation point.

    Returns:
        The callbacks.

    Raises:
        TypeError: They are a single one, or something else.
    """
    if isinstance(callbacks, Callback) or callable(callbacks):
        raise TypeError(
            f"callbacks must be a list of callbacks, got {callbacks!r} alone: put it in brackets."
        )
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a list of callbacks, got {callbacks!r}.")
    return [_as_callback(callback) for callback in callbacks]


def _as_callback(callback: object) -> Callback:
    if isinstance(callback, Callback):
        return callback
    if isinstance(callback, type) or not callable(callback):
        raise TypeError(
            "A callback must be a jaxagents.callbacks.Callback, or a function of the progress that is "
            f"called at each evaluation point, got {callback!r}."
        )
    return _Function(cast(Callable[[Progress], bool | None], callback))


def _mean(progress: Progress, metric: str) -> float:
    if metric not in progress.metrics:
        raise KeyError(
            f"There is no metric {metric!r} to look at, but {sorted(progress.metrics)}. There are "
            "returns if the agent is evaluated during training."
        )
    return progress.metrics[metric]
