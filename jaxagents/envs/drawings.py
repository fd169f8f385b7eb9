"""Pictures of states of environments, and videos of episodes that compiled programs have played.

gymnax draws its classic-control environments by opening a game engine for each frame, so they are drawn
here, by Pillow (extra `video`).
"""

import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.core.files import check_film, film
from jaxagents.envs.environment import Environment

Picture = UInt8[np.ndarray, "height width 3"]
Drawing = Callable[[Any, PyTree, PyTree], Any]
"""Maps an environment, a state and the environment's parameters to a picture, or to whatever else the
environment's own `render` returns."""
Point = tuple[float, float]

_FPS_OF_GAMES = 10
_FINER = 2
"""Lines are drawn at this multiple of the size, and are smooth once it is reduced."""
_TRACK, _VALLEY, _SQUARE = (160, 384), (256, 384), (256, 256)
_DARK, _POLE, _JOINT, _PALE, _GOAL = "#2B2D42", "#D55E00", "#0072B2", "#C9CCD6", "#009E73"
_GRID_SIZE = 240
"""Pixels of the longer side of a grid, about."""
_BACKGROUND = np.array((16, 18, 28), np.uint8)
_CHANNELS = "56B4E9 F0E442 5A5F73 D55E00 009E73 CC79A7 E69F00 785EF0 FFFFFF 0072B2"
"""Colours of the channels of a grid, the player's first, which colour-blind people tell apart."""


def drawing_of(env: Any) -> Drawing | None:
    """The drawing of an environment: by its method `render`, or by one of ours if there is one.

    Args:
        env: The environment.

    Returns:
        The drawing; `None` if there is none.
    """
    ours, _ = _OF_GYMNAX.get(_name(env), (None, _FPS_OF_GAMES))
    is_from_gymnax = type(env).__module__.startswith("gymnax.")
    if callable(getattr(env, "render", None)) and not (ours and is_from_gymnax):
        return lambda env, state, params: as_picture(lambda: env.render(state, params))
    if ours is None:
        return None

    def draw(env: Any, state: PyTree, params: PyTree) -> Picture:
        while hasattr(state, "env_state"):  # of a wrapper of gymnax
            state = state.env_state
        return ours(env, state, params)

    return draw


def frames_a_second(env: Any) -> float | int:
    """Steps a second of a video of an environment."""
    _, usual = _OF_GYMNAX.get(_name(env), (None, _FPS_OF_GAMES))
    return getattr(env, "render_fps", usual)


def _name(env: Any) -> str:
    name = getattr(env, "name", "")
    return name if isinstance(name, str) else ""


def as_picture(draw: Callable[[], Any]) -> Any:
    """The picture that a function draws, without opening a window.

    Args:
        draw: Returns a picture, or a figure of matplotlib, its axes, or a pair of both.

    Returns:
        The picture, or whatever else it returns.
    """
    try:
        plt = require("matplotlib.pyplot", "jaxagents[plot]")
    except ImportError:
        return draw()  # which may need no matplotlib
    with plt.ioff():
        drawn = draw()
    for part in drawn if isinstance(drawn, tuple) else (drawn,):
        figure = getattr(part, "figure", None)  # a figure is its own
        if figure is not None:
            agg = require("matplotlib.backends.backend_agg", "jaxagents[plot]")
            canvas = agg.FigureCanvasAgg(figure)
            canvas.draw()
            picture = np.array(canvas.buffer_rgba())[..., :3]
            plt.close(figure)
            return picture
    return drawn


class Canvas:
    """Draws shapes in the units of an environment, which grow to the right and upwards."""

    def __init__(self, shape: tuple[int, int], centre: Point, width: float) -> None:
        """Makes a white canvas.

        Args:
            shape: Height and width, in pixels.
            centre: The point in the middle.
            width: Width, in the units of the environment.
        """
        height, n_columns = (side * _FINER for side in shape)
        image = require("PIL.Image", "jaxagents[video]")
        self._image = image.new("RGB", (n_columns, height), "white")
        self._draw = require("PIL.ImageDraw", "jaxagents[video]").Draw(self._image)
        self._scale = n_columns / width
        self._origin = (
            n_columns / 2 - self._scale * centre[0],
            height / 2 + self._scale * centre[1],
        )

    def polygon(self, points: Sequence[Point], colour: str) -> None:
        """Fills a polygon."""
        self._draw.polygon([self._pixel(point) for point in points], fill=colour)

    def rectangle(
        self, centre: Point, width: float, height: float, angle: float, colour: str
    ) -> None:
        """Fills a rectangle that is turned by an angle."""
        cos, sin = math.cos(angle), math.sin(angle)
        corners = [(-width, -height), (width, -height), (width, height), (-width, height)]
        self.polygon(
            [
                (centre[0] + (x * cos - y * sin) / 2, centre[1] + (x * sin + y * cos) / 2)
                for x, y in corners
            ],
            colour,
        )

    def line(self, points: Sequence[Point], colour: str, width: float = 0.0) -> None:
        """Draws a line of some width, in the units of the environment; at least a pixel."""
        pixels = max(_FINER, round(width * self._scale))
        self._draw.line([self._pixel(p) for p in points], fill=colour, width=pixels, joint="curve")
        if pixels > 2 * _FINER:
            for end in (points[0], points[-1]):
                self.circle(end, width / 2, colour)

    def circle(self, centre: Point, radius: float, colour: str) -> None:
        """Fills a circle."""
        x, y = self._pixel(centre)
        r = radius * self._scale
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill=colour)

    def picture(self) -> Picture:
        """The picture so far."""
        return np.array(self._image.reduce(_FINER))

    def _pixel(self, point: Point) -> Point:
        x, y = point
        return self._origin[0] + self._scale * float(x), self._origin[1] - self._scale * float(y)


