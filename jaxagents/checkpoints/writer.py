"""Writing checkpoints to a locked folder in the background, and removing old ones."""

import contextlib
import functools
import secrets
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import Array, PyTree

from jaxagents.checkpoints.disk import (
    LOCK,
    DiskErrors,
    lock,
    make_durable,
    probe,
    write_description,
)
from jaxagents.checkpoints.leaves import array_name, digest, leaves_of, pack, signature
from jaxagents.checkpoints.notes import (
    FILE,
    HISTORY,
    META,
    TREE,
    CorruptCheckpointError,
    same_contents,
    sealed,
)
from jaxagents.checkpoints.store import OUTDATED, SET_ASIDE, UNFINISHED, Store, best_first
from jaxagents.core import processes
from jaxagents.core.describe import to_json
from jaxagents.core.metrics import Metrics

if TYPE_CHECKING:
    from orbax.checkpoint import AsyncCheckpointer, Checkpointer, CompositeCheckpointHandler
    from orbax.checkpoint.args import Composite
    from orbax.checkpoint.options import MultiprocessingOptions

_SECONDS_FOR_A_FILE_TO_APPEAR = 10.0
_SECONDS_FOR_THREADS_TO_END = 30.0
_one_at_a_time = threading.Lock()
"""Held while a checkpoint is saved: orbax has one counter for all saves of a process."""


