"""Films of episodes that compiled programs have played."""

import itertools
import os

import jax
import numpy as np
from jaxtyping import PyTree, UInt8

from jaxagents.core.films import check_film, film
from jaxagents.envs.environment import Environment

_N_COLOURS = 3


def check_can_film(env: Environment, path: str | os.PathLike | None, fps: float | int) -> None:
    """Raises unless episodes of an environment can be filmed.

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
        n_states: Number of those that belong to the episode, the first.

    Returns:
        A picture of each.

    Raises:
        ValueError: The environment draws something else.
    """
    states = jax.device_get(states)
    pictures = [
        _checked(env, env.render(jax.tree.map(lambda x, i=i: x[i], states)))
        for i in range(n_states)
    ]
    shapes = {picture.shape for picture in pictures}
    if len(shapes) > 1:
        raise ValueError(
            f"{env.wording.environment}.render must give pictures of one size, got {sorted(shapes)}."
        )
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


def _checked(env: Environment, picture: object) -> np.ndarray:
    array = np.asarray(picture)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[-1] != _N_COLOURS:
        raise ValueError(
            f"{env.wording.environment}.render must give a picture, an array shaped (height, width, "
            f"3) of dtype uint8, got shape {array.shape} and dtype {array.dtype}."
        )
    return array