def draw_cartpole(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws a cart on its track with a pole upon it."""
    length, limit = 2 * float(params.length), float(params.x_threshold)
    canvas = Canvas(_TRACK, (0.0, 0.6 * length), 2.3 * limit)
    canvas.line([(-2 * limit, 0.0), (2 * limit, 0.0)], _PALE)
    for end in (-limit, limit):
        canvas.line([(end, -0.1), (end, 0.1)], _PALE, 0.03)
    x, angle = float(state.x), float(state.theta)
    canvas.rectangle((x, 0.0), 0.6, 0.32, 0.0, _DARK)
    foot = (x, 0.1)
    tip = (x + length * math.sin(angle), foot[1] + length * math.cos(angle))
    canvas.line([foot, tip], _POLE, 0.1)
    canvas.circle(foot, 0.05, _JOINT)
    return canvas.picture()


def draw_pendulum(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws a pendulum, which is to stand upright."""
    length, angle = float(params.l), float(state.theta)
    canvas = Canvas(_SQUARE, (0.0, 0.0), 2.8 * length)
    tip = (-length * math.sin(angle), length * math.cos(angle))
    canvas.line([(0.0, 1.15 * length), (0.0, 1.3 * length)], _GOAL, 0.04 * length)
    canvas.line([(0.0, 0.0), tip], _POLE, 0.18 * length)
    canvas.circle((0.0, 0.0), 0.06 * length, _DARK)
    return canvas.picture()


def draw_acrobot(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws two links; the end of the lower one is to reach a line."""
    upper, lower = float(params.link_length_1), float(params.link_length_2)
    first = float(state.joint_angle1)
    second = first + float(state.joint_angle2)
    elbow = (upper * math.sin(first), -upper * math.cos(first))
    hand = (elbow[0] + lower * math.sin(second), elbow[1] - lower * math.cos(second))
    width = 2.3 * (upper + lower)
    canvas = Canvas(_SQUARE, (0.0, 0.0), width)
    canvas.line([(-width, 1.0), (width, 1.0)], _GOAL)
    canvas.line([(0.0, 0.0), elbow], _JOINT, 0.2)
    canvas.line([elbow, hand], _POLE, 0.2)
    for joint in ((0.0, 0.0), elbow):
        canvas.circle(joint, 0.06, _DARK)
    return canvas.picture()


def draw_mountain_car(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws a car in a valley, which is to reach a flag."""

    def height(x: float) -> float:
        return 0.45 * math.sin(3 * x) + 0.55

    left, right = float(params.min_position), float(params.max_position)
    canvas = Canvas(_VALLEY, ((left + right) / 2, 0.55), 1.05 * (right - left))
    ground = [(x, height(x)) for x in np.linspace(left - 0.1, right + 0.1, 120).tolist()]
    canvas.polygon([(left - 0.1, -1.0), *ground, (right + 0.1, -1.0)], "#E8EAF0")
    canvas.line(ground, _DARK, 0.012)
    goal = float(params.goal_position)
    pole = height(goal) + 0.2
    canvas.line([(goal, height(goal)), (goal, pole)], _DARK, 0.01)
    canvas.polygon([(goal, pole), (goal, pole - 0.08), (goal + 0.09, pole - 0.04)], _GOAL)

    x = float(state.position)
    slope = math.atan(0.45 * 3 * math.cos(3 * x))
    cos, sin = math.cos(slope), math.sin(slope)

    def on_car(forward: float, above: float) -> Point:
        return x + forward * cos - above * sin, height(x) + forward * sin + above * cos

    canvas.rectangle(on_car(0.0, 0.065), 0.17, 0.06, slope, _POLE)
    canvas.rectangle(on_car(0.0, 0.11), 0.09, 0.05, slope, _POLE)
    for wheel in (-0.05, 0.05):
        canvas.circle(on_car(wheel, 0.03), 0.028, _DARK)
    return canvas.picture()


def draw_channels(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws the observation of a game of MinAtar: a grid, with a channel for each kind of object."""
    obs = env.observe(jax.random.key(0), state, None, params)
    return draw_grid(np.asarray(obs) > 0)


def draw_grid(channels: Bool[np.ndarray, "rows columns channels"]) -> Picture:
    """Draws a grid; where several channels are set, the first is seen.

    Args:
        channels: Where the objects of each channel are.

    Returns:
        The picture.
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
    "CartPole-v1": (draw_cartpole, 50),
    "Pendulum-v1": (draw_pendulum, 20),
    "Acrobot-v1": (draw_acrobot, 15),
    "MountainCar-v0": (draw_mountain_car, 30),
    "MountainCarContinuous-v0": (draw_mountain_car, 30),
    "Pong-misc": (draw_channels, _FPS_OF_GAMES),
    **{f"{game}-MinAtar": (draw_channels, _FPS_OF_GAMES) for game in _MINATAR},
}
"""Drawings of environments of gymnax by their names, and their steps a second."""


# Videos.


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
    """Writes frames to a new file, which ends in `.gif` or `.mp4`."""
    with film(check_film(path, fps), fps) as its:
        for frame in itertools.islice(frames, 0, None, its.every):
            its.write(frame)
