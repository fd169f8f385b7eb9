"""Pictures of a policy at work (imageio, extra `video`)."""

import os
from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.files import check_film, film
from jaxagents.host.evaluation import Policy, check_single, evaluate

_DEFAULT_FPS = 30


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
        FileNotFoundError: Its folder does not exist.
        ImportError: imageio or imageio-ffmpeg is not installed.
    """
    check_single(env)
    if env.render_mode != "rgb_array":
        raise ValueError(
            'record_video needs an environment made with render_mode="rgb_array", got '
            f"render_mode={env.render_mode!r}."
        )
    rate: float = env.metadata.get("render_fps", _DEFAULT_FPS) if fps is None else fps
    path = check_film(path, rate)
    with film(path, rate) as its:
        return evaluate(policy, _Filmed(env, its.write, its.every), n_episodes, seed=seed)


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
