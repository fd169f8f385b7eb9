"""The records of a run or sweep in its folder: checkpoints, metrics and configuration."""

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import ArrayLike, PyTree

from jaxagents.checkpoints.disk import DiskErrors
from jaxagents.checkpoints.disk import write_description as write_description
from jaxagents.checkpoints.makeup import differences, makeup_of
from jaxagents.checkpoints.notes import (
    TREE,
    CorruptCheckpointError,
    notes_of_schedules,
    structured_as_saved,
)
from jaxagents.checkpoints.store import METRICS, Restored, Store
from jaxagents.checkpoints.writer import SharedWriter, Writer
from jaxagents.core import processes
from jaxagents.core.arrays import RandomKey, as_key, implementation_of, is_key, single_key
from jaxagents.core.describe import to_json
from jaxagents.core.grid import Grid
from jaxagents.core.metrics import Metrics, join
from jaxagents.core.report import not_finite
from jaxagents.loggers import JSONLLogger, Logger

Agent = Any
"""An agent. Its class is in a higher layer, which this one cannot import."""

SWEEP = "sweep"
"""Name of a sweep's folder in the checkpoint folder."""

_GRID = "grid"
_KEYS = "random keys"
_FIRST_KEY = "first random key"
_MAKEUP = "makeup"
_INFO = "info/"


class Snapshot(NamedTuple):
    """The contents of a checkpoint, besides the history. Only finite pytrees may become the best."""

    step: int
    tree: PyTree
    notes: Mapping[str, Any]
    is_finite: bool = True


class MetricsFile(Logger):
    """The file of metrics. Lines that cannot be written yet are kept in memory."""

    def __init__(self, logger: JSONLLogger, disk_errors: DiskErrors) -> None:
        """Takes the logger that writes the file, and the object that warns of disk errors."""
        self._logger = logger
        self._disk_errors = disk_errors
        self._waiting: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Writes the waiting lines, then this one."""
        self._waiting.append((step, metrics))
        self.write()

    def write(self) -> None:
        """Writes the waiting lines, as far as possible."""
        with self._disk_errors.attempt(OSError):
            while self._waiting:
                self._logger.log(*self._waiting[0])
                del self._waiting[0]


class Records:
    """Keeps the records of one run in a locked folder.

    The folder holds `config.json`, `metrics.jsonl` and `checkpoints/`. Some kinds of runs add others.
    """

    def __init__(
        self,
        store: Store,
        writer: Writer,
        snapshot: Callable[[PyTree], Snapshot],
        earlier: Metrics | None,
    ) -> None:
        """Prepares the records; writes nothing before the context is entered.

        `snapshot` maps a runner to the contents of a checkpoint. `earlier` are the metrics of the runs
        that this one continues.
        """
        self._store = store
        self._writer = writer
        self._snapshot = snapshot
        self._earlier = earlier
        self._at_checkpoint = bool(earlier)
        self._has_failed = False
        file = JSONLLogger(store.directory / METRICS)
        self.logger = MetricsFile(file, writer.disk_errors)

    def __enter__(self) -> "Records":
        """Locks the folder, and writes the description of the run.

        Raises:
            FileExistsError: Another run writes to the folder, or it holds later checkpoints.
        """
        self._writer.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        """Completes the records and unlocks the folder; warns if the end of the run is not saved."""
        self.logger.write()
        self._writer.__exit__(*exception)
        if (self._has_failed or self._writer.is_behind) and exception[0] is None:
            steps = self._store.steps()
            held = f"checkpoints up to update {steps[-1]}" if steps else "no checkpoint"
            warnings.warn(
                f"The end of the run could not be saved in {self._store.directory}, which has "
                f"{held}. {self._store.if_unsaved}.",
                stacklevel=2,
            )

    def on_chunk(self, runner: PyTree, n_updates: int, first: PyTree) -> None:
        """Marks the last checkpoint as out of date."""
        self._at_checkpoint = False

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Saves a checkpoint with its mean return, which decides the best one."""
        mean_return = float(np.mean(history["returns"][-1])) if "returns" in history else None
        self._save(runner, history, mean_return)

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Saves a checkpoint without a return if the runner is finite and has changed."""
        if not self._at_checkpoint:
            self._save(runner, history, None, only_if_finite=True)

    def _save(
        self,
        runner: PyTree,
        history: Metrics,
        mean_return: float | None,
        only_if_finite: bool = False,
    ) -> None:
        self._at_checkpoint = self._has_failed = True
        metrics = join(self._earlier, history)
        with self._writer.attempt():
            step, tree, notes, is_finite = self._snapshot(runner)
            if is_finite or not (only_if_finite or self._writer.is_written(step)):
                self._writer.save(step, tree, metrics, mean_return if is_finite else None, notes)
            self._has_failed = False


class AgentStore(Store):
    """The checkpoints of an agent's run."""

    item = "runner"
    owner = "agent"
    if_filled = "Set restore_agent=True in the configuration to restore from them"
    if_behind = (
        "Continue from the last checkpoint (runner, _ = agent.restore('last') and "
        "agent.train(None, hyperparams, runner))"
    )
    if_unsaved = (
        "Before this process ends, make room and continue from the returned runner, which is "
        "then saved first: agent.train(None, hyperparams, runner, n_steps=1)"
    )

    def first_key(self, step: int) -> list[int] | None:
        """The random key that the run of a checkpoint started with, if its notes have it."""
        try:
            return self.notes(step).get(_FIRST_KEY)
        except CorruptCheckpointError:
            return None


