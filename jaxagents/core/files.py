"""Paths of folders and files, and writing of videos."""

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from jaxagents.core.extras import require


def folder(name: str, value: object, instead: str = "") -> Path:
    """Converts a folder to an absolute path, independent of the working directory.

    Args:
        name: Name of the argument.
        value: A path.
        instead: Alternatives to a path, for the message.

    Returns:
        The path.

    Raises:
        ValueError: `value` is not a path.
    """
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ValueError(
            f"{name} must be the path of a folder, such as 'runs/1'{instead}, got {value!r}."
        )
    return Path(os.fsdecode(value)).expanduser().absolute()


def file_in_folder(path: str | os.PathLike) -> Path:
    """Checks that the folder of a file exists.

    Args:
        path: The file.

    Returns:
        The path, with `~` expanded.

    Raises:
        FileNotFoundError: The folder does not exist.
    """
    path = Path(path).expanduser()
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: there is no folder {path.parent}; create it, or choose "
            "another."
        )
    return path


def new_file(path: str | os.PathLike) -> Path:
    """Checks that a file does not exist, but its folder does.

    Args:
        path: The file.

    Returns:
        The path, with `~` expanded.

    Raises:
        FileExistsError: The file exists.
        FileNotFoundError: The folder does not exist.
    """
    path = file_in_folder(path)
    if path.exists():
        raise FileExistsError(f"{path} exists already: choose another name.")
    return path


def with_ending(path: str | os.PathLike, endings: Collection[str]) -> Path:
    """Checks the extension of a file.

    Args:
        path: The file.
        endings: The valid extensions.

    Returns:
        The path, with `~` expanded.

    Raises:
        ValueError: It has a different extension.
    """
    path = Path(path).expanduser()
    if path.suffix not in endings:
        raise ValueError(f"path must end in {' or '.join(endings)}, got {path}.")
    return path


_LARGEST_GIF_FPS = 50  # viewers slow down faster ones

Frame = UInt8[np.ndarray, "height width 3"]


class Film(NamedTuple):
    """A video being written.

    Attributes:
        write: Writes a frame.
        every: Write only every n-th frame, to keep the playback speed.
    """

    write: Callable[[Frame], None]
    every: int


def check_film(path: str | os.PathLike, fps: float | int) -> Path:
    """Checks that a video can be written.

    Args:
        path: The file.
        fps: Frames per second.

    Returns:
        The path, with `~` expanded.

    Raises:
        ValueError: The extension is not `.gif` or `.mp4`, or `fps` is not positive.
        FileExistsError: The file exists.
        FileNotFoundError: The folder does not exist.
        ImportError: imageio or imageio-ffmpeg is not installed.
    """
    if not fps > 0:
        raise ValueError(f"fps must be positive, got {fps}.")
    path = new_file(with_ending(path, (".gif", ".mp4")))
    require("imageio.v2", "video")
    if path.suffix == ".mp4":
        require("imageio_ffmpeg", "video")
    return path


@contextlib.contextmanager
def film(path: Path, fps: float | int) -> Iterator[Film]:
    """Writes a video; after an error, no file is left.

    Args:
        path: The file, as returned by `check_film`.
        fps: Frames per second.

    Yields:
        The video.
    """
    imageio, every = require("imageio.v2", "video"), 1
    if path.suffix == ".gif":
        every = math.ceil(fps / _LARGEST_GIF_FPS)
        milliseconds = 10 * round(100 * every / fps)
        writer = imageio.get_writer(path, duration=milliseconds, loop=0)
    else:
        writer = imageio.get_writer(path, format="FFMPEG", fps=fps)
    try:
        with writer:
            yield Film(writer.append_data, every)
    except BaseException:
        path.unlink(missing_ok=True)  # half a video would block the next attempt
        raise
