"""Many runs at once: seeds times sets of hyperparameters."""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, PyTree

from jaxagents.callbacks import Callback
from jaxagents.checkpoints.records import records_of_sweep
from jaxagents.checkpoints.store import Restored
from jaxagents.core.grid import Grid
from jaxagents.core.metrics import MetricDict, Metrics, join
from jaxagents.core.report import FirstNonfinite, finite_members, in_words
from jaxagents.core.summary import as_html, as_text, lines_of
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.executors import RunnerT
from jaxagents.engine.loop import Interruption, TimedChunks, drive, updates_between_points
from jaxagents.engine.members import members_of
from jaxagents.engine.observers import CallbackObserver, LoggerObserver, Observer, SweepBar
from jaxagents.loggers import Logger

_SECONDS_PER_CHUNK = 1.0
"""For all members together; long, since each member starts its part with cold caches."""


class SweepResult(NamedTuple):
    """The result of a sweep.

    Attributes:
        runners: Final runners, with leading axes `(n_sets, n_seeds)`.
        metrics: Metrics, with leading axes `(n_sets, n_seeds, n_points)`.
        best: Index of the set of hyperparameters with the highest mean return at the last
            evaluation; `None` without evaluation during training.
        best_hyperparams: The hyperparameters of that set.
    """

    runners: PyTree
    metrics: MetricDict
    best: int | None
    best_hyperparams: PyTree

    def __repr__(self) -> str:
        return as_text("SweepResult", lines_of(self))

    def _repr_html_(self) -> str:
        return as_html("SweepResult", lines_of(self))


def sweep(
    agent: Behaviour[Any, Any, RunnerT],
    grid: Grid,
    earlier: Restored | None,
    n_steps: int,
    progress: bool,
    callbacks: Sequence[Callback] = (),
) -> SweepResult:
    """Trains every seed with every set of hyperparameters.

    Args:
        agent: The agent.
        grid: The seeds and sets.
        earlier: The last checkpoint of the sweep, if there is one.
        n_steps: Total number of updates, including earlier ones.
        progress: Whether to show progress.
        callbacks: Watch the sweep and may stop it.

    Returns:
        Runners and metrics with leading axes `(n_sets, n_seeds)`, and the best set.
    """
    if earlier is not None and earlier.history["update_step"][-1] >= n_steps:
        runners, metrics, nonfinite = earlier.tree, earlier.history, {}
    else:
        runners, metrics, nonfinite = _train(agent, grid, earlier, n_steps, progress, callbacks)
    are_finite = finite_members(agent.vital_arrays(runners)).reshape(grid.shape)
    runners, metrics = _by_set_and_seed((runners, _by_member(metrics, grid)), grid)
    _warn_of(are_finite, nonfinite)
    best = _best_set(metrics, are_finite)
    best_hyperparams = None if best is None else jax.tree.map(lambda x: x[best], grid.sets)
    return SweepResult(runners, MetricDict(metrics), best, best_hyperparams)


def first_member(earlier: Restored, grid: Grid) -> tuple[Metrics, PyTree]:
    """Metrics and runner of the first member of a sweep."""
    return jax.tree.map(lambda x: x[0], (_by_member(earlier.history, grid), earlier.tree))


def _train(
    agent: Behaviour[Any, Any, RunnerT],
    grid: Grid,
    earlier: Restored | None,
    n_steps: int,
    progress: bool,
    callbacks: Sequence[Callback],
) -> tuple[PyTree, Metrics, dict[int, str]]:
    """Returns the stacked runners, the metrics, and the updates at which members became non-finite."""
    first = 0 if earlier is None else int(earlier.tree.update_step[0])
    known = None if earlier is None else earlier.history
    n_steps = max(0, n_steps - first)
    nonfinite = _Nonfinite()
    observers: list[Observer] = [nonfinite]
    with contextlib.ExitStack() as stack:
        members = stack.enter_context(members_of(agent, grid.n_members))
        interruption = stack.enter_context(Interruption())
        if agent.config.checkpoint_dir is not None:
            records = records_of_sweep(agent, grid, members.gather, first, known)
            logger = stack.enter_context(records).logger
            lines = _Lines(logger, grid, known, agent.config.steps_per_update)
            observers += [records, lines]
        bar = SweepBar(agent, first, n_steps, disable=not progress)
        observers.append(stack.enter_context(bar))
        if callbacks:
            told = callbacks, first, n_steps, bar.say
            observers.append(_Callbacks(*told, known, grid, members.gather))
        if earlier is None:
            members.compile(grid.member_keys, grid.member_sets)
            runners = members.start(grid.member_keys, grid.member_sets)
        else:
            runners = members.place(earlier.tree)
        lengths = updates_between_points(n_steps, agent.config.eval_frequency, first)
        chunks = TimedChunks(interruption, _SECONDS_PER_CHUNK)
        runners, metrics = drive(members, runners, lengths, observers, chunks)
        return members.gather(runners), join(known, metrics), nonfinite.since


