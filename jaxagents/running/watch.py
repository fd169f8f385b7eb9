"""Watching a training for numbers that are not finite, from which it cannot recover."""

import warnings
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np
from jaxtyping import PyTree

from jaxagents.core import processes
from jaxagents.core.finite import not_finite
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite, in_words

RunnerT = TypeVar("RunnerT")


class NotFiniteError(FloatingPointError):
    """Numbers of a training became NaN or infinite."""


class Watchable(Protocol):
    """An agent whose numbers are watched."""

    def vital_arrays(self, runner: PyTree, /) -> dict[str, PyTree]:
        """The arrays of a runner that must stay finite, by what they are."""
        ...


class Telling(Protocol):
    """A training that tells what is not finite.

    Attributes:
        first: The first updates (or other steps) after which numbers were not finite.
    """

    first: FirstNonfinite


class WatchedProgram(Protocol[RunnerT]):
    """A training of which updates tell what is not finite."""

    def watch(self, runner: RunnerT, n_updates: np.int32, /) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, using up the runner; also gives the first that met non-finite numbers."""
        ...

    def evaluate(self, runner: RunnerT, /) -> Metrics:
        """The metrics of one evaluation point."""
        ...


class Watched(Generic[RunnerT]):
    """A training that can be driven, and remembers what its last updates told.

    Attributes:
        first: The first updates of the last chunk after which numbers were not finite.
    """

    def __init__(self, program: WatchedProgram[RunnerT]) -> None:
        """Takes the training."""
        self._program = program
        self.first: FirstNonfinite = {}

    def advance(self, runner: RunnerT, n_updates: np.int32) -> RunnerT:
        """Makes updates, using up the runner."""
        runner, self.first = self._program.watch(runner, n_updates)
        return runner

    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point."""
        return self._program.evaluate(runner)


class Watch:
    """Looks at a training after every chunk of updates, and ends it if a number is not finite."""

    def __init__(
        self,
        agent: Watchable,
        first: int,
        stops: bool,
        unit: str = "update",
        is_due: Callable[[int], bool] = lambda step: True,
        together: bool = False,
        watched: Telling | None = None,
    ) -> None:
        """Looks at nothing yet.

        Args:
            agent: Says which arrays to watch.
            first: Number of updates made earlier.
            stops: Whether to end the training, rather than to warn once.
            unit: The unit of its steps, in messages.
            is_due: Whether to look after a number of updates.
            together: Whether all processes do this at once, and so stop at once.
            watched: The training, if it tells since when what is not finite.
        """
        self._agent = agent
        self._seen = self._step = first
        self._is_due = is_due
        self._together = together
        self._stops = stops
        self._unit = unit
        self._warned = self._warned_of_returns = False
        self._watched = watched

    def on_chunk(self, runner: PyTree, n_updates: int) -> None:
        """Looks at the runner.

        Raises:
            NotFiniteError: Some of its numbers are not finite, and the training is to stop.
        """
        self._step += n_updates
        if self._warned or not self._is_due(self._step):
            return
        before, self._seen = self._seen, self._step
        found = not_finite(self._agent.vital_arrays(runner))
        told = [] if self._watched is None else in_words(self._watched.first)
        told = [f"since {self._unit} {text}" for text in told]
        is_spoilt = bool(found or told)
        if not (processes.in_any(is_spoilt) if self._together else is_spoilt):
            return
        if found or not told:
            names = ", ".join(found) or "those of another process"
            told.append(f"{self._when(before, bool(told))}: {names}")
        text = f"Numbers that are not finite, {'; '.join(told)}."
        if self._stops:
            raise NotFiniteError(
                f"{text} No checkpoint was made of this; the last one before it is whole. "
                "stop_if_not_finite=False in the configuration goes on nevertheless."
            )
        warnings.warn(f"{text} Training goes on, as configured.", stacklevel=3)
        self._warned = True

    def _when(self, before: int, is_after_others: bool) -> str:
        """When something that is only looked at after a chunk ceased to be finite, in words."""
        if is_after_others:
            return f"and by {self._unit} {self._step}"
        if self._step == before + 1:
            return f"since {self._unit} {self._step}"
        return f"since some {self._unit} after {before} and up to {self._step}"

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Warns, once, of returns that are not finite, by which no checkpoint is the best."""
        returns = np.atleast_1d(history["returns"][-1] if "returns" in history else 0.0)
        spoilt = np.flatnonzero(~np.isfinite(returns.reshape(len(returns), -1)).all(axis=1))
        if self._warned_of_returns or not len(spoilt):
            return
        self._warned_of_returns = True
        warnings.warn(
            f"The evaluation after {self._unit} {self._step} came upon rewards or observations that are "
            f"not finite, in episodes {spoilt.tolist()}: this checkpoint is never the best.",
            stacklevel=3,
        )

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Does nothing."""
