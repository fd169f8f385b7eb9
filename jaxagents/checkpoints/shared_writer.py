"""Writing the checkpoints of a training that several processes make together."""

import contextlib
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from jaxagents.checkpoints.leaves import (
    Leaf,
    array_name,
    digest,
    leaves_of,
    signature,
    without_empty,
)
from jaxagents.checkpoints.writer import Writer
from jaxagents.core import processes

if TYPE_CHECKING:
    from orbax.checkpoint.args import Composite

_SECONDS_FOR_A_FILE_TO_APPEAR = 10.0


class SharedWriter(Writer):
    """Writes checkpoints to a store, each process its own part of the arrays.

    The first process locks the folder and writes all else.
    """

    def attempt(self) -> contextlib.AbstractContextManager[None]:
        """A context in which errors are raised: processes would wait for one that gave up alone."""
        return contextlib.nullcontext()

    def is_written(self, step: int) -> bool:
        """Whether there is a checkpoint of a step, as the first process sees it."""
        return bool(processes.agreed(super().is_written(step)))

    def _begin(self, stack: contextlib.ExitStack) -> None:
        """Prepares the folder.

        Raises:
            FileExistsError: Another training writes to the folder, or it holds later checkpoints.
            FileNotFoundError: The folder is not the same for all processes.
            RuntimeError: The first process could not begin; its own error says why.
        """
        error = None
        if processes.leads():
            try:
                super()._begin(stack)
            except Exception as raised:
                error = raised
        if processes.in_any(error is not None):
            raise error or RuntimeError(
                f"The first process could not begin to write to {self._store.directory}; its own error "
                "says why."
            )
        self._check_that_all_see_it()

    def _begin_again(self) -> None:
        """Does nothing: a folder that is gone stops all processes."""

    def _try_again(self) -> None:
        """Does nothing: processes would wait for those that have no checkpoint left to write."""

    def _options(self) -> dict[str, Any]:
        """All processes write, in orbax's own threads: they wait for each other in this one alone."""
        from orbax.checkpoint.options import MultiprocessingOptions

        return {
            "multiprocessing_options": MultiprocessingOptions(),
            "enable_async_checkpointing": True,
        }

    def _differ(self, former: Mapping[str, Any], notes: Mapping[str, Any]) -> bool:
        return bool(processes.agreed(super()._differ(former, notes)))

    def _leads(self) -> bool:
        return processes.leads()

    def _contents(self, tree: PyTree) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Copies of the arrays, where they are, since updates use them up; and their signatures."""
        leaves = [(path, jnp.copy(leaf)) for path, leaf in leaves_of(tree)]
        signatures = _signatures(leaves)
        arrays = {
            array_name(saved): leaf for saved, (_, leaf) in zip(signatures, leaves, strict=True)
        }
        return without_empty(arrays), signatures

    def _write(self, step: int, items: "Composite") -> None:
        """Begins to write a checkpoint; processes wait for each other in this thread alone."""
        self._save(step, items)

    def _finish(self) -> None:
        """Waits for the checkpoint that is being written, and raises what went wrong."""
        super()._finish()
        if self._leads():
            self._remove_outdated()

    def _check_that_all_see_it(self) -> None:
        folder = self._store.directory
        token = folder / f".seen-by-all-{processes.agreed(secrets.randbits(30))}"
        if processes.leads():
            token.touch()
        missing = processes.those_without(_appears(token))
        if processes.leads():
            token.unlink()
        if missing:
            raise FileNotFoundError(
                f"checkpoint_dir {folder} must be the same folder for all processes, but processes "
                f"{missing} do not see what process 0 writes there."
            )


def _signatures(leaves: list[Leaf]) -> list[dict[str, Any]]:
    """Signatures of arrays of which each process has a part: it digests its own blocks."""
    sizes = [leaf.sharding.shard_shape(leaf.shape) for _, leaf in leaves]
    n_blocks = [
        leaf.shape[0] // size[0] if leaf.ndim else 1
        for (_, leaf), size in zip(leaves, sizes, strict=True)
    ]
    digests = np.zeros((len(leaves), max(n_blocks)), np.uint32)
    for i, ((_, leaf), size) in enumerate(zip(leaves, sizes, strict=True)):
        for shard in leaf.addressable_shards:
            if shard.replica_id == 0:
                block = (shard.index[0].start or 0) // size[0] if leaf.ndim else 0
                digests[i, block] = digest(np.asarray(shard.data))
    digests = multihost_utils.process_allgather(digests).max(axis=0)
    return [
        signature(*leaf, row[:n]) for leaf, row, n in zip(leaves, digests, n_blocks, strict=True)
    ]


def _appears(path: Path) -> bool:
    """Whether a file is there, if need be after a while."""
    deadline = time.monotonic() + _SECONDS_FOR_A_FILE_TO_APPEAR
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
