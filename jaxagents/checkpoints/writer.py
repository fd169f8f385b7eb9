"""Writing checkpoints: in the background, kept by policy, in a folder that is locked meanwhile."""

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from jaxtyping import PyTree

from jaxagents.checkpoints import names
from jaxagents.checkpoints.anew import write_anew
from jaxagents.checkpoints.leaves import leaves_of, pack
from jaxagents.checkpoints.notes import (
    ARRAYS,
    HISTORY,
    META,
    TREE,
    CorruptCheckpointError,
    arrays_of,
    n_points,
    say_the_same,
    sealed,
)
from jaxagents.checkpoints.quiet import quiet_orbax, quiet_tasks
from jaxagents.checkpoints.reading import this_process_alone
from jaxagents.checkpoints.store import Store, best_first
from jaxagents.checkpoints.troubles import Troubles, in_our_words
from jaxagents.core.describe import to_json
from jaxagents.core.metrics import Metrics

if TYPE_CHECKING:
    from orbax.checkpoint import CheckpointManager
    from orbax.checkpoint.args import Composite


_LOCK = ".lock"


class Writer:
    """Writes checkpoints to a store, whose folder it locks, in a thread of its own."""

    def __init__(
        self,
        store: Store,
        identity: Mapping[str, Any],
        keep: int | None,
        start: int,
        descriptions: Mapping[str, Any],
    ) -> None:
        """Prepares it; nothing is written before the context is entered.

        Args:
            store: The store.
            identity: The owner of the checkpoints, such as its class, by kind.
            keep: Number of latest checkpoints to keep besides the best. `None` keeps all.
            start: Step at which the training starts.
            descriptions: Dataclasses or dicts to write as JSON, by the stems of their files.
        """
        self._store = store
        self._identity = identity
        self._keep = keep
        self._start = start
        self._descriptions = {stem: to_json(x) for stem, x in descriptions.items()}
        self._stack = contextlib.ExitStack()
        self._writing: Future | None = None
        self._unwritten: tuple[int, Composite] | None = None
        self.troubles = Troubles(store.directory)

    def __enter__(self) -> "Writer":
        """Locks the folder, sets damaged checkpoints that lie ahead aside, and writes descriptions.

        Raises:
            FileExistsError: Another training writes to the folder, or it holds later checkpoints.
            OSError: The folder cannot be written to.
        """
        with contextlib.ExitStack() as stack, in_our_words(self._store.directory):
            stack.enter_context(quiet_tasks())
            self._begin(stack)
            self._mean_returns = {
                step: mean for step, mean in self._store.mean_returns().items() if mean is not None
            }
            kept = _LatestAndBest(self._keep, self._mean_returns)
            with quiet_orbax():
                manager = _manager(self._store.checkpoints, kept, self._options())
                self._manager = stack.enter_context(manager)
            self._thread = stack.enter_context(ThreadPoolExecutor(max_workers=1))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for the last checkpoint, which is tried again if it failed, and unlocks the folder."""
        with self._stack:
            with self.troubles.attempt():
                self._finish()
            with self.troubles.attempt():
                self._try_again()

    @property
    def is_behind(self) -> bool:
        """Whether the checkpoint that was to be written last is not, or not yet."""
        return self._unwritten is not None

    def attempt(self) -> contextlib.AbstractContextManager[None]:
        """A context in which any error only warns that the folder could not be written to."""
        return self.troubles.attempt()

    def save(
        self,
        step: int,
        tree: PyTree,
        history: Metrics,
        mean_return: float | None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a checkpoint in the background; only warns if that fails, and tries again at the end.

        Args:
            step: Its step. If there is one already, it is written anew, unless it says as much or is
                damaged.
            tree: The pytree.
            history: Metrics of the points up to it. Those of one that is written anew stay, if there are
                as many.
            mean_return: The checkpoint with the highest is kept as the best; `None` never is.
            notes: Anything else to store, as JSON.
        """
        from orbax.checkpoint import args

        with self.troubles.attempt():
            self._finish()
        former, name = None, self._store.item
        if self.is_written(step):
            try:
                former = self._store.notes(step)
                history, mean_return = self._with_former(step, former, history, mean_return)
            except CorruptCheckpointError:
                return
            name = names.next_arrays(arrays_of(former, self._store.item))
        arrays, signatures = self._contents(tree)
        history_arrays, history_signatures = pack(leaves_of(history))
        meta = {TREE: signatures, HISTORY: history_signatures, ARRAYS: name}
        seal = sealed({**self._identity, **(notes or {}), **meta}, step, mean_return)
        if former is not None and not self._differ(former, seal):
            return
        items = {
            name: args.PyTreeSave({TREE: arrays, HISTORY: history_arrays}),
            META: args.JsonSave(seal),
        }
        if mean_return is not None:
            self._mean_returns[step] = mean_return
        self._unwritten = step, args.Composite(**items)
        with self.troubles.attempt():
            self._begin_again()
            self._write(*self._unwritten)

    def is_written(self, step: int) -> bool:
        """Whether there is a checkpoint of a step."""
        return step in self._store.steps()

    def _begin(self, stack: contextlib.ExitStack) -> None:
        """Prepares the folder."""
        self._lock = lock(self._store.directory)
        stack.callback(self._lock.release)
        self._clear_the_way()
        self._describe()

    def _begin_again(self) -> None:
        """Locks and describes the folder anew, with a warning, if it was deleted or renamed."""
        if (self._store.directory / _LOCK).exists():
            return
        self._lock.release(force=True)
        self._store.checkpoints.mkdir(parents=True, exist_ok=True)
        self._lock.acquire(timeout=0)
        self._describe()
        warnings.warn(
            f"{self._store.directory} was gone, and is made again for what comes from here on. If it "
            "was renamed, what was saved before is under its new name.",
            stacklevel=2,
        )

    def _describe(self) -> None:
        for stem, description in self._descriptions.items():
            write_description(self._store.directory, stem, description)

    def _options(self) -> dict[str, Any]:
        """Orbax's options: this process writes, without orbax's own threads, which take longer."""
        return {
            "multiprocessing_options": this_process_alone(),
            "enable_async_checkpointing": False,
        }

    def _with_former(
        self, step: int, former: Mapping[str, Any], history: Metrics, mean_return: float | None
    ) -> tuple[Metrics, float | None]:
        """The history and the mean return to write, of which none is lost that a checkpoint has."""
        former_mean = self._mean_returns.get(step)
        if len(history.get(self._store.step_name, ())) <= n_points(former, self._store.step_name):
            history = self._store.history(step)
        return history, mean_return if former_mean is None else former_mean

    def _differ(self, former: Mapping[str, Any], notes: Mapping[str, Any]) -> bool:
        """Whether a checkpoint is to be written anew, by its notes and the new ones."""
        return not say_the_same(former, notes, self._store.passing)

    def _contents(self, tree: PyTree) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Copies of the arrays, since updates use them up, and signatures of their leaves."""
        return pack(leaves_of(tree))

    def _write(self, step: int, items: "Composite") -> None:
        """Begins to write a checkpoint."""

        def write() -> None:
            self._save(step, items)
            self._remove_outdated()

        self._writing = self._thread.submit(write)

    def _finish(self) -> None:
        """Waits for the checkpoint that is being written, and raises what went wrong."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()
        self._manager.wait_until_finished()
        self._unwritten = None

    def _try_again(self) -> None:
        """Writes the last checkpoint if that failed."""
        if self._unwritten is not None:
            self._begin_again()
            self._write(*self._unwritten)
            self._finish()

    def _save(self, step: int, items: "Composite") -> None:
        try:
            with quiet_orbax():
                if self.is_written(step):
                    folder, how = self._store.checkpoints / str(step), self._options()
                    processes = how["multiprocessing_options"]
                    write_anew(folder, self._store.item, items, processes, self._leads())
                elif not self._manager.save(step, args=items):
                    raise OSError(f"the checkpoint of {self._store.unit} {step} was not written")
        except Exception:
            _remove_unfinished(self._store.checkpoints)
            raise

    def _leads(self) -> bool:
        """Whether this process writes what is not divided among processes."""
        return True

    def _remove_outdated(self) -> None:
        shutil.rmtree(self._store.checkpoints / names.OUTDATED, ignore_errors=True)

    def _clear_the_way(self) -> None:
        """Sets later checkpoints aside if they are damaged, and refuses to train behind others."""
        store = self._store
        store.check_kind()
        later = [step for step in store.steps() if step > self._start]
        damages = {step: store.damage(step) for step in later}
        for step, damage in damages.items():
            if damage is None:
                raise FileExistsError(
                    f"{store.directory} holds a checkpoint of {store.unit} {step}, but this training "
                    f"starts at {store.unit} {self._start}. {store.if_behind}, or choose another "
                    "checkpoint_dir. Nothing was changed."
                )
        for step, damage in damages.items():
            folder = store.checkpoints / str(step)
            folder.rename(names.free_name_aside(folder))
            warnings.warn(f"{damage} It was set aside.", stacklevel=2)


