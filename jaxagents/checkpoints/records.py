"""The records of a training in a folder of its own, and those of an agent."""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import ArrayLike, PyTree

from jaxagents.checkpoints.notes import TREE, CorruptCheckpointError
from jaxagents.checkpoints.recorded import RecordedAgent
from jaxagents.checkpoints.shared_writer import SharedWriter
from jaxagents.checkpoints.store import Restored, Store
from jaxagents.checkpoints.troubles import Troubles
from jaxagents.checkpoints.writer import Writer, write_description
from jaxagents.core import processes
from jaxagents.core.arrays import is_key
from jaxagents.core.describe import to_json
from jaxagents.core.finite import not_finite
from jaxagents.core.keys import RandomKey, as_key, implementation_of, single_key
from jaxagents.core.metrics import Metrics, join
from jaxagents.core.saved_schedules import notes_of_schedules, structured_as_saved
from jaxagents.loggers import JSONLLogger, Logger

__all__ = [
    "CorruptCheckpointError",
    "Records",
    "Snapshot",
    "check_first_key",
    "check_folder",
    "records_of",
    "restore",
    "saved_steps",
    "write_description",
]


_KEYS = "random keys"
_FIRST_KEY = "first random key"
_INFO = "info/"


class Snapshot(NamedTuple):
    """The contents of a checkpoint, besides the history.

    Attributes:
        step: Number of updates (or other steps) made.
        tree: The pytree.
        notes: Anything else to store, as JSON.
        is_sound: Whether the pytree may be the best, or what an interrupted training goes on from.
    """

    step: int
    tree: PyTree
    notes: Mapping[str, Any]
    is_sound: bool = True


class MetricsFile(Logger):
    """The file of metrics, whose lines wait in memory while they cannot be written."""

    def __init__(self, logger: JSONLLogger, troubles: Troubles) -> None:
        """Takes the logger that writes the file, and what warns of troubles."""
        self._logger = logger
        self._troubles = troubles
        self._waiting: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Writes a line, after those that wait."""
        self._waiting.append((step, metrics))
        self.write()

    def write(self) -> None:
        """Writes the lines that wait, as far as possible."""
        with self._troubles.attempt(OSError):
            while self._waiting:
                self._logger.log(*self._waiting[0])
                del self._waiting[0]


class Records:
    """Keeps the records of one training in its checkpoint folder, which it locks.

    The folder holds `config.json`, `metrics.jsonl` and `checkpoints/`. Some kinds of training add other
    files.
    """

    def __init__(
        self,
        store: Store,
        writer: Writer,
        snapshot: Callable[[PyTree], Snapshot],
        earlier: Metrics | None,
    ) -> None:
        """Prepares the records; nothing is written before the context is entered.

        Args:
            store: Where they go.
            writer: Writes checkpoints there.
            snapshot: Maps a runner to the contents of a checkpoint.
            earlier: Metrics of the trainings that this one continues.
        """
        self._store = store
        self._writer = writer
        self._snapshot = snapshot
        self._earlier = earlier
        self._at_checkpoint = bool(earlier)
        self._has_failed = False
        self.logger = MetricsFile(
            JSONLLogger(store.directory / "metrics.jsonl", store.step_name), writer.troubles
        )

    def __enter__(self) -> "Records":
        """Locks the folder and describes the training in it.

        Raises:
            FileExistsError: Another training writes to the folder, or it holds later checkpoints.
        """
        self._writer.__enter__()
        self._store.on_begin()
        return self

    def __exit__(self, *exception: object) -> None:
        """Writes what is left, and unlocks the folder; warns of a training whose end is not saved."""
        self.logger.write()
        self._writer.__exit__(*exception)
        if (self._has_failed or self._writer.is_behind) and exception[0] is None:
            steps = self._store.steps()
            held = f"checkpoints up to {self._store.unit} {steps[-1]}" if steps else "no checkpoint"
            warnings.warn(
                f"The end of the training could not be saved in {self._store.directory}, which has "
                f"{held}. {self._store.if_unsaved}.",
                stacklevel=2,
            )

    def on_chunk(self, runner: PyTree, n_updates: int, first: PyTree) -> None:
        """Notes that the last checkpoint is no longer up to date."""
        self._at_checkpoint = False

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Saves a checkpoint with its mean return, by which the best one is found."""
        mean_return = float(np.mean(history["returns"][-1])) if "returns" in history else None
        self._save(runner, history, mean_return)

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Saves a sound checkpoint without a return, unless the last one is up to date."""
        if not self._at_checkpoint:
            self._save(runner, history, None, only_if_sound=True)

    def _save(
        self,
        runner: PyTree,
        history: Metrics,
        mean_return: float | None,
        only_if_sound: bool = False,
    ) -> None:
        self._at_checkpoint = self._has_failed = True
        metrics = join(self._earlier, history, self._store.step_name)
        with self._writer.attempt():
            step, tree, notes, is_sound = self._snapshot(runner)
            if is_sound or not (only_if_sound or self._writer.is_written(step)):
                self._writer.save(step, tree, metrics, mean_return if is_sound else None, notes)
                self._store.on_save(step, notes)
            self._has_failed = False


class AgentStore(Store):
    """The checkpoints of an agent's training."""

    item = "runner"
    owner = "agent"
    unit = "update"
    step_name = "update_step"
    if_filled = "Set restore_agent=True in the configuration to restore from them"
    if_behind = (
        "Go on from the last checkpoint (runner, _ = agent.restore('last') and "
        "agent.train(None, hyperparams, runner))"
    )
    if_unsaved = (
        "Before this process ends, make room and train on from the runner that is returned, which is "
        "saved first: agent.train(None, hyperparams, runner, n_steps=1)"
    )


