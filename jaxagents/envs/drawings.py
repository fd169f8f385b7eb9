"""Images of environment states, and videos of episodes played by compiled programs."""

import base64
import dataclasses
import functools
import importlib.util
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.core.files import check_film, film
from jaxagents.envs.environment import Environment

Picture = UInt8[np.ndarray, "height width 3"]
Drawing = Callable[[Any, PyTree, PyTree], Any]
"""Maps an environment, a state and the environment's parameters to an image, or to anything else that
the environment's own `render` returns."""

_FPS_OF_GAMES = 10
_GRID_SIZE = 240
"""Approximate size of the longer side of a grid, in pixels."""
_BACKGROUND = np.array((16, 18, 28), np.uint8)
_CHANNELS = "56B4E9 F0E442 5A5F73 D55E00 009E73 CC79A7 E69F00 785EF0 FFFFFF 0072B2"
"""Colour-blind friendly colours of a grid's channels, the player's first."""


def drawing_of(env: Any) -> Drawing | None:
    """Finds the function that draws an environment: its own `render`, or a built-in one.

    Args:
        env: The environment.

    Returns:
        The function; `None` if there is none.
    """
    ours, _ = _OF_GYMNAX.get(_name(env), (None, _FPS_OF_GAMES))
    is_from_gymnax = type(env).__module__.startswith("gymnax.")
    if callable(getattr(env, "render", None)) and not (ours and is_from_gymnax):
        return lambda env, state, params: as_picture(lambda: env.render(state, params))
    if ours is None:
        return None

    def draw(env: Any, state: PyTree, params: PyTree) -> Picture:
        while hasattr(state, "env_state"):  # of a gymnax wrapper
            state = state.env_state
        return ours(env, state, params)

    return draw


def frames_a_second(env: Any) -> float | int:
    """Steps per second in videos of an environment."""
    _, usual = _OF_GYMNAX.get(_name(env), (None, _FPS_OF_GAMES))
    return getattr(env, "render_fps", usual)


def _name(env: Any) -> str:
    name = getattr(env, "name", "")
    return name if isinstance(name, str) else ""


def as_picture(draw: Callable[[], Any]) -> Any:
    """Converts the result of a drawing function to an image, without opening a window.

    Args:
        draw: Returns an image, or a matplotlib figure, its axes, or a pair of both.

    Returns:
        The image, or anything else that `draw` returns.
    """
    try:
        plt = require("matplotlib.pyplot", "plot")
    except ImportError:
        return draw()  # it may not need matplotlib
    with plt.ioff():
        drawn = draw()
    for part in drawn if isinstance(drawn, tuple) else (drawn,):
        figure = getattr(part, "figure", None)  # a figure is its own
        if figure is not None:
            agg = require("matplotlib.backends.backend_agg", "plot")
            canvas = agg.FigureCanvasAgg(figure)
            canvas.draw()
            picture = np.array(canvas.buffer_rgba())[..., :3]
            plt.close(figure)
            return picture
    return drawn