def write_description(directory: str | os.PathLike, stem: str, description: object) -> None:
    """Writes `stem.json`, or `stem-2.json` and so on where other contents are already there.

    Args:
        directory: The folder.
        stem: Name of the file without its ending.
        description: Dataclass or dict.
    """
    text = json.dumps(to_json(description), indent=2) + "\n"
    path, number = Path(directory).expanduser().resolve() / f"{stem}.json", 1
    path.parent.mkdir(parents=True, exist_ok=True)
    while path.exists() and path.read_bytes() != text.encode():
        number += 1
        path = path.with_name(f"{stem}-{number}.json")
    path.write_bytes(text.encode())


def lock(directory: Path) -> FileLock:
    """Locks a folder of checkpoints against all but this thread, which may lock it several times.

    Args:
        directory: The folder, which is made.

    Returns:
        The lock, to be released as often as it was taken.

    Raises:
        FileExistsError: Another training is writing to the folder.
    """
    directory.mkdir(parents=True, exist_ok=True)
    held = FileLock(directory.resolve() / _LOCK, is_singleton=True)
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise FileExistsError(
            f"Another training is writing to {directory}: choose another checkpoint_dir, or wait."
        ) from None
    return held


class _LatestAndBest:
    """Orbax's policy by which the latest checkpoints and the best one are kept."""

    def __init__(self, n_latest: int | None, mean_returns: Mapping[int, float]) -> None:
        """Takes the number of latest ones, and the mean returns by step, which may grow."""
        self._n_latest = n_latest
        self._mean_returns = mean_returns

    def should_preserve(self, checkpoints: Sequence[Any], *, context: object) -> list[bool]:
        """Whether to keep each of the checkpoints, which are in the order of their steps."""
        steps = [checkpoint.step for checkpoint in checkpoints]
        latest = steps if self._n_latest is None else steps[-self._n_latest :]
        means = self._mean_returns
        best = best_first({step: means[step] for step in steps if step in means})[:1]
        return [step in (*latest, *best) for step in steps]


def _manager(
    folder: Path, kept: _LatestAndBest, how_to_write: Mapping[str, Any]
) -> "CheckpointManager":
    """Makes orbax's checkpoint manager, whose import is too slow for the top of the module."""
    from orbax.checkpoint import CheckpointManager, CheckpointManagerOptions

    options = CheckpointManagerOptions(
        preservation_policy=kept,
        create=False,
        todelete_subdir=names.OUTDATED,
        **how_to_write,
    )
    folder.mkdir(parents=True, exist_ok=True)
    return CheckpointManager(folder, options=options)


def _remove_unfinished(checkpoints: Path) -> None:
    """Removes what orbax leaves of a checkpoint that it could not write."""
    for folder in names.unfinished(checkpoints):
        shutil.rmtree(folder, ignore_errors=True)
