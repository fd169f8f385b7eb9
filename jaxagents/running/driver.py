"""A training of an agent: the loop with everything that plugs in around it, or one compiled program."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Generic

import jax
import jax.numpy as jnp
from jax_tqdm.scan_pbar import scan_tqdm
from jaxtyping import ArrayLike

from jaxagents.callbacks import Callback
from jaxagents.checkpoints import records as checkpoint
from jaxagents.core import processes
from jaxagents.core.keys import RandomKey
from jaxagents.core.metrics import Metrics, join
from jaxagents.loggers import Logger
from jaxagents.running.callbacks import CallbackObserver
from jaxagents.running.chunks import TimedChunks
from jaxagents.running.interruption import Interruption
from jaxagents.running.loop import Observer, drive, updates_between_points
from jaxagents.running.on_host import OnHost
from jaxagents.running.points import LoggerObserver
from jaxagents.running.programs import OnDevice, OnMesh
from jaxagents.running.progress import ProgressBar
from jaxagents.running.trainable import PureProgram, RunnerT, Trainable
from jaxagents.running.watch import Watch, Watched

_LOST_PROCESS = (
    "Perhaps another process of this training has ended. Start all of them again: agent.resume goes on "
    "from the last checkpoint."
)


def train_in_one_program(
    program: PureProgram[RunnerT], runner: RunnerT, n_steps: int, progress: bool
) -> tuple[RunnerT, Metrics]:
    """Trains inside of a compiled program.

    Args:
        program: The pure functions of the runner.
        runner: Where to start.
        n_steps: Number of updates.
        progress: Whether to show a jax-tqdm bar.

    Returns:
        The final runner, and metrics with a leading axis of evaluation points.
    """
    lengths = updates_between_points(n_steps, program.config.eval_frequency)

    def to_next_point(runner: RunnerT, x: tuple[ArrayLike, ArrayLike]) -> tuple[RunnerT, Metrics]:
        _, n_updates = x
        runner = program.advance(runner, n_updates)
        return runner, program.evaluate(runner)

    step: Callable = to_next_point
    if progress:
        step = scan_tqdm(len(lengths), desc="evaluation points")(to_next_point)
    points = jnp.arange(len(lengths))
    return jax.lax.scan(step, runner, (points, jnp.asarray(lengths, jnp.int32)))


def train(
    agent: Trainable[RunnerT],
    program: OnDevice[RunnerT] | OnHost[Any] | OnMesh[RunnerT],
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
        program: Its programs, where they run.
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
    together = program.shared_by_processes
    leads = not together or processes.leads()
    with contextlib.ExitStack() as stack:
        stops = agent.config.stop_if_not_finite
        watched = Watched(program)
        watch = Watch(agent, first, stops, together=together, watched=watched)
        observers: list[Observer[RunnerT]] = [watch]
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
        observers.append(Remembering(agent, earlier))
        try:
            chunks = TimedChunks(interruption, together=together)
            runner, metrics = drive(watched, runner, lengths, observers, chunks, alone=not together)
        except jax.errors.JaxRuntimeError as error:
            if together:
                error.add_note(_LOST_PROCESS)
            raise
        _remember(agent, runner, earlier, metrics)
    return runner, metrics


class Remembering(Generic[RunnerT]):
    """Has an agent remember a training that ends early, be it by an error."""

    def __init__(self, agent: Trainable[RunnerT], earlier: Metrics | None) -> None:
        """Takes the agent, and the metrics of the trainings that this one goes on from."""
        self._agent = agent
        self._earlier = earlier

    def on_chunk(self, runner: RunnerT, n_updates: int) -> None:
        """Does nothing."""

    def on_point(self, runner: RunnerT, history: Metrics) -> None:
        """Does nothing."""

    def on_interruption(self, runner: RunnerT, history: Metrics) -> None:
        """Gives the agent the runner and the metrics up to it."""
        _remember(self._agent, runner, self._earlier, history)


def _remember(
    agent: Trainable[RunnerT], runner: RunnerT, earlier: Metrics | None, history: Metrics
) -> None:
    """Has an agent remember a runner, be it without the earlier metrics where they do not go on."""
    agent.collect_training(runner, history)
    agent.collect_training(runner, join(earlier, history))
