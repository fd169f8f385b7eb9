"""Pictures of the states of environments that are written elsewhere.

gymnax draws its classic-control environments by opening a game engine for each frame, so that they are
drawn here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import PyTree, UInt8

from jaxagents.envs.drawings import classic
from jaxagents.envs.drawings.figures import as_picture
from jaxagents.envs.drawings.grids import draw_channels

Drawing = Callable[[Any, PyTree, PyTree], Any]
"""Maps an environment, a state and the environment's parameters to a picture; what is not drawn here
may be anything."""

_FPS_OF_GAMES = 10

_BY_NAME: dict[str, tuple[Drawing, float]] = {
    "CartPole-v1": (classic.draw_cartpole, 50),
    "Pendulum-v1": (classic.draw_pendulum, 20),
    "Acrobot-v1": (classic.draw_acrobot, 15),
    "MountainCar-v0": (classic.draw_mountain_car, 30),
    "MountainCarContinuous-v0": (classic.draw_mountain_car, 30),
    "Asterix-MinAtar": (draw_channels, _FPS_OF_GAMES),
    "Breakout-MinAtar": (draw_channels, _FPS_OF_GAMES),
    "Freeway-MinAtar": (draw_channels, _FPS_OF_GAMES),
    "Seaquest-MinAtar": (draw_channels, _FPS_OF_GAMES),
    "SpaceInvaders-MinAtar": (draw_channels, _FPS_OF_GAMES),
    "Pong-misc": (draw_channels, _FPS_OF_GAMES),
}
"""Drawings of the environments of gymnax, and their steps a second."""


def drawing_of(env: Any) -> Drawing | None:
    """How an environment is drawn: by a drawing of our own, or by its method `render`.

    Args:
        env: The environment.

    Returns:
        The drawing, if there is one.
    """
    known = _BY_NAME.get(_name(env))
    is_from_gymnax = type(env).__module__.startswith("gymnax.")
    if callable(getattr(env, "render", None)) and not (known and is_from_gymnax):
        return _by_itself
    return known and _inside_of_wrappers(known[0])


def frames_a_second(env: Any) -> float | int:
    """Steps a second of a film of an environment."""
    _, usual = _BY_NAME.get(_name(env), (None, _FPS_OF_GAMES))
    return getattr(env, "render_fps", usual)


def _name(env: Any) -> str:
    name = getattr(env, "name", "")
    return name if isinstance(name, str) else ""


def _by_itself(env: Any, state: PyTree, params: PyTree) -> Any:
    return as_picture(lambda: env.render(state, params))


def _inside_of_wrappers(drawing: Drawing) -> Drawing:
    """Draws the state inside of those of gymnax's wrappers, which hold it in a field."""

    def draw(env: Any, state: PyTree, params: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        while hasattr(state, "env_state"):
            state = state.env_state
        return drawing(env, state, params)

    return draw
