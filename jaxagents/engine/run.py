"""Runs of an agent from Python, with checkpoints, loggers and callbacks; and replays."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.callbacks import Callback
from jaxagents.checkpoints import records as checkpoint
from jaxagents.checkpoints.notes import CorruptCheckpointError
from jaxagents.core import processes
from jaxagents.core.arrays import RandomKey
from jaxagents.core.metrics import Metrics, join, stack_metrics
from jaxagents.core.report import not_finite
from jaxagents.engine.executors import OnDevice, RunnerT
from jaxagents.engine.loop import Interruption, TimedChunks, drive, updates_between_points
from jaxagents.engine.observers import (
    CallbackObserver,
    LoggerObserver,
    Observer,
    ProgressBar,
    Watch,
)
from jaxagents.loggers import Logger

_LOST_PROCESS = (
    "Perhaps another process of this run has ended. Start all of them again: agent.resume "
    "continues from the last checkpoint."
)


def train(
    agent: Any,
    executor: OnDevice[RunnerT],
    runner: RunnerT,
    earlier: Metrics | None,
    n_steps: int,
    progress: bool,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
    interruption: Interruption,
    rng: RandomKey | None = None,
) -> tuple[RunnerT, Metrics]:
    """Trains from Python, with checkpoints, loggers, callbacks and progress.

    Args:
        agent: The agent.
        executor: Its programs on their devices.
        runner: The runner to start from.
        earlier: Metrics of the runs that this one continues.
        n_steps: Number of updates.
        progress: Whether to show a progress bar.
        loggers: Receive the mean metrics of every evaluation point.
        callbacks: Watch the run and may stop it.
        interruption: Catches Ctrl-C and SIGTERM; entered before the runner was created.
        rng: Random key that the runner was created with, if it is fresh.

    Returns:
        The final runner, and metrics with a leading axis of evaluation points.
    """
    first = int(runner.update_step)
    together = executor.shared_by_processes
    leads = not together or processes.leads()
    with contextlib.ExitStack() as stack:
        stops = agent.config.stop_if_not_finite
        observers: list[Observer] = [Watch(agent.vital_arrays, first, stops, together=together)]
        if agent.config.checkpoint_dir is not None:
            own = checkpoint.records_of(agent, runner, earlier, together, rng)
            records = stack.enter_context(own)
            loggers = [records.logger, *loggers]  # first, so that errors in others cost no line
            observers.append(records)
        known_steps = [] if earlier is None else earlier["update_step"]
        is_shown, steps = progress and leads, agent.config.steps_per_update
        if leads:
            observers.append(LoggerObserver(loggers, known_steps, steps))
        bar = ProgressBar(agent, first, n_steps, not is_shown, steps)
        observers.append(stack.enter_context(bar))
        if n_steps:
            bar.say(agent.config.amount(n_steps))
        if callbacks:
            called = CallbackObserver(callbacks, first, n_steps, bar.say, together, earlier)
            observers.append(called)
        lengths = updates_between_points(n_steps, agent.config.eval_frequency, first)
        remembering = _LastRunObserver(agent, earlier)
        observers.append(remembering)
        try:
            chunks = TimedChunks(interruption, together=together)
            runner, metrics = drive(executor, runner, lengths, observers, chunks)
        except jax.errors.JaxRuntimeError as error:
            if together:
                error.add_note(_LOST_PROCESS)
            raise
        remembering.on_interruption(runner, metrics)
    return runner, metrics


class _LastRunObserver(Observer):
    """Makes an agent remember a run when it ends, even early or with an error."""

    def __init__(self, agent: Any, earlier: Metrics | None) -> None:
        self._agent = agent
        self._earlier = earlier

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Stores the run, without the earlier metrics if they cannot be joined."""
        self._agent.collect_training(runner, history)
        self._agent.collect_training(runner, join(self._earlier, history))


class Replay(NamedTuple):
    """A replayed part of a run.

    Attributes:
        runner: The runner after the last update, bit-for-bit identical to the original run's.
        metrics: `update_step` and the metrics of each update, such as losses and gradient norms, with a
            leading axis of updates.
        not_finite_since: The first update after which a value was non-finite; `None` if there was none.
        not_finite: Names of the arrays that were non-finite then.
    """

    runner: PyTree
    metrics: Metrics
    not_finite_since: int | None
    not_finite: list[str]


def replay(agent: Any, first: int, n_updates: int, hyperparams: PyTree) -> Replay:
    """Replays a part of a run, with the metrics of each update.

    It continues from each checkpoint on the way, since the run's hyperparameters may have changed there.

    Args:
        agent: The agent, with a checkpoint folder in its configuration.
        first: Number of updates before the replayed part.
        n_updates: Number of updates to replay.
        hyperparams: Hyperparameters with the same structure as in the checkpoint.

    Returns:
        The replayed part.

    Raises:
        FileNotFoundError: There is no checkpoint at `first` or earlier.
        ValueError: The checkpoint lacks its replay buffer.
    """
    directory = agent.config.checkpoint_dir
    if directory is None:
        raise FileNotFoundError(
            "This agent has no checkpoint_dir to replay updates from: set it in the configuration."
        )
    steps = checkpoint.saved_steps(directory)
    reachable = [step for step in steps if step <= first]
    if not reachable:
        raise FileNotFoundError(
            f"Update {first} cannot be reached from any checkpoint in {directory}, which holds {steps}."
        )
    runner, _ = checkpoint.restore(agent, reachable[-1], None, hyperparams)
    if getattr(runner, "buffer", runner) is None:
        raise ValueError(
            "The checkpoints were made without their replay buffers (checkpoint_buffer=False), "
            "and without them updates cannot be replayed."
        )
    runner = agent.advance(runner, np.int32(first - reachable[-1]))
    reports = []
    found = not_finite(agent.vital_arrays(runner))
    since = first if found else None
    for step in range(first + 1, first + n_updates + 1):
        if step - 1 > first and step - 1 in steps:
            with contextlib.suppress(CorruptCheckpointError):
                runner, _ = checkpoint.restore(agent, step - 1, None, hyperparams)
        runner = agent.advance(runner, np.int32(1))
        reports.append({"update_step": np.int32(step), **jax.device_get(runner.info)})
        if not found and (found := not_finite(agent.vital_arrays(runner))):
            since = step
    return Replay(runner, stack_metrics(reports), since, found)
