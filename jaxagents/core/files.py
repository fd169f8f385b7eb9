"""Folders and files that users give, and the videos that are written to them."""

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


def with_ending(path: str | os.PathLike, endings: Collection[str]) -> Path:
    """A file whose name says its format.

    Args:
        path: The file.
        endings: The endings that are known.

    Returns:
        The path, with `~` replaced by the home folder.

    Raises:
        ValueError: It has another ending.
    """
    path = Path(path).expanduser()
    if path.suffix not in endings:
        raise ValueError(f"path must end in {' or '.join(endings)}, got {path}.")
    return path


_LARGEST_GIF_FPS = 50  # viewers slow down faster ones

Frame = UInt8[np.ndarray, "height width 3"]


class Film(NamedTuple):
    """A film that is being written.

    Attributes:
        write: Takes a frame.
        every: The film takes one of this many frames, so that time passes as it should.
    """

    write: Callable[[Frame], None]
    every: int


def check_film(path: str | os.PathLike, fps: float | int) -> Path:
    """The path of a film that can be made.

    Args:
        path: The file.
        fps: Frames a second.

    Returns:
        The path, with `~` replaced by the home folder.

    Raises:
        ValueError: It has another ending than `.gif` and `.mp4`, or `fps` is not positive.
        FileExistsError: The file exists.
        FileNotFoundError: Its folder does not exist.
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
    """Writes a film, whole or not at all.

    Args:
        path: The file, as `check_film` gives it.
        fps: Frames a second.

    Yields:
        The film.
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
        path.unlink(missing_ok=True)  # half a film, which would be in the way of the next attempt
        raise
