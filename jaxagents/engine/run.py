"""A run of an agent from Python, with everything that plugs in around it; and replays of a stretch."""

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
    "Perhaps another process of this training has ended. Start all of them again: agent.resume goes on "
    "from the last checkpoint."
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
    """Trains from Python, with everything that plugs in around a training.

    Args:
        agent: The agent.
        executor: Its programs, where they run.
        runner: Where to start.
        earlier: Metrics of the trainings that this one goes on from.
        n_steps: Number of updates.
        progress: Whether to show a progress bar.
        loggers: Receive the mean metrics of every evaluation point.
        callbacks: Are told how the training goes, and may end it.
        interruption: Notes Ctrl-C and SIGTERM since before the runner was made.
        rng: Random key that the runner was made with, if it is fresh.

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
            loggers = [records.logger, *loggers]  # no error in another's costs it a line
            observers.append(records)
        known_steps = [] if earlier is None else earlier["update_step"]
        if leads:
            observers.append(LoggerObserver(loggers, known_steps))
        is_shown, steps = progress and leads, agent.config.steps_per_update
        bar = ProgressBar(agent, first, n_steps, not is_shown, steps)
        observers.append(stack.enter_context(bar))
        if n_steps:
            bar.say(agent.config.amount(n_steps))
        if callbacks:
            called = CallbackObserver(callbacks, first, n_steps, bar.say, together, earlier)
            observers.append(called)
        lengths = updates_between_points(n_steps, agent.config.eval_frequency, first)
        remembering = _Remembering(agent, earlier)
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


class _Remembering(Observer):
    """Has an agent remember a run at its end, and where it ends early, be it by an error."""

    def __init__(self, agent: Any, earlier: Metrics | None) -> None:
        self._agent = agent
        self._earlier = earlier

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Gives the agent the runner, be it without the earlier metrics where they do not go on."""
        self._agent.collect_training(runner, history)
        self._agent.collect_training(runner, join(self._earlier, history))


class Replay(NamedTuple):
    """A stretch of a training that was made once more.

    Attributes:
        runner: The runner after its last update, bit for bit the same as in the run.
        metrics: `update_step` and all that each update reports, such as losses and gradient norms, with
            a leading axis of updates.
        not_finite_since: The first update after which a number was not finite, if there was one.
        not_finite: Names of the arrays that were not finite then.
    """

    runner: PyTree
    metrics: Metrics
    not_finite_since: int | None
    not_finite: list[str]


def replay(agent: Any, first: int, n_updates: int, hyperparams: PyTree) -> Replay:
    """Goes from the nearest checkpoint to some update without a word, and looks at each after it.

    It goes on from each checkpoint that it comes by, which knows the hyperparameters from there on.

    Args:
        agent: The agent, whose configuration names the folder.
        first: Number of updates made before the stretch.
        n_updates: Number of updates in it.
        hyperparams: Hyperparameters structured as in the checkpoint.

    Returns:
        The stretch.

    Raises:
        FileNotFoundError: There is no checkpoint from which it can be reached.
        ValueError: The checkpoint was made without its replay buffer.
    """
    directory = agent.config.checkpoint_dir
    if directory is None:
        raise FileNotFoundError(
            "This agent has no checkpoint_dir, from which a stretch of a training could be made once "
            "more: set it in the configuration."
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
            "The checkpoints were made without their replay buffers (checkpoint_buffer=False), and "
            "without those no training can be made once more."
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
