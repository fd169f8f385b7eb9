"""Checks of the folders and files that users give."""

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


def file_in_folder(path: str | os.PathLike) -> Path:
    """A file that can be written, as far as its folder goes.

    Args:
        path: The file.

    Returns:
        The path, with `~` replaced by the home folder.

    Raises:
        FileNotFoundError: Its folder does not exist.
    """
    path = Path(path).expanduser()
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: there is no folder {path.parent}; make it, or choose another."
        )
    return path


def new_file(path: str | os.PathLike) -> Path:
    """A file that can be written, and does not exist.

    Args:
        path: The file.

    Returns:
        The path, with `~` replaced by the home folder.

    Raises:
        FileExistsError: The file exists.
        FileNotFoundError: Its folder does not exist.
    """
    path = file_in_folder(path)
    if path.exists():
        raise FileExistsError(f"{path} exists already: choose another name.")
    return path
