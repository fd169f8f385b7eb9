"""A run of an agent from Python: the loop, with everything that plugs in around it."""

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
from jaxtyping import PyTree

from jaxagents.callbacks import Callback
from jaxagents.checkpoints import records as checkpoint
from jaxagents.core import processes
from jaxagents.core.keys import RandomKey
from jaxagents.core.metrics import Metrics, join
from jaxagents.engine.executors import OnDevice, OnMesh, RunnerT
from jaxagents.engine.host import OnHost
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
    executor: OnDevice[RunnerT] | OnHost[RunnerT] | OnMesh[RunnerT],
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
        bar = ProgressBar(agent, first, n_steps, disable=not (progress and leads))
        observers.append(stack.enter_context(bar))
        if n_steps:
            bar.say(agent.config.amount(n_steps))
        if callbacks:
            called = CallbackObserver(callbacks, first, n_steps, bar.say, together, earlier)
            observers.append(called)
        lengths = updates_between_points(n_steps, agent.config.eval_frequency, first)
        observers.append(_Remembering(agent, earlier))
        try:
            chunks = TimedChunks(interruption, together=together)
            runner, metrics = drive(
                executor, runner, lengths, observers, chunks, alone=not together
            )
        except jax.errors.JaxRuntimeError as error:
            if together:
                error.add_note(_LOST_PROCESS)
            raise
        _remember(agent, runner, earlier, metrics)
    return runner, metrics


class _Remembering(Observer):
    """Has an agent remember a training that ends early, be it by an error."""

    def __init__(self, agent: Any, earlier: Metrics | None) -> None:
        self._agent = agent
        self._earlier = earlier

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Gives the agent the runner and the metrics up to it."""
        _remember(self._agent, runner, self._earlier, history)


def _remember(agent: Any, runner: PyTree, earlier: Metrics | None, history: Metrics) -> None:
    """Has an agent remember a runner, be it without the earlier metrics where they do not go on."""
    agent.collect_training(runner, history)
    agent.collect_training(runner, join(earlier, history))
