"""Checkpoints of a training on the host."""

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxagents.checkpoints.store import CorruptCheckpointError, Store
from jaxagents.checkpoints.writer import Writer, warn_if_unwritten
from jaxagents.core.arrays import without_weak_types
from jaxagents.core.metrics import Metrics
from jaxagents.host.checks import check_learner
from jaxagents.host.driver import Run
from jaxagents.host.journal import read_part, remove_abandoned
from jaxagents.loggers import JSONLLogger

_STATE = "state"


class HostStore(Store):
    """The checkpoints of a training on the host, whose replay buffer is in files beside them."""

    item = "learner"
    owner = "learner"
    unit = "step"
    step_name = "step"
    if_filled = "Give resume=True to go on from them"
    if_behind = "Give resume=True to go on from the last checkpoint"

    def __init__(self, directory: str | os.PathLike) -> None:
        """Takes the folder, which need not exist."""
        super().__init__(directory)
        self.replay = self.directory / "replay"

    def verify(self, step: int) -> None:
        """Raises if a checkpoint, or a file that it names, cannot be read back as it was written."""
        super().verify(step)
        for name in self.files(step):
            read_part(self.replay, name)

    def files(self, step: int | str) -> list[str]:
        """Names of the files with the transitions of a checkpoint, by its step or its folder's name."""
        parts = self.notes(step)[_STATE]["training"].get("replay") or []
        return [name for name, _, _ in parts]

    def files_set_aside(self) -> set[str]:
        """Names of the files with the transitions of damaged checkpoints, as far as they tell."""
        names = set()
        for folder in self.checkpoints.glob("*.damaged-*"):
            with contextlib.suppress(CorruptCheckpointError):
                names.update(self.files(folder.name))
        return names


def restore_learner(
    learner: Any,
    checkpoint_dir: str | os.PathLike,
    mode: str | int = "best",
    best_fn: Callable[[Metrics], Any] | None = None,
) -> tuple[Any, Metrics]:
    """Reads a learner from the checkpoints of a training on the host.

    ```python
    learner = SACLearner.create(0, observations, actions)
    learner, metrics = restore_learner(learner, "runs/cheetah")
    ```

    Args:
        learner: A learner made like the one that was trained.
        checkpoint_dir: Folder of the training.
        mode: `"best"` (the highest mean return of the kept checkpoints), `"last"`, or the number of a
            step.
        best_fn: Maps the metrics at the kept checkpoints to the index of the best.

    Returns:
        The learner, and the metrics of the training up to it.

    Raises:
        TypeError: `learner` is none, but a class of learners for instance.
        FileNotFoundError: There is no such checkpoint.
        ValueError: It is of another learner, of which the first leaf that differs is named, or of an
            agent.
        CorruptCheckpointError: It is damaged. With `"best"` and `"last"`, the next is taken instead.
    """
    check_learner(learner)
    store = HostStore(checkpoint_dir)
    template = without_weak_types(learner)
    restored = store.first_readable(
        mode, best_fn, lambda step: store.read(step, learner_identity(learner), template)
    )
    return restored.tree, restored.history


def learner_identity(learner: Any) -> dict[str, str]:
    """The class of a learner, as checkpoints note it."""
    return {"learner": type(learner).__qualname__}


def go_on(run: Run, store: HostStore, identity: Mapping[str, Any]) -> None:
    """Brings a training to where its last readable checkpoint was, if there is one.

    Args:
        run: The training, which has not begun.
        store: Its checkpoints.
        identity: What they have to be of.

    Raises:
        ValueError: They are of something else.
        CorruptCheckpointError: None can be read.
    """

    def read(step: int) -> None:
        restored = store.read(step, identity, run.training.updates.learner)
        run.load(step, restored.tree, restored.history, restored.notes[_STATE])

    if store.steps():
        store.first_readable("last", None, read)


class Records:
    """Keeps the records of one training in its checkpoint folder, which it locks.

    The folder holds `config.json`, `metrics.jsonl`, `checkpoints/` and, of an online training,
    `replay/`.
    """

    def __init__(self, store: HostStore, run: Run, identity: Mapping[str, Any]) -> None:
        """Prepares the records; nothing is written before the context is entered.

        Args:
            store: Where they go.
            run: The training.
            identity: What they are of.
        """
        self._store = store
        self._run = run
        learner = run.training.updates.learner
        description = {
            **identity,
            "config": run.config.computation(),
            "learner_config": getattr(learner, "config", None),
            "hyperparameters": getattr(learner, "hyperparams", None),
        }
        self._writer = Writer(
            store,
            identity,
            keep=run.config.keep_checkpoints,
            start=run.training.step,
            descriptions={"config": description},
        )
        self._files: dict[int, list[str]] = {}
        self.logger = JSONLLogger(store.directory / "metrics.jsonl", step_name="step")

    def __enter__(self) -> "Records":
        """Locks the folder, describes the training in it, and removes what a kill left of another.

        Raises:
            FileExistsError: Another training writes to the folder.
        """
        self._writer.__enter__()
        steps = self._store.steps()
        for step in steps:
            with contextlib.suppress(CorruptCheckpointError):
                self._files[step] = self._store.files(step)
        if len(self._files) == len(steps):
            named = {name for names in self._files.values() for name in names}
            with contextlib.suppress(OSError):
                remove_abandoned(self._store.replay, named | self._store.files_set_aside())
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for the last checkpoint and unlocks the folder."""
        self._writer.__exit__(*exception)

    def save(self, evaluated: bool) -> None:
        """Saves a checkpoint; only warns if that fails.

        Args:
            evaluated: Whether it has a return, and may be the best.
        """
        run, step = self._run, self._run.training.step
        with warn_if_unwritten():
            state = run.state()
            mean_return = float(np.mean(run.history["returns"][-1])) if evaluated else None
            learner = run.training.updates.learner
            self._writer.save(step, learner, run.history, mean_return, {_STATE: state})
            self._files[step] = [part.name for part in state["training"].get("replay") or []]
            self._remove_unneeded_files(step)

    def _remove_unneeded_files(self, newest: int) -> None:
        """Deletes the transitions that no kept checkpoint names any more."""
        kept = {newest, *self._store.steps()}
        gone = [step for step in self._files if step not in kept]
        needed = {name for step in kept for name in self._files.get(step, [])}
        for name in {name for step in gone for name in self._files.pop(step)} - needed:
            (self._store.replay / name).unlink(missing_ok=True)
