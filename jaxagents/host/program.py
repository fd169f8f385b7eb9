"""A training on the host, as the driver runs it."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite
from jaxagents.host.learner_like import LearnerLike
from jaxagents.host.updates import Sums, Updates, added, means


class Training(Protocol):
    """A way to train on the host.

    Attributes:
        step: Number of steps made.
        updates: The learner and its updates.
        names: The names of the numbers that `drain` may give.
        unit: The name of a step, such as "update".
        steps_per_call: Number of steps that are best made at once.
        first_spoilt: The first steps after which what the environment gave was not finite.
    """

    unit: str
    step: int
    updates: Updates
    names: list[str]
    steps_per_call: int
    first_spoilt: FirstNonfinite

    def advance(self, n_steps: int) -> None:
        """Makes steps."""

    def drain(self) -> Sums:
        """Sums of what happened since the last call."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything needed to continue from here, besides the learner, as JSON."""
        ...

    def load(self, step: int, learner: LearnerLike, state: Mapping[str, Any]) -> None:
        """Continues from a step, with its learner and state."""


class HostRunner:
    """The state of a training on the host, and its recent reports. Changes in place.

    Attributes:
        training: How it trains.
    """

    def __init__(self, training: Training) -> None:
        """Takes a training."""
        self.training = training
        self._since_point: Sums = {}
        self._since_log: Sums = {}
        self._seconds = 0.0
        self._steps_timed = 0

    @property
    def step(self) -> int:
        """Number of steps made."""
        return self.training.step

    @property
    def learner(self) -> PyTree:
        """The learner after the last update, which may still be running."""
        return self.training.updates.learner

    def advance(self, n_steps: int) -> None:
        """Makes steps, and times them."""
        began = time.perf_counter()
        self.training.advance(n_steps)
        self._seconds += time.perf_counter() - began
        self._steps_timed += n_steps

    def vital_arrays(self) -> dict[str, PyTree]:
        """The arrays that must stay finite, by what they are."""
        learner = self.learner
        if hasattr(learner, "hyperparams"):
            learner = learner.replace(hyperparams=None)
        return {"the networks of the learner": learner}

    @property
    def first_spoilt(self) -> FirstNonfinite:
        """The first steps after which what the environment gave was not finite, by what it is."""
        return self.training.first_spoilt

    def block_until_ready(self) -> "HostRunner":
        """Returns at once: the host goes on while an update is running."""
        return self

    def reported_since_point(self) -> dict[str, float]:
        """The means of what was reported since the last call, NaN where nothing was."""
        self._drain()
        reported = dict.fromkeys(self.training.names, math.nan) | means(self._since_point)
        self._since_point = {}
        return reported

    def reported_since_log(self) -> tuple[dict[str, float], float]:
        """The means of what was reported since the last call, and the steps made in a second."""
        self._drain()
        reported, rate = means(self._since_log), self._steps_timed / max(self._seconds, 1e-9)
        self._since_log, self._seconds, self._steps_timed = {}, 0.0, 0
        return reported, rate

    def state(self) -> dict[str, Any]:
        """Everything needed to continue from here, besides learner and history, as JSON."""
        return {
            "training": self.training.state(),
            "since_point": self._since_point,
            "since_log": self._since_log,
        }

    def load(self, step: int, learner: LearnerLike, state: Mapping[str, Any]) -> None:
        """Continues from a step, with its learner and state."""
        self.training.load(step, learner, state["training"])
        self._since_point = added({}, state["since_point"])
        self._since_log = added({}, state["since_log"])

    def _drain(self) -> None:
        drained = self.training.drain()
        self._since_point = added(self._since_point, drained)
        self._since_log = added(self._since_log, drained)


class HostProgram:
    """Advances and evaluates trainings on the host."""

    def __init__(self, evaluate: Callable[[LearnerLike], Metrics]) -> None:
        """Prepares it.

        Args:
            evaluate: Maps a learner to metrics of episodes; to none if nothing evaluates it.
        """
        self._evaluate = evaluate

    def advance(
        self, runner: HostRunner, n_steps: int | np.int32
    ) -> tuple[HostRunner, FirstNonfinite]:
        """Makes steps, without waiting for the last update."""
        runner.advance(int(n_steps))
        return runner, runner.first_spoilt

    def evaluate(self, runner: HostRunner) -> Metrics:
        """The metrics of a point: outcomes of episodes, and what was reported since the point before."""
        reported = runner.reported_since_point()
        return {"step": runner.step, **self._evaluate(runner.learner), **reported}
