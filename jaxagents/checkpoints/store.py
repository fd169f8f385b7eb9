"""A folder of checkpoints: listing, reading and verifying them."""

import contextlib
import glob
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jaxtyping import PyTree

from jaxagents.checkpoints import notes as checkpoint_notes
from jaxagents.checkpoints.leaves import check_leaves, leaves_of, read_leaves, with_leaves
from jaxagents.checkpoints.notes import HISTORY, TREE, CorruptCheckpointError, step_and_version
from jaxagents.core.files import folder
from jaxagents.core.metrics import Metrics

Notes = dict[str, Any]
Read = TypeVar("Read")

METRICS = "metrics.jsonl"
"""Name of the file of metrics in the folder of a run."""
OUTDATED = ".outdated"
"""Old checkpoints move to this folder before deletion, so that a kill leaves no partial ones."""
UNFINISHED = ".orbax-checkpoint-tmp"
"""Part of the names of unfinished checkpoints of orbax."""
SET_ASIDE = ".damaged-"
"""Part of the names of damaged checkpoints that were set aside."""

_LONGEST_LINES = 2**16
"""Number of bytes at the end of a file of metrics that are searched for its last line."""

_OWNERS = {
    "runner": "an agent (agent.restore reads them)",
    "learner": "a learner (written by train_online or train_offline, and no longer readable)",
    "members": "a sweep (agent.sweep continues from them)",
}
"""The owners of checkpoints, by the names of their pytrees."""


class Restored(NamedTuple):
    """The pytree of a checkpoint, the metrics of the points up to it, and its notes."""

    tree: PyTree
    history: Metrics
    notes: Notes


