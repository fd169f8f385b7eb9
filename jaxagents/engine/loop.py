"""The loop behind every run, from one evaluation point to the next, in chunks of updates."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Protocol, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core import processes
from jaxagents.core.arrays import is_used_up
from jaxagents.core.metrics import Metrics, stack_metrics
from jaxagents.core.report import FirstNonfinite
from jaxagents.engine.observers import Observer

RunnerT = TypeVar("RunnerT")

_SECONDS = 0.25
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Catches Ctrl-C and SIGTERM, so that a run can stop between two chunks; a second one stops at once.

    On exit, a caught SIGTERM is raised again for the previous handler. Outside the main thread, where
    Python receives no signals, it does nothing.
    """

    def __init__(self) -> None:
        """Starts without a signal."""
        self._received: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the run should stop."""
        return self._received is not None

    def __enter__(self) -> "Interruption":
        """Installs the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._note) for s in _SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        """Restores the previous handlers."""
        self._restore_handlers()
        if self._received == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._restore_handlers()
            raise KeyboardInterrupt
        self._received = number

    def _restore_handlers(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}


class Executor(Protocol[RunnerT]):
    """The programs of a run on its devices; implemented in `executors`, `host` and `members`."""

    def advance(self, runner: RunnerT, n_updates: np.int32, /) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, donating the runner; also returns the first with non-finite numbers."""
        ...

    def evaluate(self, runner: RunnerT, /) -> Metrics:
        """The metrics of one evaluation point."""
        ...


def updates_between_points(n_steps: int, frequency: int, first: int = 0) -> list[int]:
    """Numbers of updates before each evaluation point; the first point is before any update.

    Args:
        n_steps: Total number of updates.
        frequency: Points are at its multiples, and at the end.
        first: Number of updates made earlier.

    Returns:
        Numbers that sum to `n_steps`, starting with 0.
    """
    multiples = range(frequency * (first // frequency + 1), first + n_steps, frequency)
    points = [first, *sorted({first, *multiples, first + n_steps})]
    return [int(n) for n in np.diff(points)]


def drive(
    executor: Executor[RunnerT],
    runner: RunnerT,
    lengths: Sequence[int],
    observers: Sequence[Observer],
    chunks: "TimedChunks",
) -> tuple[RunnerT, Metrics]:
    """Runs updates from one evaluation point to the next, in chunks short enough to interrupt.

    Args:
        executor: The programs of the run.
        runner: The runner to start from.
        lengths: Numbers of updates before each evaluation point.
        observers: Watch the run; called in their order.
        chunks: Split the updates, and say when to stop early.

    Returns:
        The final runner, and metrics with a leading axis of evaluation points.
    """
    points: list[Metrics] = []
    try:
        for length in lengths:
            for n_updates in chunks.split(length):
                outcome = executor.advance(runner, np.int32(n_updates))
                runner, first = jax.block_until_ready(outcome)
                ends = [observer.on_chunk(runner, n_updates, first) for observer in observers]
                chunks.stopped = chunks.stopped or any(ends)
            if chunks.stopped:
                break
            point = executor.evaluate(runner)
            points.append({name: jax.tree.map(np.array, x) for name, x in point.items()})
            history = stack_metrics(points)
            ends = [observer.on_point(runner, history) for observer in observers]
            if any(ends):
                break
    except BaseException:
        if points and not chunks.together and not is_used_up(runner):
            with contextlib.suppress(Exception):
                _interrupt(observers, runner, stack_metrics(points))
        raise
    if chunks.stopped:
        _interrupt(observers, runner, stack_metrics(points))
    return runner, stack_metrics(points)


def _interrupt(observers: Sequence[Observer], runner: PyTree, history: Metrics) -> None:
    for observer in observers:
        observer.on_interruption(runner, history)


class TimedChunks:
    """Sizes chunks by the time that they take; an interruption stops after the current one.

    Attributes:
        stopped: Whether the run has stopped.
        together: Whether all processes do this together.
    """

    def __init__(
        self, interruption: Interruption, seconds: float = _SECONDS, together: bool = False
    ) -> None:
        """Starts with chunks of one update.

        Args:
            interruption: Says when to stop.
            seconds: How long each chunk should take.
            together: Whether all processes do this together, with chunks of the same sizes and the
                same last chunk.
        """
        self.stopped = False
        self._interruption = interruption
        self._seconds = seconds
        self.together = together
        self._size = 1

    def split(self, length: int) -> Iterator[int]:
        """Yields sizes of chunks, and times the caller's work on each."""
        remaining = length
        while remaining > 0:
            n_updates = min(self._size, remaining)
            began = time.perf_counter()
            yield n_updates
            requested = self.stopped or self._interruption.requested
            self.stopped = processes.any_process(requested) if self.together else requested
            if self.stopped:
                return
            elapsed = time.perf_counter() - began
            remaining -= n_updates
            fitting = math.floor(n_updates * self._seconds / elapsed)
            size = max(1, min(fitting, 8 * n_updates))
            self._size = processes.agreed(size) if self.together else size
