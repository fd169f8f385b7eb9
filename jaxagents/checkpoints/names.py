"""Names of folders: of checkpoints, of those set aside, and of what is not finished or not needed."""

import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

OUTDATED = ".outdated"
"""Folder into which old checkpoints are moved, lest a kill leaves one of which files are gone."""

_UNFINISHED = ".orbax-checkpoint-tmp"
_SET_ASIDE = ".damaged-"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


def step_of(name: str) -> int | None:
    """The step that the name of a folder stands for; `None` if it is not one of a checkpoint."""
    return int(name) if _NUMBER.fullmatch(name) else None


def unfinished(checkpoints: Path) -> Iterator[Path]:
    """The remains of checkpoints that orbax did not finish."""
    return checkpoints.glob(f"*{_UNFINISHED}*")


def set_aside(checkpoints: Path) -> Iterator[Path]:
    """The damaged checkpoints that were set aside."""
    return checkpoints.glob(f"*{_SET_ASIDE}*")


def free_name_aside(folder: Path) -> Path:
    """The folder to which a damaged checkpoint may be renamed."""
    names = (f"{folder.name}{_SET_ASIDE}{number}" for number in itertools.count(1))
    return next(path for name in names if not (path := folder.with_name(name)).exists())


def arrays(checkpoint: Path, item: str) -> set[Path]:
    """The folders in that of a checkpoint for arrays of a pytree, also for those not finished."""
    own = re.compile(rf"{item}(-[0-9]+)?({re.escape(_UNFINISHED)}.*)?")
    with contextlib.suppress(FileNotFoundError):  # where a training has just removed it
        return {path for path in checkpoint.iterdir() if own.fullmatch(path.name)}
    return set()


def next_arrays(name: str) -> str:
    """The name of the folder of arrays that are to take the place of those in another."""
    item, _, number = name.partition("-")
    return f"{item}-{int(number or 1) + 1}"


def strangers(checkpoints: Path) -> list[Path]:
    """The folders whose names are neither steps nor any that this library gives, in order."""
    own = {checkpoints / OUTDATED, *unfinished(checkpoints), *set_aside(checkpoints)}
    return sorted(
        path
        for path in checkpoints.iterdir()
        if path.is_dir() and path not in own and step_of(path.name) is None
    )
