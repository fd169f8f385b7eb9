"""A training on the host: the loop with everything that plugs in around it."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxtyping import PyTree

from jaxagents.callbacks import Callback
from jaxagents.checkpoints.records import Records
from jaxagents.core.metrics import Metrics, join
from jaxagents.engine.interruption import Interruption
from jaxagents.engine.loop import AlignedChunks, drive
from jaxagents.engine.observers import CallbackObserver, Watch
from jaxagents.host.checkpoint import HostStore, go_on, records_of
from jaxagents.host.checks import check_reported
from jaxagents.host.learner_like import LearnerLike
from jaxagents.host.logs import LogBar, Logs
from jaxagents.host.program import HostProgram, HostRunner
from jaxagents.host.schedule import Schedule
from jaxagents.loggers import Logger


def train(
    runner: HostRunner,
    evaluate: Callable[[LearnerLike], Metrics],
    schedule: Schedule,
    store: HostStore | None,
    identity: Mapping[str, Any],
    resume: bool,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
    title: str | None,
) -> tuple[PyTree, Metrics]:
    """Goes on or begins, and trains.

    Args:
        runner: The training, which has not begun.
        evaluate: Maps a learner to metrics of episodes; to none if nothing evaluates it.
        schedule: Its points and logs.
        store: Where its records go.
        identity: The learner and settings of the checkpoints; others are refused on resuming.
        resume: Whether to go on from the last one, if there is one.
        loggers: Receive evaluations, and what training reports.
        callbacks: Are told how the training goes, and may end it.
        title: Title of the progress bar, without which none is shown.

    Returns:
        The learner, and the metrics of all points.
    """
    training = runner.training
    check_reported(training.updates.names, runner.learner)
    with Interruption() as interruption:
        with contextlib.ExitStack() as stack:
            earlier = go_on(runner, store, identity) if store is not None and resume else None
            first = runner.step
            records: list[Records] = []
            if store is not None:
                own = records_of(store, runner, schedule.config, identity, earlier)
                records.append(stack.enter_context(own))
            remaining = schedule.remaining(first)
            bar = LogBar(title or "", first, remaining, title is None, training.unit)
            logs = Logs(schedule, [*(kept.logger for kept in records), *loggers, bar])
            program = HostProgram(evaluate)
            watch = Watch(
                HostRunner.vital_arrays,
                first,
                schedule.config.stop_if_not_finite,
                training.unit,
                schedule.is_due,
            )
            called = CallbackObserver(
                callbacks, first, remaining, bar.say, earlier=earlier, step_name="step"
            )
            observers = [watch, stack.enter_context(bar), logs, *records]
            observers += [called] if callbacks else []
            lengths = schedule.lengths(first, begins=earlier is None)
            frequencies = training.steps_per_call, schedule.config.log_frequency
            chunks = AlignedChunks(interruption, first, frequencies)
            _, metrics = drive(program, runner, lengths, observers, chunks)
        if chunks.stopped:
            bar.say(_message_about_files(runner.step, store))
    if chunks.stopped:
        bar.say("What was learned so far is returned.")
    return runner.learner, join(earlier, metrics, "step")


def _message_about_files(step: int, store: HostStore | None) -> str:
    """Says how much of a training that stopped at a step is on disk."""
    steps = [] if store is None else [saved for saved in store.steps() if saved <= step]
    if store is None or not steps:
        return "Nothing was saved."
    if steps[-1] < step:
        return f"{store.place(steps[-1])} is the last: what came after it was not saved."
    return f"All of it is in {store.directory}: resume=True goes on from there."