def draw_classic_control(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws a classic-control environment as Gymnasium does, at the default size."""
    twin = _of_gymnasium(env.name)
    # Apart from the time, gymnax's states hold the same numbers as Gymnasium's, in the same order.
    names = [field.name for field in dataclasses.fields(state) if field.name != "time"]
    twin.state = [np.asarray(getattr(state, name)).item() for name in names]
    return twin.render()


@functools.cache
def _of_gymnasium(name: str) -> Any:
    """Creates a Gymnasium environment that draws."""
    import gymnasium

    require("pygame", "video")
    os.environ.setdefault(
        "SDL_AUDIODRIVER", "dummy"
    )  # else pygame complains where there is no sound card
    twin = gymnasium.make(name, render_mode="rgb_array").unwrapped
    twin.reset()
    return twin


def draw_channels(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws the observation of a MinAtar game: a grid with one channel per kind of object."""
    obs = env.observe(jax.random.key(0), state, None, params)
    return draw_grid(np.asarray(obs) > 0)


def draw_grid(channels: Bool[np.ndarray, "rows columns channels"]) -> Picture:
    """Draws a grid; where several channels are set, the first is shown.

    Args:
        channels: Whether each cell has an object of each channel.

    Returns:
        The image.
    """
    n_rows, n_columns, n_channels = channels.shape
    colours = np.frombuffer(bytes.fromhex(_CHANNELS), np.uint8).reshape(-1, 3)
    palette = np.concatenate([colours[np.arange(n_channels) % len(colours)], [_BACKGROUND]])
    nothing = np.ones((n_rows, n_columns, 1), bool)
    cells = palette[np.argmax(np.concatenate([channels, nothing], axis=-1), axis=-1)]
    size = max(3, _GRID_SIZE // max(n_rows, n_columns))
    picture = cells.repeat(size, axis=0).repeat(size, axis=1)
    picture[::size] = picture[:, ::size] = _BACKGROUND
    return picture


_MINATAR = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
_OF_GYMNAX: dict[str, tuple[Drawing, float]] = {
    "CartPole-v1": (draw_classic_control, 50),
    "Pendulum-v1": (draw_classic_control, 20),
    "Acrobot-v1": (draw_classic_control, 15),
    "MountainCar-v0": (draw_classic_control, 30),
    "MountainCarContinuous-v0": (draw_classic_control, 30),
    "Pong-misc": (draw_channels, _FPS_OF_GAMES),
    **{f"{game}-MinAtar": (draw_channels, _FPS_OF_GAMES) for game in _MINATAR},
}
"""Drawing functions, and steps per second, for gymnax environments by name."""


# Videos.


def check_can_film(env: Environment, path: str | os.PathLike | None, fps: float | int) -> None:
    """Raises unless videos of an environment can be recorded.

    Args:
        env: The environment.
        path: The video file, if there is one.
        fps: Steps per second.

    Raises:
        NotImplementedError: The environment cannot draw.
        ValueError: `path` ends in neither `.gif` nor `.mp4`, or `fps` is not positive.
        FileExistsError: The file exists.
        FileNotFoundError: Its folder does not exist.
        ImportError: imageio or imageio-ffmpeg is not installed.
    """
    if not env.can_draw:
        raise NotImplementedError(
            f"{env.name} does not draw: your own environment needs a method render(state), or "
            "render(state, params) next to reset_env and step_env. Gymnasium and PettingZoo "
            'environments need the render mode "rgb_array", and must be made from their name, '
            "or by a function that sets it."
        )
    if path is not None:
        check_film(path, fps)


def draw_states(
    env: Environment, states: PyTree, n_states: int
) -> UInt8[np.ndarray, "time height width 3"]:
    """Draws the states of an episode.

    Args:
        env: The environment.
        states: Its states, time first.
        n_states: Number of states that belong to the episode.

    Returns:
        An image of each of these states.

    Raises:
        ValueError: The environment does not return an image.
    """
    states = jax.device_get(states)
    render, pictures = f"{env.wording.environment}.render", []
    for i in range(n_states):
        picture = np.asarray(env.render(jax.tree.map(lambda x, i=i: x[i], states)))
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
            raise ValueError(
                f"{render} must return an image, an array of shape (height, width, 3) of dtype "
                f"uint8, got shape {picture.shape} and dtype {picture.dtype}."
            )
        pictures.append(picture)
    return np.stack(pictures)


def write_film(
    path: str | os.PathLike, frames: UInt8[np.ndarray, "time height width 3"], fps: float | int
) -> None:
    """Writes frames to a new video file, `.gif` or `.mp4`."""
    with film(check_film(path, fps), fps) as its:
        for frame in itertools.islice(frames, 0, None, its.every):
            its.write(frame)


class Frames(np.ndarray):
    """The images of an episode, time first; notebooks show them as a video.

    Attributes:
        fps: Frames per second.
    """

    fps: float | int = _FPS_OF_GAMES

    def __array_finalize__(self, source: Any) -> None:
        self.fps = getattr(source, "fps", self.fps)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of shape {self.shape}"

    def _repr_html_(self) -> str | None:
        """A video, if this is one and imageio is installed."""
        if self.ndim != 4 or importlib.util.find_spec("imageio") is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "episode.gif"
            write_film(path, self, self.fps)
            content = base64.b64encode(path.read_bytes()).decode()
        return f'<img alt="an episode" src="data:image/gif;base64,{content}">'
