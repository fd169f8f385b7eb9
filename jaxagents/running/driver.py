"""What drives training around the compiled update: points, chunks, progress, interruption, records."""

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax_tqdm.scan_pbar import scan_tqdm

from jaxagents.checkpoints import records as checkpoint
from jaxagents.core import processes
from jaxagents.core.metrics import Metrics, join, mean_metrics, stack_metrics
from jaxagents.loggers import Logger
from jaxagents.running.interruption import Interruption
from jaxagents.running.programs import OnDevice, OnMesh
from jaxagents.running.progress import ProgressBar

_SECONDS_PER_CHUNK = 0.25
_LOST_PROCESS = (
    "Perhaps another process of this training has ended. Start all of them again: agent.resume goes on "
    "from the last checkpoint."
)


class Program(Protocol):
    """What is driven: an agent, or several trainings at once."""

    def advance(self, runner: Any, n_updates: Any, /) -> Any:
        """Makes updates, using up the runner."""
        ...

    def evaluate(self, runner: Any, /) -> Metrics:
        """The metrics of one evaluation point."""
        ...


class Observer(Protocol):
    """Something that watches a training."""

    def on_chunk(self, n_updates: int) -> None:
        """Called after every chunk of updates."""

    def on_point(self, runner: Any, history: Metrics) -> None:
        """Called after every evaluation point."""

    def on_interruption(self, runner: Any, history: Metrics) -> None:
        """Called if training stops between two evaluation points."""


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
    points = [first, first, *multiples, first + n_steps]
    return [int(n) for n in np.diff(points)]


def train_in_one_program(
    agent: Any, runner: Any, n_steps: int, progress: bool
) -> tuple[Any, Metrics]:
    """Trains inside of a compiled program.

    Args:
        agent: The agent.
        runner: Where to start.
        n_steps: Number of updates.
        progress: Whether to show a jax-tqdm bar.

    Returns:
        The final runner, and metrics with a leading axis of evaluation points.
    """
    lengths = updates_between_points(n_steps, agent.config.eval_frequency)

    def to_next_point(runner: Any, x: tuple) -> tuple[Any, Metrics]:
        _, n_updates = x
        runner = agent.advance(runner, n_updates)
        return runner, agent.evaluate(runner)

    show = scan_tqdm(len(lengths), desc="evaluation points") if progress else lambda step: step
    points = jnp.arange(len(lengths))
    return jax.lax.scan(show(to_next_point), runner, (points, jnp.asarray(lengths, jnp.int32)))


def train(
    agent: Any,
    program: OnDevice | OnMesh,
    runner: Any,
    earlier: Metrics | None,
    n_steps: int,
    progress: bool,
    loggers: Sequence[Logger],
) -> tuple[Any, Metrics]:
    """Trains from Python, with everything that plugs in around a training.

    Args:
        agent: The agent.
        program: Its programs, where they run.
        runner: Where to start.
        earlier: Metrics of the trainings that this one goes on from.
        n_steps: Number of updates.
        progress: Whether to show a progress bar.
        loggers: Receive the mean metrics of every evaluation point.

    Returns:
        The final runner, and metrics with a leading axis of evaluation points.
    """
    first = int(runner.update_step)
    together = program.shared_by_processes
    leads = not together or processes.leads()
    with contextlib.ExitStack() as stack:
        interruption = stack.enter_context(Interruption())
        observers: list[Observer] = []
        if agent.config.checkpoint_dir is not None:
            records = stack.enter_context(checkpoint.Records(agent, runner, earlier, together))
            loggers = [*loggers, records.logger]
            observers.append(records)
        known_steps = [] if earlier is None else earlier["update_step"]
        if leads:
            observers.append(LoggerObserver(loggers, known_steps))
        bar = ProgressBar(agent, first, n_steps, disable=not (progress and leads))
        observers.append(stack.enter_context(bar))
        lengths = updates_between_points(n_steps, agent.config.eval_frequency, first)
        try:
            runner, metrics = drive(
                program, runner, lengths, observers, interruption, together=together
            )
        except jax.errors.JaxRuntimeError as error:
            if together:
                error.add_note(_LOST_PROCESS)
            raise
        agent.collect_training(runner, join(earlier, metrics))
    return runner, metrics


def drive(
    program: Program,
    runner: Any,
    lengths: Sequence[int],
    observers: Sequence[Observer],
    interruption: Interruption,
    seconds_per_chunk: float = _SECONDS_PER_CHUNK,
    together: bool = False,
) -> tuple[Any, Metrics]:
    """Runs a program from point to point, in chunks short enough to be interrupted.

    Args:
        program: What is trained.
        runner: Where to start.
        lengths: Numbers of updates before each evaluation point.
        observers: Watch the training.
        interruption: Says when to stop early.
        seconds_per_chunk: What chunks aim at.
        together: Whether all processes do this at once, and have to stop at the same chunk.

    Returns:
        The final runner, and metrics with a leading axis of evaluation points.
    """
    chunks = ChunkSizes(seconds_per_chunk, together)
    points: list[Metrics] = []
    stops = False
    for length in lengths:
        for n_updates in chunks.split(length):
            runner = jax.block_until_ready(program.advance(runner, np.int32(n_updates)))
            for observer in observers:
                observer.on_chunk(n_updates)
            requested = interruption.requested
            stops = processes.in_any(requested) if together else requested
            if stops:
                break
        if stops and length > 0:
            history = stack_metrics(points)
            for observer in observers:
                observer.on_interruption(runner, history)
            break
        points.append(jax.tree.map(np.array, program.evaluate(runner)))
        history = stack_metrics(points)
        for observer in observers:
            observer.on_point(runner, history)
    return runner, stack_metrics(points)


class ChunkSizes:
    """Sizes chunks of updates by the time that they take."""

    def __init__(self, seconds: float = _SECONDS_PER_CHUNK, together: bool = False) -> None:
        """Aims at chunks of `seconds`, of the same sizes in all processes if they work `together`."""
        self._seconds = seconds
        self._together = together
        self._size = 1

    def split(self, length: int) -> Iterator[int]:
        """Yields chunks that sum to `length`, timing what its caller does with each."""
        remaining = length
        while remaining > 0:
            n_updates = min(self._size, remaining)
            began = time.perf_counter()
            yield n_updates
            elapsed = time.perf_counter() - began
            remaining -= n_updates
            fitting = math.floor(n_updates * self._seconds / elapsed)
            size = max(1, min(fitting, 8 * n_updates))
            self._size = processes.agreed(size) if self._together else size


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

    def on_chunk(self, n_updates: int) -> None:
        """Does nothing."""

    def on_point(self, runner: Any, history: Metrics) -> None:
        """Logs the newest point."""
        point = mean_metrics({name: values[-1] for name, values in history.items()})
        step = int(point.pop("update_step"))
        if step in self._known_steps:
            return
        for logger in self._loggers:
            logger.log(step, point)

    def on_interruption(self, runner: Any, history: Metrics) -> None:
        """Does nothing."""
