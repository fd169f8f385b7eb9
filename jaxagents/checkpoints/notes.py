"""The notes of a checkpoint: JSON that describes its contents, with a digest."""

import dataclasses
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jaxtyping import PyTree

from jaxagents.core.describe import to_json
from jaxagents.core.hyperparameters import (
    CosineSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    Schedule,
    has_schedules,
)

FORMAT = 2
"""Version of the checkpoint format."""

META = "meta"
"""Name of the notes among the items that orbax saves."""

TREE, HISTORY = "tree", "history"
"""The two parts of the arrays. The notes list the leaves of each."""

FILE = "metadata"
"""Name of the file with the notes, in the folder `META`."""
_DIGEST = "digest"
_HYPERPARAMETERS = "hyperparameters"
_NAME = re.compile(r"(0|[1-9][0-9]{0,17})(?:-([1-9][0-9]{0,8}))?")


class CorruptCheckpointError(ValueError):
    """A checkpoint is damaged: it cannot be read, or differs from what was written."""


def step_and_version(name: str) -> tuple[int, int] | None:
    """The step and version in a checkpoint folder's name (`20`, `20-2`); `None` for other folders."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2] or 1)) if match else None


def sealed(notes: Mapping[str, Any], step: int, mean_return: float | None) -> dict[str, Any]:
    """Notes with a digest, ready to write. A checkpoint without a mean return is never the best."""
    own = {"format": FORMAT, "step": step, "mean_return": mean_return}
    notes = json.loads(json.dumps({**notes, **own}))
    return {**notes, _DIGEST: _digest(notes)}


def read(folder: Path) -> dict[str, Any]:
    """Reads the notes in the folder of a checkpoint, without their digest.

    Raises:
        CorruptCheckpointError: The notes are damaged, or the folder was renamed.
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
        raise CorruptCheckpointError("its notes do not describe a checkpoint")
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


def same_contents(notes: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether notes describe the same contents."""
    ignored = {_DIGEST, "arrays"}  # the last is in older checkpoints only

    def compared(notes: Mapping[str, Any]) -> str:
        return json.dumps({k: v for k, v in notes.items() if k not in ignored}, sort_keys=True)

    return compared(notes) == compared(others)


def _digest(notes: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(notes, sort_keys=True).encode())


_KINDS = {
    kind.__name__: kind
    for kind in (LinearSchedule, CosineSchedule, ExponentialSchedule, PiecewiseSchedule)
}


def notes_of_schedules(hyperparams: PyTree) -> dict[str, Any]:
    """Hyperparameters as JSON, for the notes of a checkpoint.

    Args:
        hyperparams: Hyperparameters.

    Returns:
        The notes; empty without schedules and environment parameters, since the class then determines
        the structure.
    """
    differs = has_schedules(hyperparams) or hyperparams.env_params
    return {_HYPERPARAMETERS: to_json(hyperparams)} if differs else {}


def structured_as_saved(hyperparams: PyTree, notes: Mapping[str, Any]) -> PyTree:
    """Gives hyperparameters the structure of the saved ones, with the same schedules.

    Args:
        hyperparams: Hyperparameters of the same class.
        notes: The notes of the checkpoint.

    Returns:
        Hyperparameters with the structure of the saved ones.

    Raises:
        ValueError: The notes do not describe a saved schedule, and the hyperparameters lack it.
    """
    return _with_saved(hyperparams, notes.get(_HYPERPARAMETERS, {}), "")


def _with_saved(given: PyTree, saved: Mapping[str, Any], path: str) -> PyTree:
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(given):
        value, description = getattr(given, field.name), saved.get(field.name)
        if isinstance(description, dict) and "schedule" in description:
            fields[field.name] = _schedule(value, description, f"{path}{field.name}")
        elif isinstance(value, Schedule):
            fields[field.name] = 0.0
        elif isinstance(value, Mapping):
            fields[field.name] = _mapping(value, description or {}, f"{path}{field.name}")
        elif dataclasses.is_dataclass(value):
            fields[field.name] = _with_saved(value, description or {}, f"{path}{field.name}.")
    return dataclasses.replace(given, **fields) if fields else given


def _mapping(given: Mapping[str, Any], saved: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The numbers and schedules among environment parameters."""
    return {
        name: _schedule(given.get(name), description, f"{path}[{name!r}]")
        if isinstance(description, dict)
        else 0.0
        for name, description in saved.items()
    }


def _schedule(given: object, saved: Mapping[str, Any], name: str) -> Schedule:
    kind = saved["schedule"]
    if type(given).__name__ == kind and kind not in _KINDS:
        assert isinstance(given, Schedule)
        return given
    if kind not in _KINDS:
        raise ValueError(
            f"{name} was a {kind} when the checkpoint was made, which does not say more about "
            "it: pass the hyperparameters to restore, such as restore('last', "
            "hyperparams=hyperparams)."
        )
    fields: dict[str, Any] = {
        key: tuple(x) if isinstance(x, list) else x for key, x in saved.items()
    }
    del fields["schedule"]
    return jax.tree.map(lambda _: 0.0, _KINDS[kind](**fields), is_leaf=lambda x: x is None)
