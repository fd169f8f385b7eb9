"""Writing a checkpoint anew in its place, of which a kill leaves the old one or the new one."""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxagents.checkpoints import names
from jaxagents.checkpoints.notes import FILE, META, arrays_of, read

if TYPE_CHECKING:
    from orbax.checkpoint.args import Composite


def write_anew(
    checkpoint: Path, item: str, items: "Composite", processes: Any, leads: bool
) -> None:
    """Writes new arrays beside those of a checkpoint, and then replaces the notes, which name them.

    Args:
        checkpoint: Its folder.
        item: Name of its pytree.
        items: The arrays, by a name that no arrays of the checkpoint have, and the notes.
        processes: Orbax's options for the processes that write.
        leads: Whether this process writes what is not divided among processes.
    """
    from orbax.checkpoint import Checkpointer, PyTreeCheckpointHandler

    (name,) = set(items.keys()) - {META}
    try:
        handler = PyTreeCheckpointHandler(multiprocessing_options=processes)
        with Checkpointer(handler, multiprocessing_options=processes) as orbax:
            orbax.save(checkpoint / name, args=items[name], force=True)
        if leads:
            for path in (*(checkpoint / name).rglob("*"), checkpoint / name, checkpoint):
                _make_durable(path)
            _replace(checkpoint / META / FILE, json.dumps(items[META].item))
    finally:
        if leads:
            _remove_others(checkpoint, item)


def _replace(path: Path, text: str) -> None:
    """Replaces a file at once: whoever reads it finds the old or the new text."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    _make_durable(unfinished)
    unfinished.replace(path)
    _make_durable(path.parent)


def _make_durable(path: Path) -> None:
    """Has a file, or the names in a folder, outlast a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_others(checkpoint: Path, item: str) -> None:
    """Removes the arrays that the notes do not name."""
    named = arrays_of(read(checkpoint), item)
    for path in names.arrays(checkpoint, item):
        if path.name != named:
            shutil.rmtree(path, ignore_errors=True)
