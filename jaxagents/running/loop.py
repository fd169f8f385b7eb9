"""The loop that drives every training, compiled or on the host: from point to point, in chunks."""

import contextlib
from collections.abc import Sequence
from typing import Protocol, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.metrics import Metrics, stack_metrics
from jaxagents.running.chunks import Chunks

RunnerT = TypeVar("RunnerT")
Watched = TypeVar("Watched", contravariant=True)


class Program(Protocol[RunnerT]):
    """A training that can be driven: of one agent, of several at once, or of a learner on the host."""

    def advance(self, runner: RunnerT, n_updates: np.int32, /) -> RunnerT:
        """Makes updates, using up the runner."""
        ...

    def evaluate(self, runner: RunnerT, /) -> Metrics:
        """The metrics of one evaluation point."""
        ...


class Observer(Protocol[Watched]):
    """Something that watches a training. What is true ends it."""

    def on_chunk(self, runner: Watched, n_updates: int, /) -> bool | None:
        """Called after every chunk of updates."""

    def on_point(self, runner: Watched, history: Metrics, /) -> bool | None:
        """Called after every evaluation point."""

    def on_interruption(self, runner: Watched, history: Metrics, /) -> None:
        """Called if training stops between evaluation points, such as on Ctrl-C or by an error."""


def updates_between_points(n_steps: int, frequency: int, first: int = 0) -> list[int]:
    """Numbers of updates before each evaluation point; the first point is before any update.

    Args:
        n_steps: Number of updates in all.
        frequency: Points lie at multiples of it, and at the end.
        first: Number of updates made earlier.

    Returns:
        Numbers that sum to `n_steps`, the first of them 0.
    """
    multiples = range(frequency * (first // frequency + 1), first + n_steps, frequency)
    points = [first, *sorted({first, *multiples, first + n_steps})]
    return [int(n) for n in np.diff(points)]


def drive(
    program: Program[RunnerT],
    runner: RunnerT,
    lengths: Sequence[int],
    observers: Sequence[Observer[RunnerT]],
    chunks: Chunks,
    alone: bool = True,
) -> tuple[RunnerT, Metrics]:
    """Runs a program from point to point, in chunks short enough to be interrupted.

    Args:
        program: The training.
        runner: Where to start.
        lengths: Numbers of updates before each evaluation point.
        observers: Watch the training, each of them after those before it.
        chunks: Split the updates, and say when to stop early.
        alone: Whether no other process takes part, which would have to know of an error in this one.

    Returns:
        The final runner, and metrics with a leading axis of evaluation points.
    """
    points: list[Metrics] = []
    try:
        for length in lengths:
            for n_updates in chunks.split(length):
                runner = jax.block_until_ready(program.advance(runner, np.int32(n_updates)))
                ends = [observer.on_chunk(runner, n_updates) for observer in observers]
                if any(ends):
                    chunks.stop()
            if chunks.stopped:
                break
            points.append(_on_the_host(program.evaluate(runner)))
            history = stack_metrics(points)
            ends = [observer.on_point(runner, history) for observer in observers]
            if any(ends):
                break
    except BaseException:
        if alone and points and _is_there(runner):
            with contextlib.suppress(Exception):
                _interrupt(observers, runner, stack_metrics(points))
        raise
    if chunks.stopped:
        _interrupt(observers, runner, stack_metrics(points))
    return runner, stack_metrics(points)


def _interrupt(observers: Sequence[Observer[RunnerT]], runner: RunnerT, history: Metrics) -> None:
    for observer in observers:
        observer.on_interruption(runner, history)


def _is_there(runner: PyTree) -> bool:
    """Whether a runner was not used up by updates that failed."""
    arrays = [leaf for leaf in jax.tree.leaves(runner) if isinstance(leaf, jax.Array)]
    return not any(array.is_deleted() for array in arrays)


def _on_the_host(metrics: Metrics) -> Metrics:
    return {name: jax.tree.map(np.array, values) for name, values in metrics.items()}