class Writer:
    """Locks the folder of a store, and writes its checkpoints in a separate thread."""

    def __init__(
        self,
        store: Store,
        identity: Mapping[str, Any],
        keep: int | None,
        start: int,
        descriptions: Mapping[str, Any],
    ) -> None:
        """Prepares the writer; writes nothing before the context is entered.

        Args:
            store: The store.
            identity: The owner of the checkpoints, such as its class, by kind.
            keep: Number of recent checkpoints to keep, besides the best. `None` keeps all.
            start: Step at which the run starts.
            descriptions: Dataclasses or dicts to write as JSON, by file stem.
        """
        self.disk_errors = DiskErrors(store.directory)
        self._store = store
        self._identity = identity
        self._keep = keep
        self._start = start
        self._descriptions = {stem: to_json(x) for stem, x in descriptions.items()}
        self._stack = contextlib.ExitStack()
        self._unwritten: tuple[Path, Composite] | None = None
        self._wait: Callable[[], object] | None = None

    def __enter__(self) -> "Writer":
        """Locks the folder, sets aside damaged later checkpoints, and writes descriptions.

        Raises:
            FileExistsError: Another run writes to the folder, or it holds later checkpoints.
            OSError: The folder cannot be written to.
        """
        with contextlib.ExitStack() as stack, self.disk_errors.at_start():
            self._begin(stack)
            means = self._store.mean_returns().items()
            self._mean_returns = {step: mean for step, mean in means if mean is not None}
            self._orbax = stack.enter_context(self._checkpointer())
            self._thread = stack.enter_context(ThreadPoolExecutor(max_workers=1))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for the last checkpoint, writes it again if that failed, and unlocks the folder."""
        with self._stack:
            with self.disk_errors.attempt():
                self._finish()
            with self.disk_errors.attempt():
                self._try_again()

    @property
    def is_behind(self) -> bool:
        """Whether the latest checkpoint is not written, or not yet."""
        return self._unwritten is not None

    def attempt(self) -> contextlib.AbstractContextManager[None]:
        """A context in which any error only causes a warning that the folder is not writable."""
        return self.disk_errors.attempt()

    def is_written(self, step: int) -> bool:
        """Whether there is a checkpoint of a step."""
        return self._agreed(self._store.version(step)) > 0

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
            step: The step. An existing checkpoint is written again, keeping its mean return and any
                longer history, unless it is damaged or has the same contents.
            tree: The pytree.
            history: Metrics up to the step.
            mean_return: The checkpoint with the highest is kept as the best; never with `None`.
            notes: Anything else to store, as JSON.
        """
        from orbax.checkpoint import args

        with self.disk_errors.attempt():
            self._finish()
        version, former = self._agreed(self._store.version(step)), None
        if version:
            try:
                former = self._store.notes(step)
                n_points = {leaf["path"]: leaf["shape"][0] for leaf in former[HISTORY]}
                if len(history.get("update_step", ())) <= n_points.get("update_step", 0):
                    history = self._store.history(step)
            except CorruptCheckpointError:
                return
            mean_return = self._mean_returns.get(step, mean_return)
        arrays, signatures = self._contents(tree)
        past, signatures_of_past = pack(leaves_of(history))
        notes = {**self._identity, **(notes or {}), TREE: signatures, HISTORY: signatures_of_past}
        notes = sealed(notes, step, mean_return)
        if former and self._agreed(same_contents(former, notes)):
            return
        if mean_return is not None:
            self._mean_returns[step] = mean_return
        saved = {
            self._store.item: args.PyTreeSave({TREE: arrays, HISTORY: past}),
            META: args.JsonSave(notes),
        }
        self._unwritten = self._store.folder(step, version + 1), args.Composite(**saved)
        with self.disk_errors.attempt():
            self._begin_again()
            self._write(*self._unwritten)

    def _begin(self, stack: contextlib.ExitStack) -> None:
        """Prepares the folder."""
        self._lock = lock(self._store.directory)
        stack.callback(self._lock.release)
        self._clear_the_way()
        self._describe()
        self._tidy_up()

    def _begin_again(self) -> None:
        """Locks and describes the folder again, with a warning, if it was deleted or renamed."""
        if (self._store.directory / LOCK).exists():
            return
        self._lock.release(force=True)
        lock(self._store.directory)
        self._describe()
        warnings.warn(
            f"{self._store.directory} was gone, and is created again for what follows. If it "
            "was renamed, what was saved before is under its new name.",
            stacklevel=2,
        )

    def _describe(self) -> None:
        self._store.checkpoints.mkdir(exist_ok=True)
        for stem, description in self._descriptions.items():
            write_description(self._store.directory, stem, description)

    def _clear_the_way(self) -> None:
        """Sets aside damaged later checkpoints, and raises if there are intact ones."""
        store = self._store
        store.check_kind()
        damages = {step: store.damage(step) for step in store.steps() if step > self._start}
        for step, damage in damages.items():
            if damage is None:
                raise FileExistsError(
                    f"{store.directory} holds a checkpoint of update {step}, but this run "
                    f"starts at update {self._start}. {store.if_behind}, or choose another "
                    "checkpoint_dir. Nothing was changed."
                )
        for step, _, path in store.folders():
            if step in damages:
                number = 1
                while (aside := path.with_name(f"{path.name}{SET_ASIDE}{number}")).exists():
                    number += 1
                path.rename(aside)
                warnings.warn(f"{damages[step]} It was set aside.", stacklevel=2)

    def _checkpointer(self) -> "Checkpointer":
        """Orbax, imported late since that is slow, and without its own threads, which take longer."""
        from orbax.checkpoint import Checkpointer
        from orbax.checkpoint.options import MultiprocessingOptions

        process = jax.process_index()
        alone = MultiprocessingOptions(primary_host=process, active_processes={process})
        return Checkpointer(self._handler(alone), multiprocessing_options=alone)

    def _handler(self, processes: "MultiprocessingOptions") -> "CompositeCheckpointHandler":
        """Orbax's handler for arrays and notes, in the format that `read_leaves` expects."""
        from orbax import checkpoint as ocp

        each: Any = {"multiprocessing_options": processes}
        arrays = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=False, **each)
        handlers: Any = {self._store.item: arrays, META: ocp.JsonCheckpointHandler(**each)}
        options = ocp.CompositeOptions(**each)
        return ocp.CompositeCheckpointHandler(composite_options=options, **handlers)

    def _agreed(self, number: int) -> int:
        """A number on which all writing processes must agree."""
        return number

    def _contents(self, tree: PyTree) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Copies of the arrays, since updates donate them, and signatures of their leaves."""
        return pack(leaves_of(tree))

    def _write(self, path: Path, items: "Composite") -> None:
        """Starts to write a checkpoint."""

        def save() -> None:
            arrays = jax.tree.leaves(items[self._store.item].item)
            probe(self._store.checkpoints, sum(array.nbytes for array in arrays))
            with _one_at_a_time, _waiting_for_threads():
                self._orbax.save(path, args=items)

        self._wait = self._thread.submit(self._save_and_prune, path, save).result

    def _save_and_prune(self, path: Path, save: Callable[[], object]) -> None:
        """Writes a checkpoint, then removes the ones that are not kept."""
        try:
            save()
            make_durable(path / META / FILE, path / META, path, path.parent)
            self._move_old_away()
        finally:
            self._tidy_up()

    def _move_old_away(self) -> None:
        folders = self._store.folders()
        newest = {step: path for step, _, path in folders}
        latest = list(newest) if self._keep is None else list(newest)[-self._keep :]
        means = {step: mean for step, mean in self._mean_returns.items() if step in newest}
        kept = {newest[step] for step in (*latest, *best_first(means)[:1])}
        outdated = self._store.checkpoints / OUTDATED
        for _, _, path in folders:
            if path not in kept:
                outdated.mkdir(exist_ok=True)
                path.rename(outdated / path.name)

    def _tidy_up(self) -> None:
        """Deletes old checkpoints and remains of failed ones."""
        checkpoints = self._store.checkpoints
        for path in (checkpoints / OUTDATED, *checkpoints.glob(f"*{UNFINISHED}*")):
            shutil.rmtree(path, ignore_errors=True)

    def _finish(self) -> None:
        """Waits for the current checkpoint, and raises its error if it failed."""
        if self._wait is not None:
            wait, self._wait = self._wait, None
            wait()
            self._unwritten = None

    def _try_again(self) -> None:
        """Writes the last checkpoint if that failed."""
        if self._unwritten is not None:
            self._begin_again()
            self._write(*self._unwritten)
            self._finish()


@contextlib.contextmanager
def _waiting_for_threads() -> Iterator[None]:
    """A context for saving with orbax, whose abandoned threads may still write files after an error.

    They must end before the remains of the checkpoint are deleted.
    """
    before = _threads_of_orbax()
    try:
        yield
    except BaseException:
        deadline = time.monotonic() + _SECONDS_FOR_THREADS_TO_END
        while late := _threads_of_orbax() - before:  # they may start others
            remaining = deadline - time.monotonic()
            if remaining <= 0.0:
                break
            threading.Thread.join(late.pop(), remaining)  # orbax's own `join` raises their errors
        raise


def _threads_of_orbax() -> set[threading.Thread]:
    """Threads of orbax, and workers of event loops."""
    return {
        thread
        for thread in threading.enumerate()
        if type(thread).__module__.startswith("orbax.") or thread.name.startswith("asyncio_")
    }


class SharedWriter(Writer):
    """Writes checkpoints from several processes, each with its own part of the arrays.

    The first process locks the folder and writes everything else. Errors are raised, and nothing is
    retried: if one process gave up or retried alone, the others would wait for it.
    """

    _orbax: "AsyncCheckpointer"

    def attempt(self) -> contextlib.AbstractContextManager[None]:
        """A context in which errors are raised."""
        return contextlib.nullcontext()

    def _begin(self, stack: contextlib.ExitStack) -> None:
        """Prepares the folder, or raises an error in all processes."""
        error, folder = None, self._store.directory
        if processes.leads():
            try:
                super()._begin(stack)
            except Exception as raised:
                error = raised
        if processes.any_process(error is not None):
            raise error or RuntimeError(
                f"The first process could not start writing to {folder}; its own error says why."
            )
        token = folder / f".seen-by-all-{processes.agreed(secrets.randbits(30))}"
        if processes.leads():
            token.touch()
        deadline = time.monotonic() + _SECONDS_FOR_A_FILE_TO_APPEAR
        while not (is_seen := token.exists()) and time.monotonic() < deadline:
            time.sleep(0.1)
        missing = processes.processes_without(is_seen)
        if processes.leads():
            token.unlink()
        if missing:
            raise FileNotFoundError(
                f"checkpoint_dir {folder} must be the same folder for all processes, but processes "
                f"{missing} do not see what process 0 writes there."
            )

    def _begin_again(self) -> None:
        pass

    def _try_again(self) -> None:
        pass

    def _agreed(self, number: int) -> int:
        return processes.agreed(number)

    def _checkpointer(self) -> "AsyncCheckpointer":
        """Orbax with its own threads, so that processes synchronise only in this thread."""
        from orbax.checkpoint import AsyncCheckpointer
        from orbax.checkpoint.options import MultiprocessingOptions

        return AsyncCheckpointer(self._handler(MultiprocessingOptions()))

    def _write(self, path: Path, items: "Composite") -> None:
        self._orbax.save(path, args=items)
        self._wait = self._orbax.wait_until_finished
        if processes.leads():
            self._wait = functools.partial(self._save_and_prune, path, self._wait)

    def _contents(self, tree: PyTree) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Copies of the arrays on their devices, and signatures; each process digests its own blocks."""
        leaves = [(path, jnp.copy(leaf)) for path, leaf in leaves_of(tree)]
        digests = [_digests_of_own_blocks(leaf) for _, leaf in leaves]
        table = np.zeros((len(leaves), max(map(len, digests))), np.uint32)
        for row, own in zip(table, digests, strict=True):
            row[: len(own)] = own
        table = multihost_utils.process_allgather(table).max(axis=0)
        signatures = [
            signature(path, leaf, row[: len(own)])
            for (path, leaf), row, own in zip(leaves, table, digests, strict=True)
        ]
        pairs = zip(signatures, leaves, strict=True)
        return {array_name(saved): leaf for saved, (_, leaf) in pairs if leaf.size}, signatures


def _digests_of_own_blocks(array: Array) -> list[int]:
    """Digests of the blocks of rows on this process's devices; 0 for other processes' blocks."""

    def first_row(block: tuple[slice, ...]) -> int:
        return block[0].start or 0 if block else 0

    blocks = array.sharding.devices_indices_map(array.shape).values()
    digests = dict.fromkeys(sorted(first_row(block) for block in blocks), 0)
    for shard in array.addressable_shards:
        if shard.replica_id == 0:
            digests[first_row(shard.index)] = digest(np.asarray(shard.data))
    return list(digests.values())