def check_folder(directory: str | os.PathLike, may_be_filled: bool) -> None:
    """Raises if a folder cannot take the checkpoints of an agent.

    Args:
        directory: The folder, which need not exist.
        may_be_filled: Whether it may hold checkpoints already.

    Raises:
        NotADirectoryError: It is a file.
        FileExistsError: It holds checkpoints and may not.
    """
    AgentStore(directory).check(may_be_filled)


def check_first_key(directory: str | os.PathLike, rng: RandomKey | None) -> None:
    """Raises if the training in a folder began with another random key.

    Args:
        directory: The folder, which holds checkpoints. Older releases did not note the key with them.
        rng: The key; `None` fits any.

    Raises:
        TypeError: It is no random key.
        ValueError: It is another one, or there are several.
    """
    if rng is None:
        return
    store, own = AgentStore(directory), to_json(single_key(rng, "resume"))
    step = store.steps()[-1]
    if (noted := _first_key(store, step)) not in (None, own):
        raise ValueError(
            f"{store.place(step)} is of another training: its first random key is {noted}, and this "
            f"one's {own}. Give what it began with, or choose another checkpoint_dir. Nothing was "
            "changed."
        )


def saved_steps(directory: str | os.PathLike) -> list[int]:
    """Update steps of the finished checkpoints in a folder, in order."""
    return AgentStore(directory).steps()