class Store:
    """The checkpoints of a run, in its folder.

    A checkpoint is a folder named after its step. It holds a pytree with a digest of every leaf, the
    history of metrics up to it, and the names of its owner. Writing it again with other contents makes
    a new version in a new folder (`20-2`), and the latest version counts: a kill leaves either the old
    or the new one. Each kind of run has a subclass.
    """

    item: ClassVar[str]  # name of the pytree
    owner: ClassVar[str]  # owner of the pytree, in messages
    if_filled: ClassVar[str]  # advice if the folder already holds checkpoints
    if_behind: ClassVar[str]  # advice if it holds later ones
    if_unsaved: ClassVar[str]  # advice if the end of a run could not be saved

    def __init__(self, directory: str | os.PathLike) -> None:
        """Takes the folder, which need not exist."""
        self.directory = folder("checkpoint_dir", directory).resolve()
        self.checkpoints = self.directory / "checkpoints"

    def folders(self) -> list[tuple[int, int, Path]]:
        """Step, version and path of every complete checkpoint, in order."""
        if not self.checkpoints.is_dir():
            return []
        named = [(step_and_version(path.name), path) for path in self.checkpoints.iterdir()]
        return sorted((*name, path) for name, path in named if name is not None)

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, in order."""
        return sorted({step for step, _, _ in self.folders()})

    def version(self, step: int) -> int:
        """The latest version of a step; 0 if there is no checkpoint."""
        return max((version for found, version, _ in self.folders() if found == step), default=0)

    def folder(self, step: int, version: int) -> Path:
        """The folder of a version of a step."""
        return self.checkpoints / (f"{step}-{version}" if version > 1 else str(step))

    def place(self, step: int) -> str:
        """Describes a checkpoint, for messages."""
        return f"The checkpoint of update {step} in {self.directory}"

    def check(self, may_be_filled: bool) -> None:
        """Checks that the folder can hold the checkpoints of a run.

        Raises:
            NotADirectoryError: It is a file.
            FileExistsError: It already holds checkpoints, and `may_be_filled` is false.
        """
        if self.directory.exists() and not self.directory.is_dir():
            raise NotADirectoryError(f"checkpoint_dir {self.directory} is a file, not a folder.")
        steps = self.steps()
        if steps and not may_be_filled:
            raise FileExistsError(
                f"{self.directory} already holds checkpoints, up to update {steps[-1]}. "
                f"{self.if_filled}, or choose another checkpoint_dir. Nothing was changed."
            )
        if not steps:
            self.warn_of_renamed()

    def warn_of_renamed(self) -> list[int]:
        """Warns of checkpoints that are ignored because their folders were renamed.

        Returns:
            Their steps.
        """
        steps, renamed = self.steps(), []
        for path in sorted(self.checkpoints.iterdir()) if self.checkpoints.is_dir() else []:
            is_ours = any(part in path.name for part in (OUTDATED, UNFINISHED, SET_ASIDE))
            if is_ours or step_and_version(path.name):
                continue
            with contextlib.suppress(ValueError):  # not a readable checkpoint
                step = checkpoint_notes.read(path)["step"]
                if step in steps:
                    continue
                renamed.append(step)
                warnings.warn(
                    f"{path} is the checkpoint of update {step}, and was renamed. It is "
                    f"skipped: rename it to {step} to use it again.",
                    stacklevel=3,
                )
        return renamed

    def _warn_of_missing(self, renamed: Sequence[int]) -> None:
        """Warns if the file of metrics has updates after the newest checkpoint, renamed or not."""
        newest, known = self.steps()[-1], last_step(self.directory / METRICS)
        if known is not None and known > max(newest, *renamed, -1):
            warnings.warn(
                f"{self.directory / METRICS} reaches update {known}, but the newest checkpoint "
                f"is of update {newest}: later ones were removed or renamed, or the run ended "
                "before they were written.",
                stacklevel=4,
            )

    def holds(self, item: str) -> bool:
        """Whether any checkpoint holds a pytree with this name."""
        names = (path.name for _, _, path in self.folders())
        return any(glob.glob(f"{name}/{item}*", root_dir=self.checkpoints) for name in names)

    def check_kind(self) -> None:
        """Raises a `ValueError` if the folder only holds checkpoints of another kind of run."""
        others = [owner for item, owner in _OWNERS.items() if self.holds(item)]
        if others and not self.holds(self.item):
            raise ValueError(
                f"{self.directory} holds checkpoints of {others[0]}, and of no {self.owner}."
            )

    def check_identity(self, step: int, notes: Notes, identity: Mapping[str, Any]) -> None:
        """Raises a `ValueError` unless the notes of a checkpoint have the given names."""
        for what, own in identity.items():
            if notes.get(what) != own:
                raise ValueError(
                    f"{self.place(step)} is of the {what} {notes.get(what)}, but this is {own}."
                )

    def notes(self, step: int) -> Notes:
        """The notes of a checkpoint."""
        return self._look(step, lambda path, notes: notes)

    def history(self, step: int) -> Metrics:
        """The metrics up to a checkpoint."""
        return self._look(step, lambda path, notes: self._part(path, notes, HISTORY))

    def read(self, step: int, identity: Mapping[str, Any], template: PyTree) -> Restored:
        """Reads a checkpoint.

        Args:
            step: The step.
            identity: Names that the notes must have, by kind.
            template: A pytree with the structure of the saved one; shapes are enough.

        Raises:
            ValueError: It belongs to something else; the error names the first leaf that differs.
            CorruptCheckpointError: It is damaged.
        """

        def look(path: Path, notes: Notes) -> Restored:
            self.check_identity(step, notes, identity)
            check_leaves(notes[TREE], leaves_of(template), self.place(step), self.owner)
            tree = with_leaves(template, self._part(path, notes, TREE))
            return Restored(tree, self._part(path, notes, HISTORY), notes)

        return self._look(step, look)

    def damage(self, step: int) -> CorruptCheckpointError | None:
        """The error of a damaged checkpoint; `None` if it is intact."""
        try:
            self._look(
                step, lambda path, notes: [self._part(path, notes, x) for x in (TREE, HISTORY)]
            )
        except CorruptCheckpointError as error:
            return error
        return None

    def first_readable(
        self,
        mode: str | int,
        best_fn: Callable[[Metrics], Any] | None,
        read: Callable[[int], Read],
    ) -> Read:
        """Reads the best or last checkpoint, or if it is damaged, the next best or next newest.

        If a running training has removed a checkpoint meanwhile, it searches again.

        Args:
            mode: `"best"`, `"last"`, or the number of a step, which has no substitute.
            best_fn: Maps the metrics at the kept checkpoints to the index of the best.
            read: Reads the checkpoint of a step.

        Raises:
            FileNotFoundError: There is no such checkpoint.
            ValueError: They belong to another kind of run, none has a finite mean return for `"best"`,
                or `best_fn` is given with another mode.
            CorruptCheckpointError: None could be read.
        """
        if best_fn is not None and mode != "best":
            raise ValueError(
                f"best_fn chooses the 'best' checkpoint, but {mode!r} was requested: leave one "
                "of them out."
            )
        renamed = self.warn_of_renamed()
        if not self.steps():
            raise FileNotFoundError(f"{self.directory} holds no checkpoints.")
        self.check_kind()
        if mode == "last":
            self._warn_of_missing(renamed)
        for step in self._candidates(mode, best_fn):
            try:
                return read(step)
            except CorruptCheckpointError as error:
                if not self.version(step):
                    return self.first_readable(mode, best_fn, read)
                if best_fn is not None or not isinstance(mode, str):
                    raise
                warnings.warn(f"{error} Falling back to another checkpoint.", stacklevel=4)
        raise CorruptCheckpointError(f"No checkpoint in {self.directory} could be read.")

    def mean_returns(self) -> dict[int, float | None]:
        """The mean returns of readable checkpoints, `None` if not measured.

        Warns of each damaged checkpoint.
        """
        return dict(self._undamaged(lambda step: self.notes(step)["mean_return"]))

    def _candidates(
        self, mode: str | int, best_fn: Callable[[Metrics], Any] | None
    ) -> Sequence[int]:
        """The steps to read, in the order to try."""
        steps = self.steps()
        if mode == "last":
            return steps[::-1]
        if mode in steps:
            return [int(mode)]
        if mode != "best":
            raise FileNotFoundError(
                f"There is no checkpoint of {mode!r}: choose 'best', 'last' or one of the update steps "
                f"{steps}."
            )
        if best_fn is not None:
            return [self._chosen(best_fn)]
        measured = {step: mean for step, mean in self.mean_returns().items() if mean is not None}
        if not best_first(measured):
            raise ValueError(
                f"No checkpoint in {self.directory} has a finite mean return, which needs "
                "evaluation during training: restore 'last', or pass best_fn."
            )
        return best_first(measured)

    def _chosen(self, best_fn: Callable[[Metrics], Any]) -> int:
        """The step of the kept checkpoint that `best_fn` chooses."""
        found = next(self._undamaged(self.history), None)
        if found is None:
            raise CorruptCheckpointError(f"No checkpoint in {self.directory} could be read.")
        step, history = found
        is_kept = np.isin(history["update_step"], [step, *self.steps()])
        history = {name: values[is_kept] for name, values in history.items()}
        kept = history["update_step"]
        chosen = np.asarray(best_fn(history))
        if chosen.ndim or chosen.dtype.kind not in "iu":
            raise TypeError(
                f"best_fn must return the index of one of the {len(kept)} kept checkpoints, an "
                f"integer, such as metrics['returns'].mean(axis=1).argmax(), got {chosen!r}."
            )
        return int(kept[int(chosen)])

    def _undamaged(self, read: Callable[[int], Read]) -> Iterator[tuple[int, Read]]:
        """Reads all checkpoints, the newest first; skips damaged ones with a warning.

        Checkpoints that their run has removed meanwhile are skipped silently. If it has removed all, it
        must have written new ones, which are read instead.
        """
        steps = self.steps()
        for step in steps[::-1]:
            try:
                found = read(step)
            except CorruptCheckpointError as error:
                if self.version(step):
                    warnings.warn(f"{error} It is skipped.", stacklevel=5)
                continue
            yield step, found
        if steps and not set(steps) & set(self.steps()):
            yield from self._undamaged(read)

    def _look(self, step: int, look: Callable[[Path, Notes], Read]) -> Read:
        """Reads from the folder and notes of a checkpoint; again, if there is now a newer version."""
        version = self.version(step)
        path = self.folder(step, version)
        try:
            return look(path, checkpoint_notes.read(path))
        except CorruptCheckpointError as error:
            if self.version(step) <= version:
                raise CorruptCheckpointError(f"{self.place(step)} is damaged: {error}.") from error
        return self._look(step, look)

    def _part(self, path: Path, notes: Notes, part: str) -> dict[str, np.ndarray]:
        arrays = path / notes.get("arrays", self.item)  # notes of older releases name the folder
        return read_leaves(arrays, part, notes[part])


def last_step(metrics: Path) -> int | None:
    """The update step in the last complete line of a file of metrics; `None` if there is none."""
    with contextlib.suppress(OSError), metrics.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINES))
        for line in reversed(file.read().splitlines()):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return int(json.loads(line)["update_step"])
    return None


def best_first(mean_returns: Mapping[int, float]) -> list[int]:
    """Steps with a finite mean return, the highest first; ties go to the newest."""
    finite = [step for step, mean in mean_returns.items() if math.isfinite(mean)]
    return sorted(finite, key=lambda step: (mean_returns[step], step), reverse=True)
