"""Reading the arrays of a checkpoint."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.checkpoints.leaves import array_name, unpack
from jaxagents.checkpoints.notes import CorruptCheckpointError
from jaxagents.checkpoints.quiet import collect_what_orbax_left, ignore_late_reads, quiet_orbax

Leaves = Sequence[Mapping[str, Any]]
"""Notes of leaves: path, shape, type and digest of each."""


def read_arrays(
    checkpoint: Path, item: str, leaves: Mapping[str, Leaves]
) -> dict[str, dict[str, np.ndarray]]:
    """The leaves of parts of a checkpoint, checked against their digests.

    Args:
        checkpoint: Its folder.
        item: Name of the folder in it that holds them.
        leaves: Notes of the leaves, by part.

    Returns:
        The leaves, by part and path.

    Raises:
        CorruptCheckpointError: They are not what was written. The message goes on from the name of the
            checkpoint.
    """
    arrays = _restore(checkpoint, item, leaves)

    def leaf(part: str, saved: Mapping[str, Any]) -> np.ndarray:
        array = None
        with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
            array = unpack(saved, arrays[part])
        if array is None:
            raise CorruptCheckpointError(f"is damaged at {saved['path']}")
        return array

    return {
        part: {saved["path"]: leaf(part, saved) for saved in of_part}
        for part, of_part in leaves.items()
    }


def this_process_alone() -> Any:
    """Orbax's options for reading or writing without other processes."""
    from orbax.checkpoint.options import MultiprocessingOptions

    process = jax.process_index()
    return MultiprocessingOptions(primary_host=process, active_processes={process})


def _restore(checkpoint: Path, item: str, leaves: Mapping[str, Leaves]) -> PyTree:
    """The arrays that hold some leaves, by part and name, as NumPy arrays."""
    from orbax.checkpoint import Checkpointer, CompositeCheckpointHandler, RestoreArgs, args

    wanted = {
        part: {array_name(saved): 0 for saved in of_part if math.prod(saved["shape"])}
        for part, of_part in leaves.items()
    }
    as_numpy = jax.tree.map(lambda _: RestoreArgs(restore_type=np.ndarray), wanted)
    restore = args.PyTreeRestore(wanted, restore_args=as_numpy, partial_restore=True)
    ignore_late_reads()
    try:
        handler, options = CompositeCheckpointHandler(), this_process_alone()
        with quiet_orbax(), Checkpointer(handler, multiprocessing_options=options) as orbax:
            return orbax.restore(checkpoint, args=args.Composite(**{item: restore}))[item]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    collect_what_orbax_left()
    raise CorruptCheckpointError(f"cannot be read ({reason})")
