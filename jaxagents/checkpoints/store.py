"""A folder of checkpoints: listing, reading and verifying them."""

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jaxtyping import PyTree

from jaxagents.checkpoints import notes as checkpoint_notes
from jaxagents.checkpoints.leaves import check_leaves, leaves_of, with_leaves
from jaxagents.checkpoints.names import arrays, step_of, strangers
from jaxagents.checkpoints.notes import (
    HISTORY,
    TREE,
    CorruptCheckpointError,
    arrays_of,
    mean_return_of,
)
from jaxagents.checkpoints.reading import read_arrays
from jaxagents.core.folders import folder
from jaxagents.core.metrics import Metrics

Read = TypeVar("Read")

_OWNERS = {
    "runner": "an agent (agent.restore reads them)",
    "learner": "a learner (restore_learner reads them)",
    "members": "a sweep (agent.sweep goes on from them)",
}
"""The owners of checkpoints, by the names of their pytrees."""


class Restored(NamedTuple):
    """The contents of a checkpoint.

    Attributes:
        tree: The pytree.
        history: Metrics of the points up to the checkpoint.
        notes: Notes kept with it, as JSON.
    """

    tree: PyTree
    history: Metrics
    notes: dict[str, Any]


class Store:
    """The checkpoints of a training, in a folder of its own.

    A checkpoint holds a pytree with a digest of every leaf, the history of metrics up to it, and the
    names of its owner. A subclass says what kind of training it is.
    """

    item: ClassVar[str]
    """Name of the pytree."""
    owner: ClassVar[str]
    """Whose pytree it is, in messages."""
    unit: ClassVar[str]
    """The unit of steps, in messages."""
    step_name: ClassVar[str]
    """Name of the steps in the history."""
    if_filled: ClassVar[str]
    """Advice in messages where the folder already holds checkpoints."""
    if_behind: ClassVar[str]
    """Advice in messages where it holds later ones."""
    if_unsaved: ClassVar[str]
    """Advice in messages where the end of a training could not be saved."""
    passing: ClassVar[tuple[str, ...]] = ()
    """Notes that are others whenever the same is saved, and alone are no reason to save it anew."""

    def __init__(self, directory: str | os.PathLike) -> None:
        """Takes the folder, which need not exist."""
        self.directory = folder("checkpoint_dir", directory).resolve()
        self.checkpoints = self.directory / "checkpoints"

    def steps(self) -> list[int]:
        """Steps of the finished checkpoints, in order."""
        if not self.checkpoints.is_dir():
            return []
        steps = (step_of(path.name) for path in self.checkpoints.iterdir())
        return sorted(step for step in steps if step is not None)

    def check(self, may_be_filled: bool) -> None:
        """Raises if the folder cannot take checkpoints.

        Args:
            may_be_filled: Whether it may hold checkpoints already.

        Raises:
            NotADirectoryError: It is a file.
            FileExistsError: It holds checkpoints and may not.
        """
        if self.directory.exists() and not self.directory.is_dir():
            raise NotADirectoryError(f"checkpoint_dir {self.directory} is a file, not a folder.")
        steps = self.steps()
        if steps and not may_be_filled:
            raise FileExistsError(
                f"{self.directory} already holds checkpoints, up to {self.unit} {steps[-1]}. "
                f"{self.if_filled}, or choose another checkpoint_dir. Nothing was changed."
            )
        if not steps:
            self.warn_of_renamed()

    def warn_of_renamed(self) -> None:
        """Warns of checkpoints that are passed over, since the names of their folders are no steps."""
        steps = self.steps()
        for path in strangers(self.checkpoints) if self.checkpoints.is_dir() else []:
            step = checkpoint_notes.renamed_from(path)
            if step is not None and step not in steps:
                warnings.warn(
                    f"{path} is the checkpoint of {self.unit} {step}, and was renamed. It is passed "
                    f"over: name it {step} again to have it back.",
                    stacklevel=3,
                )

    def place(self, step: int | str) -> str:
        """A checkpoint in words."""
        return f"The checkpoint of {self.unit} {step} in {self.directory}"

    def first_readable(
        self,
        mode: str | int,
        best_fn: Callable[[Metrics], Any] | None,
        read: Callable[[int], Read],
    ) -> Read:
        """Reads the checkpoint that a mode names, or, if it is damaged, the next best or newest one.

        If a training that goes on has removed it meanwhile, it looks again.

        Args:
            mode: `"best"`, `"last"`, or the number of a step, in whose place no other is read.
            best_fn: Maps the metrics at the kept checkpoints to the index of the best.
            read: Reads the checkpoint of a step.

        Returns:
            The result of `read`.

        Raises:
            FileNotFoundError: There is no such checkpoint.
            ValueError: They are of a training of another kind, or `best_fn` has nothing to choose.
            CorruptCheckpointError: None could be read.
        """
        if best_fn is not None and mode != "best":
            raise ValueError(
                f"best_fn chooses the 'best' checkpoint, but {mode!r} was asked for: leave one out."
            )
        self.warn_of_renamed()
        steps = self.steps()
        if not steps:
            raise FileNotFoundError(f"{self.directory} holds no checkpoints.")
        self.check_kind()
        has_others = isinstance(mode, str) and best_fn is None
        for step in self._candidates(steps, mode, best_fn):
            try:
                return read(step)
            except CorruptCheckpointError as error:
                if self._are_gone([step]):
                    return self.first_readable(mode, best_fn, read)
                if not has_others:
                    raise
                warnings.warn(f"{error} Falling back to another checkpoint.", stacklevel=4)
        raise CorruptCheckpointError(f"No checkpoint in {self.directory} could be read.")

    def mean_returns(self) -> dict[int, float | None]:
        """The mean returns of the checkpoints that can be read, `None` where none was measured.

        A warning says of each of the others that it is damaged.
        """
        steps, returns = self.steps(), {}
        for step in steps:
            with self._unless_damaged(step):
                returns[step] = self._mean_return(step)
        return self.mean_returns() if steps and self._are_gone(steps) else returns

    def read(self, step: int, identity: Mapping[str, Any], template: PyTree) -> Restored:
        """Reads a checkpoint.

        Args:
            step: Its step.
            identity: Names that its notes must have, by kind.
            template: A pytree structured as the one that was saved; shapes are enough.

        Returns:
            Its contents.

        Raises:
            ValueError: It is of something else; the first leaf that differs is named.
            CorruptCheckpointError: It is damaged.
        """

        def read(notes: dict[str, Any]) -> Restored:
            self.check_identity(step, notes, identity)
            check_leaves(notes[TREE], leaves_of(template), self.place(step), self.owner)
            saved = self._verified(step, notes)
            return Restored(with_leaves(template, saved[TREE]), saved[HISTORY], notes)

        return self._with_notes(step, read)

    def check_identity(
        self, step: int, notes: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> None:
        """Raises if a checkpoint is of something else.

        Args:
            step: Its step.
            notes: Its notes.
            identity: Names that they must have, by kind.

        Raises:
            ValueError: They have others.
        """
        for what, own in identity.items():
            if notes.get(what) != own:
                raise ValueError(
                    f"{self.place(step)} is of the {what} {notes.get(what)}, but this is {own}."
                )

    def verify(self, step: int) -> None:
        """Raises if a checkpoint cannot be read back as it was written.

        Raises:
            CorruptCheckpointError: It cannot.
        """
        self._with_notes(step, lambda notes: self._verified(step, notes))

    def damage(self, step: int) -> CorruptCheckpointError | None:
        """The damage to a checkpoint; `None` if it is whole.

        Args:
            step: Its step.

        Returns:
            The error that `verify` raises.
        """
        try:
            self.verify(step)
        except CorruptCheckpointError as error:
            return error
        return None

    def on_begin(self) -> None:
        """Hook: called when a training has locked the folder."""

    def on_save(self, step: int, notes: Mapping[str, Any]) -> None:
        """Hook: called when a checkpoint has been written, or will be soon.

        Args:
            step: Its step.
            notes: What is noted with it.
        """

    def notes(self, step: int | str) -> dict[str, Any]:
        """The notes of a checkpoint.

        Args:
            step: Its step, or the name of its folder.

        Returns:
            The notes.

        Raises:
            CorruptCheckpointError: It cannot be read.
        """
        try:
            return checkpoint_notes.read(self.checkpoints / str(step))
        except CorruptCheckpointError as error:
            raise CorruptCheckpointError(f"{self.place(step)} is damaged: {error}.") from error

    def check_kind(self) -> None:
        """Raises if the folder holds checkpoints, but only of another kind of training.

        Raises:
            ValueError: It does.
        """
        if self.holds(self.item):
            return
        for item, owner in _OWNERS.items():
            if self.holds(item):
                raise ValueError(
                    f"{self.directory} holds checkpoints of {owner}, and of no {self.owner}."
                )

    def holds(self, item: str) -> bool:
        """Whether a checkpoint holds a pytree of some name."""
        return any(arrays(self.checkpoints / str(step), item) for step in self.steps())

    def history(self, step: int) -> Metrics:
        """The history of a checkpoint.

        Args:
            step: Its step.

        Returns:
            Metrics of the points up to it.

        Raises:
            CorruptCheckpointError: It cannot be read.
        """
        return self._with_notes(step, lambda notes: self._verified(step, notes, [HISTORY]))[HISTORY]

    def _candidates(
        self, steps: list[int], mode: str | int, best_fn: Callable[[Metrics], Any] | None
    ) -> Iterable[int]:
        if mode == "last":
            return steps[::-1]
        if mode == "best":
            return self._best_first() if best_fn is None else [self._chosen(best_fn)]
        if mode in steps:
            return [int(mode)]
        raise FileNotFoundError(
            f"There is no checkpoint of {mode!r}: choose 'best', 'last' or one of the "
            f"{self.step_name.replace('_', ' ')}s {steps}."
        )

    def _best_first(self) -> list[int]:
        """The steps by their mean returns, of which one that is not a number is never the best."""
        measured = {step: mean for step, mean in self.mean_returns().items() if mean is not None}
        if not measured:
            raise ValueError(
                "Without evaluation during training no checkpoint is known to be the best: restore "
                "'last', or give best_fn."
            )
        best = best_first(measured)
        if not best:
            raise ValueError(
                f"No checkpoint in {self.directory} has a finite mean return, so that none is the "
                "best: restore 'last', or give best_fn."
            )
        return best

    def _chosen(self, best_fn: Callable[[Metrics], Any]) -> int:
        """The step of the kept checkpoint that a function of the metrics chooses."""
        history = self._kept_history()
        kept = history[self.step_name]
        chosen = np.asarray(best_fn(history))
        if chosen.ndim or chosen.dtype.kind not in "iu":
            raise TypeError(
                f"best_fn must give the index of one of the {len(kept)} kept checkpoints, an integer, "
                f"got {chosen!r}: such as metrics['returns'].mean(axis=1).argmax()."
            )
        index = int(chosen)
        if not -len(kept) <= index < len(kept):
            raise ValueError(
                f"best_fn gave index {index}, but there are {len(kept)} kept checkpoints."
            )
        return int(kept[index])

    def _kept_history(self) -> Metrics:
        """The metrics of the points whose checkpoints are still there."""
        steps = self.steps()
        for step in steps[::-1]:
            with self._unless_damaged(step):
                history = self.history(step)
                kept = np.isin(history[self.step_name], steps)
                return {name: values[kept] for name, values in history.items()}
        if steps and self._are_gone(steps):
            return self._kept_history()
        raise CorruptCheckpointError(f"No checkpoint in {self.directory} could be read.")

    def _mean_return(self, step: int) -> float | None:
        try:
            return mean_return_of(self.notes(step))
        except KeyError:  # of the first format
            history = self.history(step)
        if "returns" not in history or history[self.step_name][-1] != step:
            return None
        return float(np.mean(history["returns"][-1]))

    @contextlib.contextmanager
    def _unless_damaged(self, step: int) -> Iterator[None]:
        """A context that passes over a damaged checkpoint with a warning, and one that is gone."""
        try:
            yield
        except CorruptCheckpointError as error:
            if self._are_gone([step]):
                return
            warnings.warn(f"{error} It is passed over.", stacklevel=6)

    def _are_gone(self, steps: Sequence[int]) -> bool:
        """Whether all of some checkpoints were removed since they were listed, by their training."""
        return not set(steps) & set(self.steps())

    def _with_notes(self, step: int, read: Callable[[dict[str, Any]], Read]) -> Read:
        """Reads a checkpoint by its notes; by the new ones if it was written anew meanwhile."""
        notes = self.notes(step)
        try:
            return read(notes)
        except CorruptCheckpointError:
            if arrays_of(self.notes(step), self.item) == arrays_of(notes, self.item):
                raise
        return self._with_notes(step, read)

    def _verified(
        self, step: int, notes: Mapping[str, Any], parts: Sequence[str] = (TREE, HISTORY)
    ) -> dict[str, dict[str, np.ndarray]]:
        """The arrays of parts of a checkpoint, by path, checked against their digests."""
        leaves = {part: notes[part] for part in parts}
        try:
            name = arrays_of(notes, self.item)
            return read_arrays(self.checkpoints / str(step), name, leaves)
        except CorruptCheckpointError as error:
            raise CorruptCheckpointError(f"{self.place(step)} {error}.") from error


def best_first(mean_returns: Mapping[int, float]) -> list[int]:
    """Steps with the highest mean return first; of equal ones, the newest.

    Args:
        mean_returns: The mean returns, by step.

    Returns:
        The steps whose mean return is a number.
    """
    finite = [step for step, mean in mean_returns.items() if math.isfinite(mean)]
    return sorted(finite, key=lambda step: (mean_returns[step], step), reverse=True)
