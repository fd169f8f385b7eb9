"""Videos of episodes that compiled programs have played."""

import itertools
import os

import jax
import numpy as np
from jaxtyping import PyTree, UInt8

from jaxagents.core.files import check_film, film
from jaxagents.envs.environment import Environment


def check_can_film(env: Environment, path: str | os.PathLike | None, fps: float | int) -> None:
    """Raises unless videos of an environment can be made.

    Args:
        env: The environment.
        path: The file to write, if there is one.
        fps: Steps a second.

    Raises:
        NotImplementedError: The environment does not draw.
        ValueError: `path` has another ending than `.gif` and `.mp4`, or `fps` is not positive.
        FileExistsError: The file exists.
        FileNotFoundError: Its folder does not exist.
        ImportError: imageio or imageio-ffmpeg is not installed.
    """
    if not env.can_draw:
        raise NotImplementedError(env.why_it_cannot_draw)
    if path is not None:
        check_film(path, fps)


def draw_states(
    env: Environment, states: PyTree, n_states: int
) -> UInt8[np.ndarray, "time height width 3"]:
    """Draws the states of an episode.

    Args:
        env: The environment.
        states: Its states along a first axis.
        n_states: Number of states that belong to the episode.

    Returns:
        A picture of each of these states.

    Raises:
        ValueError: The environment draws something else.
    """
    states = jax.device_get(states)
    render, pictures = f"{env.wording.environment}.render", []
    for i in range(n_states):
        picture = np.asarray(env.render(jax.tree.map(lambda x, i=i: x[i], states)))
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
            raise ValueError(
                f"{render} must give a picture, an array shaped (height, width, 3) of dtype uint8, got "
                f"shape {picture.shape} and dtype {picture.dtype}."
            )
        pictures.append(picture)
    shapes = {picture.shape for picture in pictures}
    if len(shapes) > 1:
        raise ValueError(f"{render} must give pictures of one size, got {sorted(shapes)}.")
    return np.stack(pictures)


def write_film(
    path: str | os.PathLike, frames: UInt8[np.ndarray, "time height width 3"], fps: float | int
) -> None:
    """Writes frames to a file.

    Args:
        path: The file, which ends in `.gif` or `.mp4` and does not exist.
        frames: The frames.
        fps: Frames a second.
    """
    with film(check_film(path, fps), fps) as its:
        for frame in itertools.islice(frames, 0, None, its.every):
            its.write(frame)