def restore(
    agent: RecordedAgent,
    mode: str | int,
    best_fn: Callable[[Metrics], ArrayLike] | None,
    hyperparams: PyTree,
) -> tuple[PyTree, Metrics]:
    """Reads a checkpoint of an agent.

    Args:
        agent: The agent, whose configuration names the folder.
        mode: `"best"`, `"last"`, or the number of an update step.
        best_fn: Maps the metrics at the kept checkpoints to the index of the best.
        hyperparams: Hyperparameters structured as those that were saved, but for schedules.

    Returns:
        The runner, and the history of metrics up to it.
    """
    if agent.config.checkpoint_dir is None:
        raise FileNotFoundError(
            "This agent has no checkpoint_dir to restore from: set it in the configuration."
        )
    store = AgentStore(agent.config.checkpoint_dir)

    def fresh(rng: RandomKey, hyperparams: PyTree) -> PyTree:
        return agent.checkpointed(agent.start(rng, hyperparams))

    def read(step: int) -> Restored:
        notes = store.notes(step)
        like_saved = structured_as_saved(hyperparams, notes)
        key = jax.random.key(0, impl=notes.get(_KEYS))
        template = with_saved_info(jax.eval_shape(fresh, key, like_saved), notes)
        return store.read(step, identity_of(agent), template)

    runner, history, _ = store.first_readable(mode, best_fn, read)
    return runner, history


def with_saved_info(template: Any, notes: Mapping[str, Any]) -> PyTree:
    """A runner, as shapes, with the numbers that updates had reported when it was saved.

    A fresh runner has none yet.
    """
    saved = {leaf["path"]: leaf for leaf in notes[TREE] if leaf["path"].startswith(_INFO)}
    info = {
        path.removeprefix(_INFO): jax.ShapeDtypeStruct(leaf["shape"], leaf["dtype"])
        for path, leaf in saved.items()
    }
    return template.replace(info=info)


def records_of(
    agent: RecordedAgent,
    runner: PyTree,
    earlier: Metrics | None,
    together: bool = False,
    rng: RandomKey | None = None,
) -> Records:
    """The records of an agent's training: also `hyperparameters.json`.

    Args:
        agent: The agent, whose configuration names the folder.
        runner: Where the training starts.
        earlier: Metrics of the trainings that it continues.
        together: Whether all processes make the training, and these records.
        rng: Random key of a fresh training, which its checkpoints note.

    Returns:
        The records.
    """
    assert agent.config.checkpoint_dir is not None
    store, start = AgentStore(agent.config.checkpoint_dir), int(runner.update_step)
    if rng is not None:
        first_key = to_json(as_key(rng))
    else:
        first_key = None if earlier is None else _first_key(store, start)
    own_notes = {_FIRST_KEY: first_key}

    def snapshot(runner: PyTree) -> Snapshot:
        is_spoilt = bool(not_finite(agent.vital_arrays(runner)))
        is_spoilt = processes.in_any(is_spoilt) if together else is_spoilt
        notes = {**notes_of_schedules(runner.hyperparams), **_notes_of_keys(runner), **own_notes}
        return Snapshot(int(runner.update_step), agent.checkpointed(runner), notes, not is_spoilt)

    writer = (SharedWriter if together else Writer)(
        store,
        identity_of(agent),
        keep=agent.config.keep_checkpoints,
        start=start,
        descriptions={"config": description_of(agent), "hyperparameters": runner.hyperparams},
    )
    return Records(store, writer, snapshot, earlier)


def _notes_of_keys(runner: PyTree) -> dict[str, str]:
    """The implementation of the random keys of a runner, on which the shapes of their data depend."""
    keys = [leaf for leaf in jax.tree.leaves(runner) if is_key(leaf)]
    return {_KEYS: str(implementation_of(keys[0]))} if keys else {}


def _first_key(store: AgentStore, step: int) -> list[int] | None:
    """The random key that the training of a checkpoint began with, if it is noted."""
    try:
        return store.notes(step).get(_FIRST_KEY)
    except CorruptCheckpointError:
        return None


def description_of(agent: RecordedAgent) -> dict[str, Any]:
    """The contents of an agent's `config.json`."""
    return {
        **identity_of(agent),
        "env_params": agent.env_params,
        "config": agent.config.computation(),
    }


def identity_of(agent: RecordedAgent) -> dict[str, str]:
    """The names of an agent in the notes of its checkpoints."""
    return {"agent": type(agent).__qualname__, "environment": agent.episodes.env.name}
