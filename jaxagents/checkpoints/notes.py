"""The notes of a checkpoint: JSON that says what it holds, sealed by a digest."""

import json
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from jaxagents.checkpoints.names import step_of

FORMAT = 2
"""Number of the format of checkpoints. Those of the first have neither a number nor a digest."""

META = "meta"
TREE, HISTORY = "tree", "history"
"""The parts of the arrays, of whose signatures there are lists in the notes."""

ARRAYS = "arrays"
"""The note that says in which folder, within that of the checkpoint, the arrays are."""

FILE = "metadata"
"""Name of the file with the notes, in the folder `META`."""

_FORMAT, _STEP, _DIGEST = "format", "step", "digest"
_MEAN_RETURN = "mean_return"


class CorruptCheckpointError(ValueError):
    """A checkpoint could not be read back as it was written."""


def sealed(notes: Mapping[str, Any], step: int, mean_return: float | None) -> dict[str, Any]:
    """Notes as they are written.

    Args:
        notes: Anything that JSON can hold.
        step: The checkpoint's step.
        mean_return: Mean return by which the best checkpoint is found; `None` for one that is not to be.

    Returns:
        The notes with these, the number of the format, and a digest of it all.
    """
    own = {_FORMAT: FORMAT, _STEP: step, _MEAN_RETURN: mean_return}
    notes = json.loads(json.dumps({**notes, **own}))
    return {**notes, _DIGEST: _digest(notes)}


def read(folder: Path) -> dict[str, Any]:
    """The notes of the checkpoint in a folder.

    Args:
        folder: The folder.

    Returns:
        The notes.

    Raises:
        CorruptCheckpointError: They cannot be read back as they were written, or are those of another
            step than the folder's name says.
        ValueError: A later release wrote them.
    """
    try:
        notes = json.loads((folder / META / FILE).read_bytes())
        if not isinstance(notes, dict):
            raise TypeError(f"{type(notes).__name__} instead of an object")
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise CorruptCheckpointError(f"its notes cannot be read ({reason})") from error
    if not all(isinstance(notes.get(part), list) for part in (TREE, HISTORY)):
        raise CorruptCheckpointError("its notes are those of no checkpoint")
    if _DIGEST not in notes and _FORMAT not in notes:
        return notes
    if notes.pop(_DIGEST, None) != _digest(notes):
        raise CorruptCheckpointError("its notes are damaged")
    if notes[_FORMAT] > FORMAT:
        raise ValueError(
            f"{folder} has the format {notes[_FORMAT]} of checkpoints, but this release of jaxagents "
            f"reads those up to {FORMAT}: use a newer one."
        )
    step = step_of(folder.name)
    if step is not None and step != notes[_STEP]:
        raise CorruptCheckpointError(f"it is the checkpoint of {notes[_STEP]}, and was renamed")
    return notes


def say_the_same(
    notes: Mapping[str, Any], others: Mapping[str, Any], passing: Collection[str]
) -> bool:
    """Whether notes are those of checkpoints with the same contents.

    Args:
        notes: Notes.
        others: Other notes.
        passing: Names of notes that are others whenever the same is saved.

    Returns:
        Whether all the others are equal, but for the digest and the folder of the arrays.
    """
    passing = {*passing, ARRAYS, _DIGEST}
    said, said_by_others = (
        json.dumps({name: x for name, x in each.items() if name not in passing}, sort_keys=True)
        for each in (notes, others)
    )
    return said == said_by_others


def renamed_from(folder: Path) -> int | None:
    """The step of the checkpoint in a folder whose name is no step; `None` if there is none in it."""
    try:
        return read(folder).get(_STEP)
    except ValueError:
        return None


def arrays_of(notes: Mapping[str, Any], item: str) -> str:
    """Name of the folder, within that of a checkpoint, that holds its arrays.

    Args:
        notes: The notes of the checkpoint.
        item: Name of its pytree, which is that of the folder unless the notes say another.

    Returns:
        The name.
    """
    return notes.get(ARRAYS, item)


def n_points(notes: Mapping[str, Any], step_name: str) -> int:
    """Number of points in the history of a checkpoint.

    Args:
        notes: The notes of the checkpoint.
        step_name: Name of the steps in the history.

    Returns:
        The number.
    """
    return next((leaf["shape"][0] for leaf in notes[HISTORY] if leaf["path"] == step_name), 0)


def mean_return_of(notes: Mapping[str, Any]) -> float | None:
    """The mean return that is noted; `None` for a checkpoint that is not to be the best.

    Raises:
        KeyError: Nothing is noted, as in the first format.
    """
    return notes[_MEAN_RETURN]


def _digest(notes: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(notes, sort_keys=True).encode())
