"""Checkpoints of a training on the host."""

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from jaxtyping import ArrayLike

from jaxagents.checkpoints import notes as checkpoint_notes
from jaxagents.checkpoints.notes import CorruptCheckpointError
from jaxagents.checkpoints.records import Records, Snapshot
from jaxagents.checkpoints.store import SET_ASIDE, Store
from jaxagents.checkpoints.writer import Writer
from jaxagents.core.arrays import without_weak_types
from jaxagents.core.finite import not_finite
from jaxagents.core.metrics import Metrics
from jaxagents.host.checks import check_learner
from jaxagents.host.config import HostConfig
from jaxagents.host.journal import Part, parts_of, read_part, remove_abandoned
from jaxagents.host.learner_like import LearnerLike, LearnerT
from jaxagents.host.program import HostRunner

_STATE = "state"


class HostStore(Store):
    """The checkpoints of a training on the host, whose replay buffer is in files beside them."""

    item = "learner"
    owner = "learner"
    unit = "step"
    step_name = "step"
    if_filled = "Give resume=True to go on from them"
    if_behind = "Give resume=True to go on from the last checkpoint"
    if_unsaved = "What is not saved is in the learner that is returned, and nowhere else"
    passing = (_STATE,)  # which names files with transitions, written for it alone

    def __init__(self, directory: str | os.PathLike) -> None:
        """Takes the folder, which need not exist."""
        super().__init__(directory)
        self.replay = self.directory / "replay"
        self._files: dict[int, list[str]] = {}

    def on_begin(self) -> None:
        """Removes the transitions that a kill left of another training."""
        steps = self.steps()
        for step in steps:
            with contextlib.suppress(CorruptCheckpointError):
                self._files[step] = self.files(step)
        if len(self._files) == len(steps):
            named = {name for names in self._files.values() for name in names}
            with contextlib.suppress(OSError):
                remove_abandoned(self.replay, named | self.files_set_aside())

    def on_save(self, step: int, notes: Mapping[str, Any]) -> None:
        """Deletes the transitions that no kept checkpoint names any more."""
        self._files[step] = _files(notes)
        kept = {step, *self.steps()}
        gone = [saved for saved in self._files if saved not in kept]
        needed = {name for saved in kept for name in self._files.get(saved, [])}
        for name in {name for saved in gone for name in self._files.pop(saved)} - needed:
            (self.replay / name).unlink(missing_ok=True)

    def verify(self, step: int) -> None:
        """Raises if a checkpoint, or a file that it names, cannot be read back as it was written."""
        super().verify(step)
        for part in _parts(self.notes(step)):
            read_part(self.replay, part)

    def files(self, step: int) -> list[str]:
        """Names of the files with the transitions of a checkpoint."""
        return _files(self.notes(step))

    def files_set_aside(self) -> set[str]:
        """Names of the files with the transitions of damaged checkpoints, as far as they tell."""
        names = set()
        for folder in self.checkpoints.glob(f"*{SET_ASIDE}*"):
            with contextlib.suppress(CorruptCheckpointError):
                names.update(_files(checkpoint_notes.read(folder)))
        return names


def restore_learner(
    learner: LearnerT,
    checkpoint_dir: str | os.PathLike,
    mode: str | int = "best",
    best_fn: Callable[[Metrics], ArrayLike] | None = None,
) -> tuple[LearnerT, Metrics]:
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
        best_fn: Maps the metrics at the kept checkpoints to the index of the best. Only with `"best"`.

    Returns:
        The learner, and the metrics of the training up to it.

    Raises:
        TypeError: `learner` is not a learner, but for instance a class.
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


def learner_identity(learner: LearnerLike) -> dict[str, str]:
    """The class of a learner, as checkpoints note it."""
    return {"learner": type(learner).__qualname__}


def go_on(runner: HostRunner, store: HostStore, identity: Mapping[str, Any]) -> Metrics | None:
    """Brings a training to where its last readable checkpoint was, if there is one.

    Args:
        runner: The training, which has not begun.
        store: Its checkpoints.
        identity: The learner and settings that the checkpoints must be of.

    Returns:
        The metrics of the points up to there.

    Raises:
        ValueError: They are of something else.
        CorruptCheckpointError: None can be read.
    """

    def read(step: int) -> Metrics:
        restored = store.read(step, identity, runner.learner)
        runner.load(step, restored.tree, restored.notes[_STATE])
        return restored.history

    return store.first_readable("last", None, read) if store.steps() else None


def records_of(
    store: HostStore,
    runner: HostRunner,
    config: HostConfig,
    identity: Mapping[str, Any],
    earlier: Metrics | None,
) -> Records:
    """The records of a training on the host: of an online one, also `replay/`.

    Args:
        store: Where they go.
        runner: Where the training starts.
        config: Its configuration.
        identity: The learner and settings that the records are of.
        earlier: Metrics of the training that it continues.

    Returns:
        The records.
    """
    learner = runner.learner
    description = {
        **identity,
        "config": config.computation(),
        "learner_config": getattr(learner, "config", None),
        "hyperparameters": getattr(learner, "hyperparams", None),
    }
    writer = Writer(
        store,
        identity,
        keep=config.keep_checkpoints,
        start=runner.step,
        descriptions={"config": description},
    )
    return Records(store, writer, _snapshot, earlier)


def _snapshot(runner: HostRunner) -> Snapshot:
    """The contents of a checkpoint; writes new transitions to disk."""
    is_sound = not (runner.first_spoilt or not_finite(runner.vital_arrays()))
    return Snapshot(runner.step, runner.learner, {_STATE: runner.state()}, is_sound)


def _files(notes: Mapping[str, Any]) -> list[str]:
    """Names of the files with the transitions of a checkpoint."""
    return [part.name for part in _parts(notes)]


def _parts(notes: Mapping[str, Any]) -> list[Part]:
    return parts_of(notes[_STATE]["training"].get("replay") or [])
