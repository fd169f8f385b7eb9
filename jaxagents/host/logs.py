"""The logs and the progress bar of a training on the host."""

import math
from collections.abc import Mapping, Sequence

from jaxagents.core.metrics import Metrics, mean_metrics
from jaxagents.engine.observers import ProgressBar
from jaxagents.host.program import HostRunner
from jaxagents.host.schedule import Schedule
from jaxagents.loggers import Logger


class Logs:
    """Passes evaluations and the numbers that training reports to loggers, at most once a step."""

    def __init__(self, schedule: Schedule, loggers: Sequence[Logger]) -> None:
        """Takes the schedule of the logs, and the loggers."""
        self._schedule = schedule
        self._loggers = loggers

    def on_chunk(self, runner: HostRunner, n_updates: int, first: object) -> None:
        """Logs the numbers that training reports, unless a point follows."""
        step = runner.step
        if self._schedule.is_log(step) and not self._schedule.is_point(step):
            self._log(step, _training_numbers(runner))

    def on_point(self, runner: HostRunner, history: Metrics) -> None:
        """Logs the newest point, and the numbers that training reports if they are due."""
        reported = _training_numbers(runner) if self._schedule.is_log(runner.step) else {}
        self._log(runner.step, reported | _evaluation_numbers(runner, history))

    def on_interruption(self, runner: HostRunner, history: Metrics) -> None:
        """Does nothing."""

    def _log(self, step: int, numbers: dict[str, float]) -> None:
        for logger in self._loggers if numbers else []:
            logger.log(step, numbers)


class LogBar(ProgressBar):
    """Shows the steps made, and the returns that were logged last."""

    _shown: Mapping[str, float] = {}

    def on_point(self, runner: HostRunner, history: Metrics) -> None:
        """Does nothing: the numbers of a point come through `log`."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Shows the returns among the numbers that are logged."""
        names = {"return": "evaluation/return", "training": "training/episode_return"}
        self._shown = {
            **self._shown,
            **{text: metrics[name] for text, name in names.items() if name in metrics},
        }
        self.show(", ".join(f"{text} {value:.4g}" for text, value in self._shown.items()))


def _training_numbers(runner: HostRunner) -> dict[str, float]:
    reported, rate = runner.reported_since_log()
    finite = {name: mean for name, mean in reported.items() if not math.isnan(mean)}
    return {**{f"training/{name}": mean for name, mean in finite.items()}, "steps_per_second": rate}


def _evaluation_numbers(runner: HostRunner, history: Metrics) -> dict[str, float]:
    others = {"step", *runner.training.names}
    outcomes = {name: values[-1] for name, values in history.items() if name not in others}
    return mean_metrics({f"evaluation/{name.removesuffix('s')}": x for name, x in outcomes.items()})
