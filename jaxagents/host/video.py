"""Pictures of a policy at work (imageio, extra `video`)."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.extras import require
from jaxagents.host.evaluation import Policy, check_single, evaluate

_DEFAULT_FPS = 30
_LARGEST_GIF_FPS = 50  # viewers slow down what is faster


def record_video(
    policy: Policy,
    env: gymnasium.Env,
    path: str | os.PathLike,
    n_episodes: int = 1,
    *,
    seed: int = 0,
    fps: float | None = None,
) -> dict[str, np.ndarray]:
    """Films episodes, the same that [`evaluate`][jaxagents.host.evaluate] plays with this seed.

    ```python
    env = gymnasium.make("Pendulum-v1", render_mode="rgb_array")
    metrics = record_video(policy, env, "pendulum.gif")
    ```

    A GIF counts time in hundredths of a second, and viewers play it at most at 50 frames a second:
    of a faster film it holds every second frame (or third, ...), so that time passes as it should. Its
    frames stay in memory until it is written; an MP4 is written as it goes.

    Args:
        policy: Maps one observation to one action.
        env: A single environment, made with `render_mode="rgb_array"`.
        path: The file to write, which must not exist; it ends in `.gif`, or in `.mp4` (which needs
            imageio-ffmpeg).
        n_episodes: Number of episodes, one after another in the film.
        seed: Seed of the episodes.
        fps: Frames (steps) a second; by default the environment's `metadata["render_fps"]`.

    Returns:
        The metrics of [`evaluate`][jaxagents.host.evaluate].

    Raises:
        TypeError: `env` is not a single Gymnasium environment.
        ValueError: The environment renders no arrays, `path` has another ending, or `fps` is not
            positive.
        FileExistsError: The file exists.
        ImportError: imageio or imageio-ffmpeg is not installed.
    """
    check_single(env)
    if env.render_mode != "rgb_array":
        raise ValueError(
            'record_video needs an environment made with render_mode="rgb_array", got '
            f"render_mode={env.render_mode!r}."
        )
    rate: float = env.metadata.get("render_fps", _DEFAULT_FPS) if fps is None else fps
    if rate <= 0:
        raise ValueError(f"fps must be positive, got {rate}.")
    path = Path(path).expanduser()
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"path must end in .gif or .mp4, got {path}.")
    if path.exists():
        raise FileExistsError(f"{path} exists already: choose another name.")
    writer, every = (_open_gif if path.suffix == ".gif" else _open_mp4)(path, rate)
    try:
        with writer:
            return evaluate(policy, _Filmed(env, writer.append_data, every), n_episodes, seed=seed)
    except BaseException:
        path.unlink(missing_ok=True)  # half a film, which would be in the way of the next attempt
        raise


class _Filmed(gymnasium.Wrapper):
    """Hands on one frame out of `every` many."""

    def __init__(self, env: gymnasium.Env, write: Callable[[PyTree], None], every: int) -> None:
        super().__init__(env)
        self._write = write
        self._every = every
        self._n_frames = 0

    def reset(self, **kwargs: Any) -> tuple[PyTree, dict[str, Any]]:
        outcome = super().reset(**kwargs)
        self._film()
        return outcome

    def step(self, action: PyTree) -> tuple[PyTree, SupportsFloat, bool, bool, dict[str, Any]]:
        outcome = super().step(action)
        self._film()
        return outcome

    def _film(self) -> None:
        if self._n_frames % self._every == 0:
            self._write(self.env.render())
        self._n_frames += 1


def _open_gif(path: Path, fps: float) -> tuple[Any, int]:
    """A writer, and how many frames of the environment there are to one of the GIF."""
    imageio = require("imageio.v2", "jaxagents[video]")
    every = math.ceil(fps / _LARGEST_GIF_FPS)
    milliseconds = 10 * round(100 * every / fps)
    return imageio.get_writer(path, duration=milliseconds, loop=0), every


def _open_mp4(path: Path, fps: float) -> tuple[Any, int]:
    imageio = require("imageio.v2", "jaxagents[video]")
    require("imageio_ffmpeg", "imageio[ffmpeg]")
    return imageio.get_writer(path, format="FFMPEG", fps=fps), 1
