"""The notes of a checkpoint: JSON that says what it holds, sealed by a digest."""

import json
import re
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

FORMAT = 2
"""Number of the format of checkpoints."""

META = "meta"
"""Name of the notes among the items that orbax saves."""

TREE, HISTORY = "tree", "history"
"""The two parts of the arrays. The notes have a list of leaves for each."""

FILE = "metadata"
"""Name of the file with the notes, in the folder `META`."""
_DIGEST = "digest"
_NAME = re.compile(r"(0|[1-9][0-9]{0,17})(?:-([1-9][0-9]{0,8}))?")


class CorruptCheckpointError(ValueError):
    """A checkpoint could not be read back as it was written."""


def step_and_version(name: str) -> tuple[int, int] | None:
    """The step and version in the name of a checkpoint's folder (`20`, `20-2`); `None` in others."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2] or 1)) if match else None


def sealed(notes: Mapping[str, Any], step: int, mean_return: float | None) -> dict[str, Any]:
    """Notes as they are written, with a digest. Without a mean return, none becomes the best."""
    own = {"format": FORMAT, "step": step, "mean_return": mean_return}
    notes = json.loads(json.dumps({**notes, **own}))
    return {**notes, _DIGEST: _digest(notes)}


def read(folder: Path) -> dict[str, Any]:
    """Reads the notes in the folder of a checkpoint, without their digest.

    Raises:
        CorruptCheckpointError: They are damaged, or the folder was renamed.
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
    if notes.pop(_DIGEST, None) != _digest(notes):
        raise CorruptCheckpointError("its notes are damaged")
    if notes["format"] > FORMAT:
        raise ValueError(
            f"{folder} has the format {notes['format']} of checkpoints, but this release of jaxagents "
            f"reads those up to {FORMAT}: use a newer one."
        )
    named = step_and_version(folder.name)
    if named is not None and named[0] != notes["step"]:
        raise CorruptCheckpointError(f"it is the checkpoint of {notes['step']}, and was renamed")
    return notes


def say_the_same(
    notes: Mapping[str, Any], others: Mapping[str, Any], ignored: Collection[str]
) -> bool:
    """Whether notes describe the same contents, apart from some that are ignored."""
    ignored = {*ignored, _DIGEST, "arrays"}  # the last is in older checkpoints only

    def compared(notes: Mapping[str, Any]) -> str:
        return json.dumps({k: v for k, v in notes.items() if k not in ignored}, sort_keys=True)

    return compared(notes) == compared(others)


def _digest(notes: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(notes, sort_keys=True).encode())
