"""Writing checkpoints: in the background, kept by policy, in a folder that is locked meanwhile."""

import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from jaxtyping import PyTree

from jaxagents.checkpoints.leaves import leaves_of, pack
from jaxagents.checkpoints.store import (
    HISTORY,
    META,
    TREE,
    CorruptCheckpointError,
    Store,
    this_process_alone,
)
from jaxagents.core.describe import to_json
from jaxagents.core.metrics import Metrics

if TYPE_CHECKING:
    from orbax.checkpoint import CheckpointManager
    from orbax.checkpoint.args import Composite


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
        self._descriptions = descriptions
        self._stack = contextlib.ExitStack()
        self._writing: Future | None = None

    def __enter__(self) -> "Writer":
        """Locks the folder, sets damaged checkpoints that lie ahead aside, and writes descriptions.

        Raises:
            FileExistsError: Another training writes to the folder, or it holds later checkpoints.
        """
        with contextlib.ExitStack() as stack:
            self._begin(stack)
            manager = _manager(self._store.checkpoints, self._keep, self._options())
            self._manager = stack.enter_context(manager)
            self._thread = stack.enter_context(ThreadPoolExecutor(max_workers=1))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for the last checkpoint and unlocks the folder."""
        with self._stack, warn_if_unwritten():
            self._finish()

    def attempt(self) -> contextlib.AbstractContextManager[None]:
        """A context in which any error only warns that a checkpoint could not be written."""
        return warn_if_unwritten()

    def save(
        self,
        step: int,
        tree: PyTree,
        history: Metrics,
        mean_return: float | None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a checkpoint in the background; only warns if that fails.

        Args:
            step: Its step. If there is one already, nothing is written.
            tree: The pytree.
            history: Metrics of the points up to it.
            mean_return: The checkpoint with the highest is kept as the best; `None` never is.
            notes: Anything else to store, as JSON.
        """
        from orbax.checkpoint import args

        with warn_if_unwritten():
            self._finish()
        if self._is_written(step):
            return
        arrays, signatures = self._contents(tree)
        history_arrays, history_signatures = pack(leaves_of(history))
        meta = {TREE: signatures, HISTORY: history_signatures}
        items = {
            self._store.item: args.PyTreeSave({TREE: arrays, HISTORY: history_arrays}),
            META: args.JsonSave({**self._identity, **(notes or {}), **meta}),
        }
        metrics = None if mean_return is None else {"mean_return": mean_return}
        with warn_if_unwritten():
            self._write(step, args.Composite(**items), metrics)

    def _begin(self, stack: contextlib.ExitStack) -> None:
        """Prepares the folder."""
        self._store.directory.mkdir(parents=True, exist_ok=True)
        stack.enter_context(_lock(self._store.directory))
        self._clear_the_way()
        for stem, description in self._descriptions.items():
            write_description(self._store.directory, stem, description)

    def _options(self) -> dict[str, Any]:
        """Orbax's options: this process writes, without orbax's own threads, which take longer."""
        return {
            "multiprocessing_options": this_process_alone(),
            "enable_async_checkpointing": False,
        }

    def _is_written(self, step: int) -> bool:
        return step in self._store.steps()

    def _contents(self, tree: PyTree) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Copies of the arrays, since updates use them up, and signatures of their leaves."""
        return pack(leaves_of(tree))

    def _write(self, step: int, items: "Composite", metrics: Mapping[str, float] | None) -> None:
        """Begins to write a checkpoint."""
        self._writing = self._thread.submit(self._save, step, items, metrics)

    def _finish(self) -> None:
        """Waits for the checkpoint that is being written, and raises what went wrong."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()
        self._manager.wait_until_finished()

    def _save(self, step: int, items: "Composite", metrics: Mapping[str, float] | None) -> None:
        if not self._manager.save(step, args=items, metrics=metrics):
            raise OSError(f"the checkpoint of {self._store.unit} {step} was not written")

    def _clear_the_way(self) -> None:
        """Sets later checkpoints aside if they are damaged, and refuses to train behind others."""
        store = self._store
        later = [step for step in store.steps() if step > self._start]
        damages = {step: _damage(store, step) for step in later}
        for step, damage in damages.items():
            if damage is None:
                raise FileExistsError(
                    f"{store.directory} holds a checkpoint of {store.unit} {step}, but this training "
                    f"starts at {store.unit} {self._start}. {store.if_behind}, or choose another "
                    "checkpoint_dir. Nothing was changed."
                )
        for step, damage in damages.items():
            _set_aside(store.checkpoints / str(step))
            warnings.warn(f"{damage} It was set aside.", stacklevel=2)


@contextlib.contextmanager
def warn_if_unwritten() -> Iterator[None]:
    """Turns any error into a warning that a checkpoint could not be written."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"A checkpoint could not be written, training goes on: {error}", stacklevel=2)


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
    while path.exists() and path.read_text(encoding="utf-8") != text:
        number += 1
        path = path.with_name(f"{stem}-{number}.json")
    path.write_text(text, encoding="utf-8")


def _damage(store: Store, step: int) -> CorruptCheckpointError | None:
    """The damage of a checkpoint, if there is any."""
    try:
        store.verify(step)
    except CorruptCheckpointError as error:
        return error
    return None


def _set_aside(folder: Path) -> None:
    names = (f"{folder.name}.damaged-{number}" for number in itertools.count(1))
    folder.rename(next(path for name in names if not (path := folder.with_name(name)).exists()))


def _manager(
    folder: Path, keep: int | None, how_to_write: Mapping[str, Any]
) -> "CheckpointManager":
    """Makes orbax's checkpoint manager, whose import is too slow for the top of the module."""
    from orbax.checkpoint import CheckpointManager, CheckpointManagerOptions
    from orbax.checkpoint import checkpoint_managers as policies

    latest = policies.LatestN(keep)
    best = policies.BestN(
        get_metric_fn=lambda metrics: metrics["mean_return"],
        n=1,
        keep_checkpoints_without_metrics=False,
    )
    options = CheckpointManagerOptions(
        preservation_policy=policies.AnyPreservationPolicy([latest, best]),
        create=False,
        **how_to_write,
    )
    folder.mkdir(parents=True, exist_ok=True)
    return CheckpointManager(folder, options=options)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    lock = FileLock(directory / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FileExistsError(
            f"Another training is writing to {directory}: choose another checkpoint_dir, or wait."
        ) from None
    try:
        yield
    finally:
        lock.release()
