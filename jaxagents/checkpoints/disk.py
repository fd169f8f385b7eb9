"""Locks of folders that a run writes to, and errors of full, read-only or missing disks."""

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
"""Bytes; more than orbax writes besides the arrays."""


def lock(directory: Path) -> FileLock:
    """Makes a folder, and locks it for this thread, which may lock it several times.

    Raises:
        FileExistsError: Another run is writing to it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    held = FileLock(directory.resolve() / LOCK, is_singleton=True)
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise FileExistsError(
            f"Another run is writing to {directory}: choose another checkpoint_dir, or wait."
        ) from None
    return held


def write_description(directory: str | os.PathLike, stem: str, description: object) -> None:
    """Writes `stem.json`, or `stem-2.json` and so on if the file exists with other contents."""
    text = json.dumps(to_json(description), indent=2) + "\n"
    path, number = Path(directory).expanduser().resolve() / f"{stem}.json", 1
    path.parent.mkdir(parents=True, exist_ok=True)
    while path.exists() and path.read_bytes() != text.encode():
        number += 1
        path = path.with_name(f"{stem}-{number}.json")
    path.write_bytes(text.encode())


def make_durable(*paths: Path) -> None:
    """Flushes files, or the entries of folders, to disk, so that they survive a power failure."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def probe(directory: Path, n_bytes: int) -> None:
    """Briefly writes a file of up to a megabyte, plus overhead, to a folder.

    On a full or read-only disk this raises a single `OSError`; orbax would log a screenful of errors.
    """
    path = directory / ".probe"
    try:
        path.write_bytes(bytes(min(n_bytes, 1 << 20) + _OVERHEAD))
    finally:
        path.unlink(missing_ok=True)


class DiskErrors:
    """Warns, once for each reason, that a folder cannot be written to."""

    def __init__(self, directory: Path) -> None:
        """Takes the folder."""
        self._directory = directory
        self._said: set[str] = set()

    @contextlib.contextmanager
    def attempt(self, kind: type[Exception] = Exception) -> Iterator[None]:
        """A context in which errors of the given class only warn."""
        try:
            yield
        except kind as error:
            reason = _in_words(error)
            if reason not in self._said:
                self._said.add(reason)
                warnings.warn(
                    f"{self._directory} could not be written to: {reason}. Training continues, "
                    "and what is missing is written as soon as possible.",
                    stacklevel=3,
                )

    @contextlib.contextmanager
    def at_start(self) -> Iterator[None]:
        """A context in which disk errors name the folder, and suggest a remedy."""
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
    """The system's reason for an error, also if it is only in the text of another library's error."""
    text, cause = "", error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno)
        text, cause = f"{text} {cause}", cause.__cause__ or cause.__context__
    reasons = [reason for reason in map(os.strerror, errno.errorcode) if reason in text]
    return reasons[0] if reasons else f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