def saved_steps(directory: str | os.PathLike) -> list[int]:
    """Update steps of the complete checkpoints in a folder, in order."""
    return AgentStore(directory).steps()


def check_first_key(directory: str | os.PathLike, rng: RandomKey | None) -> None:
    """Checks that the run in a checkpoint folder started with a random key; `None` skips the check.

    Raises:
        TypeError: `rng` is not a random key.
        ValueError: The run started with another key, or `rng` holds several.
    """
    if rng is None:
        return
    store, own = AgentStore(directory), to_json(single_key(rng, "resume"))
    step = store.steps()[-1]
    if (noted := store.first_key(step)) not in (None, own):
        raise ValueError(
            f"{store.place(step)} is of another run: its first random key is {noted}, and this "
            f"one's {own}. Pass what it began with, or choose another checkpoint_dir. Nothing "
            "was changed."
        )


def restore(
    agent: Agent,
    mode: str | int,
    best_fn: Callable[[Metrics], ArrayLike] | None,
    hyperparams: PyTree,
    strict: bool = True,
) -> tuple[PyTree, Metrics]:
    """Reads a runner, and the metrics up to it, from an agent's checkpoint.

    See `Store.first_readable` for `mode` and `best_fn`. Except for schedules, the hyperparameters must
    have the structure of the saved ones. Unless `strict`, other networks with the same arrays, or other
    environment parameters, only cause a warning.
    """
    if agent.config.checkpoint_dir is None:
        raise FileNotFoundError(
            "This agent has no checkpoint_dir to restore from: set it in the configuration."
        )
    store = AgentStore(agent.config.checkpoint_dir)

    def read(step: int) -> Restored:
        notes = store.notes(step)
        like_saved = structured_as_saved(hyperparams, notes)
        key = jax.random.key(0, impl=notes.get(_KEYS))
        template = _with_saved_info(_fresh_shapes(agent, key, like_saved), notes)
        found = store.read(step, _identity(agent), template)
        _check_makeup(store.place(step), notes, makeup_of(agent, template), strict)
        return found

    runner, history, _ = store.first_readable(mode, best_fn, read)
    return runner, history


def _check_makeup(
    place: str, notes: Mapping[str, Any], own: dict[str, Any], strict: bool = True
) -> None:
    """Raises, or warns unless `strict`, if a checkpoint's networks or environment differ."""
    found = [*differences(notes.get(_MAKEUP, {}), own)]
    if not found:
        return
    what = f"{place} was made with other networks or in another environment: {'; '.join(found)}"
    if strict:
        raise ValueError(
            f"{what}. Make the agent as it was, or restore with strict=False if this is "
            "intended. Nothing was changed."
        )
    warnings.warn(f"{what}.", stacklevel=5)


def _with_saved_info(template: Any, notes: Mapping[str, Any]) -> PyTree:
    """Adds the saved runner's metrics to a fresh runner, as shapes."""
    saved = {leaf["path"]: leaf for leaf in notes[TREE] if leaf["path"].startswith(_INFO)}
    info = {
        path.removeprefix(_INFO): jax.ShapeDtypeStruct(leaf["shape"], leaf["dtype"])
        for path, leaf in saved.items()
    }
    return template.replace(info=info)


def records_of(
    agent: Agent,
    runner: PyTree,
    earlier: Metrics | None,
    together: bool = False,
    rng: RandomKey | None = None,
) -> Records:
    """The records of an agent's run, including `hyperparameters.json`.

    Args:
        agent: The agent, with the folder in its configuration.
        runner: The runner at the start.
        earlier: Metrics of the runs that it continues.
        together: Whether all processes share the run and these records.
        rng: Random key of a fresh run, to store in its checkpoints.
    """
    store, start = AgentStore(agent.config.checkpoint_dir), int(runner.update_step)
    makeup = makeup_of(agent, runner)
    if rng is not None:
        first_key = to_json(as_key(rng))
    else:
        first_key = None if earlier is None else store.first_key(start)

    def snapshot(runner: PyTree) -> Snapshot:
        is_nonfinite = bool(not_finite(agent.vital_arrays(runner)))
        is_nonfinite = processes.any_process(is_nonfinite) if together else is_nonfinite
        notes = {**notes_of_schedules(runner.hyperparams), _FIRST_KEY: first_key, _MAKEUP: makeup}
        keys = [leaf for leaf in jax.tree.leaves(runner) if is_key(leaf)]
        if keys:
            notes[_KEYS] = str(implementation_of(keys[0]))
        return Snapshot(
            int(runner.update_step), agent.checkpointed(runner), notes, not is_nonfinite
        )

    kind = SharedWriter if together else Writer
    writer = kind(store, *_description(agent, start, runner.hyperparams))
    return Records(store, writer, snapshot, earlier)


