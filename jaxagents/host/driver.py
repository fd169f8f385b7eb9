"""What drives a training on the host: evaluation, logs, checkpoints, progress, interruption."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from jaxagents.core.metrics import Metrics, mean_metrics
from jaxagents.host.config import HostConfig
from jaxagents.host.updates import Sums, Updates, added, means
from jaxagents.loggers import Logger
from jaxagents.running.interruption import Interruption
from jaxagents.running.progress import ProgressBar


class Training(Protocol):
    """What is driven.

    Attributes:
        step: Number of steps made.
        updates: The learner and its updates.
        names: What `drain` may hold.
        unit: What a step is.
    """

    unit: str
    step: int
    updates: Updates
    names: list[str]

    def advance(self, limit: int) -> None:
        """Makes at least one step, but none beyond `limit`."""

    def drain(self) -> Sums:
        """Sums of what happened since the last call."""
        ...

    def state(self) -> dict[str, Any]:
        """What has to be known to go on from here, besides the learner, as JSON."""
        ...

    def load(self, step: int, learner: Any, state: Mapping[str, Any]) -> None:
        """Goes on from a step, with its learner and state."""


class Recorder(Protocol):
    """What keeps checkpoints."""

    def save(self, evaluated: bool) -> None:
        """Saves one; `evaluated` says whether it has a return."""


class Run:
    """A training with everything that plugs in around it.

    Attributes:
        training: What is driven.
        history: Metrics with a leading axis of points; empty before the first.
        config: The configuration.
    """

    def __init__(
        self,
        training: Training,
        n_steps: int,
        config: HostConfig,
        evaluate: Callable[[Any], Metrics],
    ) -> None:
        """Prepares a run.

        Args:
            training: What is driven.
            n_steps: Number of steps in all.
            config: Its configuration.
            evaluate: Maps a learner to metrics of episodes; to none if nothing evaluates it.
        """
        self.training = training
        self.history: Metrics = {}
        self._n_steps = n_steps
        self.config = config
        self._evaluate = evaluate
        self._since_point: Sums = {}
        self._since_log: Sums = {}
        self._seconds = 0.0
        self._steps_timed = 0
        self._shown: dict[str, float] = {}

    @property
    def remaining(self) -> int:
        """Number of steps to make."""
        return max(0, self._n_steps - self.training.step)

    def state(self) -> dict[str, Any]:
        """What has to be known to go on from here, besides learner and history, as JSON."""
        return {
            "training": self.training.state(),
            "since_point": self._since_point,
            "since_log": self._since_log,
        }

    def load(self, step: int, learner: Any, history: Metrics, state: Mapping[str, Any]) -> None:
        """Goes on from a step, with its learner, history and state."""
        self.training.load(step, learner, state["training"])
        self.history = history
        self._since_point = added({}, state["since_point"])
        self._since_log = added({}, state["since_log"])

    def drive(
        self,
        loggers: Sequence[Logger],
        records: Recorder | None,
        bar: ProgressBar,
        interruption: Interruption,
    ) -> None:
        """Trains until the end, or until it is interrupted.

        Args:
            loggers: Receive what happens.
            records: Keep checkpoints.
            bar: Shows progress.
            interruption: Says when to stop early.
        """
        saved = self.training.step if self.history else None
        while True:
            if saved != self.training.step and self._report(loggers, bar):
                saved = self.training.step
                if records is not None:
                    records.save(evaluated="returns" in self.history)
            if not self.remaining or interruption.requested:
                break
            bar.on_chunk(self._advance())
        if self.remaining:
            bar.on_interruption(self.training.updates.learner, self.history)
            if records is not None and saved != self.training.step:
                records.save(evaluated=False)

    def _advance(self) -> int:
        step = self.training.step
        frequencies = (self.config.eval_frequency, self.config.log_frequency)
        next_stop = min(step + frequency - step % frequency for frequency in frequencies)
        began = time.perf_counter()
        self.training.advance(min(next_stop, self._n_steps))
        self._seconds += time.perf_counter() - began
        self._steps_timed += self.training.step - step
        return self.training.step - step

    def _report(self, loggers: Sequence[Logger], bar: ProgressBar) -> bool:
        """Logs and evaluates where that is due, and says whether this is a point."""
        step = self.training.step
        is_last = step == self._n_steps
        is_point = is_last or step % self.config.eval_frequency == 0
        is_log = step > 0 and (is_last or step % self.config.log_frequency == 0)
        if not (is_point or is_log):
            return False
        drained = self.training.drain()
        self._since_point = added(self._since_point, drained)
        self._since_log = added(self._since_log, drained)
        logged = (self._training_log() if is_log else {}) | (self._point() if is_point else {})
        for logger in loggers if logged else []:
            logger.log(step, logged)
        self._show(bar, logged)
        return is_point

    def _point(self) -> dict[str, float]:
        """Adds a point to the history, and returns the means of its evaluation."""
        outcomes = self._evaluate(self.training.updates.learner)
        reported = dict.fromkeys(self.training.names, math.nan) | means(self._since_point)
        self._since_point = {}
        point = {"step": self.training.step, **outcomes, **reported}
        arrays = {name: np.asarray(value)[None] for name, value in point.items()}
        self.history = {
            name: np.concatenate([self.history[name], array]) if self.history else array
            for name, array in arrays.items()
        }
        named = {f"evaluation/{name.removesuffix('s')}": x for name, x in outcomes.items()}
        return mean_metrics(named)

    def _training_log(self) -> dict[str, float]:
        numbers = {f"training/{name}": mean for name, mean in means(self._since_log).items()}
        rate = self._steps_timed / max(self._seconds, 1e-9)
        self._since_log, self._seconds, self._steps_timed = {}, 0.0, 0
        finite = {name: number for name, number in numbers.items() if not math.isnan(number)}
        return {**finite, "steps_per_second": rate}

    def _show(self, bar: ProgressBar, logged: Mapping[str, float]) -> None:
        shown = {"return": "evaluation/return", "training": "training/episode_return"}
        self._shown |= {text: logged[key] for text, key in shown.items() if key in logged}
        bar.show(", ".join(f"{text} {value:.4g}" for text, value in self._shown.items()))
