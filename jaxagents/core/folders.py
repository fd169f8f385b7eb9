"""Checks of the folders that users give."""

import os
from pathlib import Path


def folder(name: str, value: object, instead: str = "") -> Path:
    """A folder as an absolute path, which stays the same where a script changes its own.

    Args:
        name: Name of what was given.
        value: A path.
        instead: What may be given instead, in words.

    Returns:
        The path.

    Raises:
        ValueError: It is no path.
    """
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ValueError(
            f"{name} must be the path of a folder, such as 'runs/1'{instead}, got {value!r}."
        )
    return Path(os.fsdecode(value)).expanduser().absolute()
