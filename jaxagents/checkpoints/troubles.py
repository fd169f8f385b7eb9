"""Troubles with a disk, of which a training warns and goes on."""

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from jaxagents.checkpoints.quiet import collect_what_orbax_left

_WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "a file would be larger than is allowed",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "writing there is not permitted",
    errno.EPERM: "writing there is not permitted",
    errno.ENOENT: "the folder is gone",
    errno.ESTALE: "the folder is gone",
    errno.ELOOP: "a file there is a symbolic link, which is not followed",
    errno.EIO: "the disk does not answer",
}


class Troubles:
    """Warns, once for each reason, that a folder cannot be written to."""

    def __init__(self, directory: Path) -> None:
        """Takes the folder."""
        self._directory = directory
        self._said: set[str] = set()

    @contextlib.contextmanager
    def attempt(self, kind: type[Exception] = Exception) -> Iterator[None]:
        """A context in which an error of a kind only warns."""
        reason = None
        try:
            yield
        except kind as error:
            reason = _in_words(error)
        if reason is not None:
            collect_what_orbax_left()
            self._warn(reason)

    def _warn(self, reason: str) -> None:
        if reason in self._said:
            return
        self._said.add(reason)
        warnings.warn(
            f"{self._directory} could not be written to: {reason}. Training goes on, and what is "
            "missing is written as soon as that is possible.",
            stacklevel=4,
        )


@contextlib.contextmanager
def in_our_words(directory: Path) -> Iterator[None]:
    """A context in which errors of a disk name the folder and what can be done.

    Args:
        directory: The folder that is to be written to.

    Raises:
        OSError: It cannot be written to.
    """
    trouble = None
    try:
        yield
    except OSError as error:
        if error.errno not in _WORDS:
            raise
        trouble = type(error)(
            error.errno,
            f"{directory} cannot be written to: {_WORDS[error.errno]}. Nothing was trained: make room "
            "or choose another checkpoint_dir",
        )
    if trouble is not None:
        raise trouble


def _in_words(error: BaseException) -> str:
    """The reason of an error of the system, also if a library reports it as one of its own."""
    text = ""
    cause: BaseException | None = error
    while cause is not None:
        number = cause.errno if isinstance(cause, OSError) else None
        if number in _WORDS:
            return _WORDS[number]
        text = f"{text} {cause}"
        cause = cause.__cause__ or cause.__context__
    for number, words in _WORDS.items():
        if os.strerror(number) in text:
            return words
    first_line = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first_line}"