def _fresh_shapes(agent: Agent, rng: RandomKey, hyperparams: PyTree) -> PyTree:
    """The shapes of a fresh runner, without the fields that checkpoints leave out."""
    return jax.eval_shape(lambda *args: agent.checkpointed(agent.start(*args)), rng, hyperparams)


def _description(agent: Agent, start: int, hyperparams: PyTree) -> tuple[Any, ...]:
    """The arguments of a writer after its store, for an agent's run from update `start` on."""
    identity, config = _identity(agent), agent.config.computation()
    description = {**identity, "env_params": agent.env_params, "config": config}
    files = {"config": description, "hyperparameters": hyperparams}
    return identity, agent.config.keep_checkpoints, start, files


def _identity(agent: Agent) -> dict[str, str]:
    """The names of agent and environment, for the notes of checkpoints."""
    return {"agent": type(agent).__qualname__, "environment": agent.episodes.env.name}


class SweepStore(Store):
    """The checkpoints of a sweep."""

    item = "members"
    owner = "sweep"
    if_filled = "Set restore_agent=True in the configuration to continue from them"
    if_behind = "Set restore_agent=True in the configuration to continue from the last checkpoint"
    if_unsaved = "What is not saved exists only in the returned runners"


def restore_members(agent: Agent, grid: Grid) -> Restored | None:
    """Reads the runners and metrics of a sweep's last checkpoint; `None` if there is none.

    Raises:
        FileExistsError: There are checkpoints, and `restore_agent` is not set.
        ValueError: They belong to a different agent or sweep; the error names the first difference.
        CorruptCheckpointError: None can be read.
    """
    if agent.config.checkpoint_dir is None:
        return None
    store = SweepStore(Path(agent.config.checkpoint_dir) / SWEEP)
    store.check(agent.config.restore_agent)
    if not store.steps():
        return None

    def read(step: int) -> Restored:
        notes = store.notes(step)
        store.check_identity(step, notes, _identity(agent))
        difference = grid.difference(notes[_GRID])
        if difference is not None:
            raise ValueError(
                f"{store.place(step)} is of another sweep: {difference}. Pass what it began "
                "with, or choose another checkpoint_dir. Nothing was changed."
            )
        one = _fresh_shapes(agent, grid.seeds[0], jax.tree.map(lambda x: x[0], grid.sets))
        _check_makeup(store.place(step), notes, makeup_of(agent, one))
        shapes = jax.tree.map(lambda x: x.update(shape=(grid.n_members, *x.shape)), one)
        return store.read(step, _identity(agent), _with_saved_info(shapes, notes))

    return store.first_readable("last", None, read)


def records_of_sweep(
    agent: Agent,
    grid: Grid,
    gather: Callable[[PyTree], PyTree],
    first: int,
    earlier: Metrics | None,
) -> Records:
    """The records of a sweep, including `hyperparameters.json` with all sets.

    `gather` stacks the members' runners. `earlier` are the metrics up to update `first`.
    """

    def snapshot(runners: PyTree) -> Snapshot:
        stack = agent.checkpointed(gather(runners))
        notes = {_GRID: grid.notes(), _MAKEUP: makeup_of(agent, stack)}
        return Snapshot(int(stack.update_step[0]), stack, notes)

    store = SweepStore(Path(agent.config.checkpoint_dir) / SWEEP)
    writer = Writer(store, *_description(agent, first, grid.sets))
    return Records(store, writer, snapshot, earlier)


def verify(checkpoint_dir: str | os.PathLike) -> dict[int, str | None]:
    """Reads every checkpoint of a run, and compares it with its digests.

    ```python
    outcomes = verify("runs/cartpole")
    damaged = {step: damage for step, damage in outcomes.items() if damage}
    ```

    Checkpoints that a run removes in the meantime are skipped.

    Args:
        checkpoint_dir: Folder of an agent's run or of a sweep.

    Returns:
        By step: `None` if the checkpoint is intact, or a description of the damage.

    Raises:
        FileNotFoundError: The folder holds no checkpoints.
    """
    stores = SweepStore(checkpoint_dir), AgentStore(checkpoint_dir)
    store = next((store for store in stores if store.holds(store.item)), stores[-1])
    store.warn_of_renamed()
    steps = store.steps()
    if not steps:
        raise FileNotFoundError(f"{store.directory} holds no checkpoints.")
    damages = {step: store.damage(step) for step in steps}
    kept = store.steps()
    outcomes = {
        step: damage and str(damage)
        for step, damage in damages.items()
        if damage is None or step in kept
    }
    return outcomes or verify(checkpoint_dir)  # if all were removed meanwhile
