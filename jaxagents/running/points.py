"""Passing what evaluation points show to loggers."""

import math
from collections.abc import Sequence

from jaxtyping import PyTree

from jaxagents.core.metrics import Metrics, mean_metrics
from jaxagents.loggers import Logger


class LoggerObserver:
    """Passes the mean metrics of each point to loggers."""

    def __init__(self, loggers: Sequence[Logger], known_steps: Sequence[int]) -> None:
        """Takes the loggers.

        Args:
            loggers: Receive the metrics.
            known_steps: Update steps that were logged before.
        """
        self._loggers = loggers
        self._known_steps = known_steps

    def on_chunk(self, runner: PyTree, n_updates: int) -> None:
        """Does nothing."""

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Logs the newest point."""
        point = {name: values[-1] for name, values in history.items()}
        step = int(point.pop("update_step"))
        if step not in self._known_steps:
            self.log(step, point)

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Does nothing."""

    def log(self, step: int, point: Metrics, **labels: int) -> None:
        """Logs the means of a point.

        Args:
            step: Number of updates made before it.
            point: Its metrics.
            **labels: Numbers to log beside them.
        """
        means = mean_metrics(point)
        if step == 0:  # no update has reported anything
            means = {name: x for name, x in means.items() if not math.isnan(x)}
        for logger in self._loggers:
            logger.log(step, {**labels, **means})