class _Nonfinite(Observer):
    """Records the updates at which members' values became non-finite.

    Attributes:
        since: The updates, as text, by member.
    """

    def __init__(self) -> None:
        self.since: dict[int, str] = {}

    def on_chunk(self, runner: PyTree, n_updates: int, first: FirstNonfinite) -> None:
        """Records members that were finite before."""
        first = jax.device_get(first)
        are = [x.reshape(len(x), -1).any(axis=1) for x in first.values()]
        for member in np.flatnonzero(np.any(are, axis=0)).tolist() if first else []:
            told = in_words({name: updates[member] for name, updates in first.items()})
            self.since.setdefault(member, "; ".join(f"since update {text}" for text in told))


class _Lines(LoggerObserver):
    """Passes the mean metrics of each member at each point to a logger."""

    def __init__(
        self, logger: Logger, grid: Grid, known: Metrics | None, steps_per_update: int
    ) -> None:
        """Takes the logger, the members, and the metrics that are already logged."""
        known_steps = [] if known is None else known["update_step"]
        super().__init__([logger], known_steps, steps_per_update)
        self._grid = grid

    def log(self, step: int, point: Metrics, **labels: float) -> None:
        """Logs the means of each member."""
        for i, (of_set, seed) in enumerate(np.ndindex(*self._grid.shape)):
            member = {name: values[i] for name, values in point.items()}
            super().log(step, member, set=of_set, seed=seed, **labels)


class _Callbacks(CallbackObserver):
    """Calls callbacks with all members, by set and seed."""

    what = "sweep"

    def __init__(
        self,
        callbacks: Sequence[Callback],
        first: int,
        n_steps: int,
        say: Callable[[str], None],
        known: Metrics | None,
        grid: Grid,
        gather: Callable[[PyTree], PyTree],
    ) -> None:
        """Like `CallbackObserver`, with the members and a function that stacks their runners."""
        self._grid = grid
        self._gather = gather
        earlier = None if known is None else self._by_point(known)
        super().__init__(callbacks, first, n_steps, say, earlier=earlier)

    def on_chunk(self, runner: PyTree, n_updates: int, first: FirstNonfinite) -> bool:
        """Calls the callbacks without runners: copying them after every chunk would take time."""
        return super().on_chunk(None, n_updates, first)

    def on_point(self, runner: PyTree, history: Metrics) -> bool:
        """Calls the callbacks."""
        runners = _by_set_and_seed(self._gather(runner), self._grid)
        return super().on_point(runners, self._by_point(history))

    def _means(self, point: Metrics) -> dict[str, float]:
        """The means of a point over the episodes of all members."""
        return super()._means({name: x.reshape(-1, *x.shape[3:]) for name, x in point.items()})

    def _by_point(self, history: Metrics) -> Metrics:
        """Metrics with axes of points, sets and seeds."""
        members = {name: x for name, x in history.items() if name != "update_step"}
        by_point = _by_set_and_seed(members, self._grid, axis=1)
        return {"update_step": history["update_step"], **by_point}


def _by_member(history: Metrics, grid: Grid) -> Metrics:
    """Metrics of a sweep, members first."""
    steps = np.tile(history["update_step"][:, None], grid.n_members)
    return jax.tree.map(lambda x: np.moveaxis(x, 1, 0), {**history, "update_step": steps})


def _by_set_and_seed(tree: PyTree, grid: Grid, axis: int = 0) -> PyTree:
    """Splits the axis of members into sets and seeds."""
    return jax.tree.map(
        lambda x: x.reshape(*x.shape[:axis], *grid.shape, *x.shape[axis + 1 :]), tree
    )


def _best_set(metrics: Metrics, are_finite: Bool[np.ndarray, "n_sets n_seeds"]) -> int | None:
    """The set with the highest mean return, among sets whose members are all finite."""
    if "returns" not in metrics:
        return None
    last = metrics["returns"][:, :, -1]
    means = last.reshape(last.shape[0], -1).mean(axis=1)
    means = np.where(np.isfinite(means) & are_finite.all(axis=1), means, -np.inf)
    return int(np.argmax(means)) if np.isfinite(means).any() else None


def _warn_of(are_finite: Bool[np.ndarray, "n_sets n_seeds"], nonfinite: dict[int, str]) -> None:
    """Warns of members with non-finite values, at the end or before."""
    indices = sorted({*np.flatnonzero(~are_finite).tolist(), *nonfinite})
    if not indices:
        return
    places = list(np.ndindex(*are_finite.shape))
    told = "".join(f" {places[i]} {nonfinite[i]}." for i in indices[:8] if i in nonfinite)
    warnings.warn(
        f"There are non-finite numbers in {len(indices)} of {are_finite.size} members of the sweep, by "
        f"(set, seed): {[places[i] for i in indices[:8]]}.{told} Sets whose members end with such "
        "numbers are never the best.",
        stacklevel=4,
    )
