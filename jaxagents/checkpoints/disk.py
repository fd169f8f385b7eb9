"""Folders that are locked while a run writes to them, and disks that are full, read-only or gone."""

import contextlib
import errno
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from jaxagents.core.describe import to_json

LOCK = ".lock"
_OVERHEAD = 1 << 18
"""Bytes, more than orbax needs besides the arrays."""


def lock(directory: Path) -> FileLock:
    """Makes a folder, and locks it against all but this thread, which may lock it several times.

    Raises:
        FileExistsError: Another run is writing to it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    held = FileLock(directory.resolve() / LOCK, is_singleton=True)
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise FileExistsError(
            f"Another training is writing to {directory}: choose another checkpoint_dir, or wait."
        ) from None
    return held


def write_description(directory: str | os.PathLike, stem: str, description: object) -> None:
    """Writes `stem.json`, or `stem-2.json` and so on where other contents are already there."""
    text = json.dumps(to_json(description), indent=2) + "\n"
    path, number = Path(directory).expanduser().resolve() / f"{stem}.json", 1
    path.parent.mkdir(parents=True, exist_ok=True)
    while path.exists() and path.read_bytes() != text.encode():
        number += 1
        path = path.with_name(f"{stem}-{number}.json")
    path.write_bytes(text.encode())


def make_durable(*paths: Path) -> None:
    """Has files, or the names in folders, outlast a loss of power."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def probe(directory: Path, n_bytes: int) -> None:
    """Writes a file of up to a megabyte (and the overhead) to a folder for a moment.

    On a full or read-only disk, this raises one `OSError`, while orbax logs errors that fill a screen.
    """
    path = directory / ".probe"
    try:
        path.write_bytes(bytes(min(n_bytes, 1 << 20) + _OVERHEAD))
    finally:
        path.unlink(missing_ok=True)


class Troubles:
    """Warns, once for each reason, that a folder cannot be written to."""

    def __init__(self, directory: Path) -> None:
        """Takes the folder."""
        self._directory = directory
        self._said: set[str] = set()

    @contextlib.contextmanager
    def attempt(self, kind: type[Exception] = Exception) -> Iterator[None]:
        """A context in which an error of a kind only warns."""
        try:
            yield
        except kind as error:
            reason = _in_words(error)
            if reason not in self._said:
                self._said.add(reason)
                warnings.warn(
                    f"{self._directory} could not be written to: {reason}. Training goes on, and what "
                    "is missing is written as soon as that is possible.",
                    stacklevel=3,
                )

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        """A context in which errors of a disk name the folder, and what can be done."""
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise
            raise type(error)(
                error.errno,
                f"{self._directory} cannot be written to: {_in_words(error)}. Nothing was trained: "
                "make room or choose another checkpoint_dir",
            ) from None


def _in_words(error: BaseException) -> str:
    """The system's reason for an error, which may be in the text of another library's alone."""
    text, cause = "", error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno)
        text, cause = f"{text} {cause}", cause.__cause__ or cause.__context__
    reasons = [reason for reason in map(os.strerror, errno.errorcode) if reason in text]
    return reasons[0] if reasons else f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
