"""Callbacks, which watch a run and may stop it early."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.hyperparameters import Interval
from jaxagents.core.metrics import Metrics
from jaxagents.core.numbers import positive

_ANY = Interval(float("-inf"), float("inf"), infinite=True)
_NOT_NEGATIVE = Interval(0.0, float("inf"), infinite=True)


class Progress(NamedTuple):
    """The progress of a run, or of a sweep, in which all members advance together.

    Attributes:
        step: Number of updates so far.
        n_steps: Total number of updates.
        seconds: Seconds since the run started or resumed, including compilation.
        metrics: Mean metrics of the latest evaluation point by name, such as `"returns"`; in a sweep,
            over all members.
        history: All metrics since the run first started, with a leading axis of evaluation points; in a
            sweep, with axes `(n_points, n_sets, n_seeds)`.
        runner: The state of the run. Later updates donate its arrays: copy what you keep, for example
            with `jax.device_get`. In a sweep, the runners with leading axes `(n_sets, n_seeds)` at
            evaluation points, and `None` in between.
    """

    step: int
    n_steps: int
    seconds: float
    metrics: dict[str, float]
    history: Metrics
    runner: PyTree


class Callback:
    """Base class of callbacks. Override one or both methods.

    ```python
    class Report(Callback):
        def on_point(self, progress):
            print(progress.step, progress.metrics["returns"])
    ```

    An error in a callback stops the run; nothing is lost.
    """

    def on_point(self, progress: Progress) -> bool | None:
        """Called after each evaluation point, including the one before the first update.

        Args:
            progress: The progress of the run.

        Returns:
            Whether to stop the run; `None` means no.
        """

    def on_chunk(self, progress: Progress) -> bool | None:
        """Called several times a second, between updates and after the first evaluation point.

        Args:
            progress: The progress of the run.

        Returns:
            Whether to stop the run; `None` means no.
        """


@dataclasses.dataclass
class StopAtReturn(Callback):
    """Stops a run once the mean return of an evaluation reaches a target.

    Attributes:
        target: The mean return to reach.
        metric: Name of the metric.
    """

    target: float
    metric: str = "returns"

    def __post_init__(self) -> None:
        _ANY.check("target", self.target)

    def on_point(self, progress: Progress) -> bool:
        """Compares the latest evaluation with the target."""
        return _mean(progress, self.metric) >= self.target


@dataclasses.dataclass
class StopOnPlateau(Callback):
    """Stops a run once its mean return stops improving.

    Leading NaNs do not count: losses are NaN before the first update.

    In a resumed run, earlier evaluations count too: a run that this callback stopped makes no more
    updates when it is resumed with the callback.

    Attributes:
        patience: Number of evaluations without improvement after which the run stops.
        min_improvement: Smallest increase that counts as an improvement.
        metric: Name of the metric.
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
    """Stops a run after some time, including compilation.

    Attributes:
        seconds: The time, in seconds.
    """

    seconds: float

    def __post_init__(self) -> None:
        _NOT_NEGATIVE.check("seconds", self.seconds)

    def on_chunk(self, progress: Progress) -> bool:
        """Checks how much time has passed."""
        return progress.seconds >= self.seconds

    on_point = on_chunk


@dataclasses.dataclass
class _Function(Callback):
    """Calls a function at each evaluation point."""

    function: Callable[[Progress], bool | None]

    def on_point(self, progress: Progress) -> bool | None:
        return self.function(progress)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def as_callbacks(callbacks: object) -> list[Callback]:
    """Callbacks as a list.

    Args:
        callbacks: Callbacks, or functions to call at each evaluation point.

    Returns:
        The callbacks.

    Raises:
        TypeError: They are not a list of callbacks.
    """
    if isinstance(callbacks, Callback) or callable(callbacks):
        raise TypeError(
            f"callbacks must be a list of callbacks, got a single {callbacks!r}: put it in brackets."
        )
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a list of callbacks, got {callbacks!r}.")
    return [_as_callback(callback) for callback in callbacks]


def _as_callback(callback: object) -> Callback:
    if isinstance(callback, Callback):
        return callback
    if isinstance(callback, type) or not callable(callback):
        raise TypeError(
            "A callback must be a jaxagents.callbacks.Callback, or a function that takes the "
            f"progress at each evaluation point, got {callback!r}."
        )
    return _Function(cast(Callable[[Progress], bool | None], callback))


def _mean(progress: Progress, metric: str) -> float:
    if metric not in progress.metrics:
        raise KeyError(
            f"There is no metric {metric!r}; there are {sorted(progress.metrics)}. Returns are "
            "among them if the agent is evaluated during training."
        )
    return progress.metrics[metric]
