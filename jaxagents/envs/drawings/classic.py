"""Drawings of the classic-control environments of gymnax."""

import math
from typing import Any

import numpy as np
from jaxtyping import PyTree, UInt8

from jaxagents.envs.drawings.canvas import Canvas, Point

_TRACK, _VALLEY, _SQUARE = (160, 384), (256, 384), (256, 256)
_DARK, _POLE, _JOINT, _PALE, _GOAL = "#2B2D42", "#D55E00", "#0072B2", "#C9CCD6", "#009E73"

Picture = UInt8[np.ndarray, "height width 3"]


def draw_cartpole(env: Any, state: PyTree, params: PyTree) -> Picture:
    """Draws a cart on its track with a pole upon it."""
    length = 2 * float(params.length)
    limit = float(params.x_threshold)
    canvas = Canvas(_TRACK, (0.0, 0.6 * length), 2.3 * limit)
    canvas.line([(-2 * limit, 0.0), (2 * limit, 0.0)], _PALE)
    for end in (-limit, limit):
        canvas.line([(end, -0.1), (end, 0.1)], _PALE, 0.03)
    x, angle = float(state.x), float(state.theta)
    canvas.polygon(_box((x, 0.0), 0.6, 0.32, 0.0), _DARK)
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
    """Draws two links, the lower end of which is to reach a line."""
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
    left, right = float(params.min_position), float(params.max_position)
    canvas = Canvas(_VALLEY, ((left + right) / 2, 0.55), 1.05 * (right - left))
    ground = [(x, _height(x)) for x in np.linspace(left - 0.1, right + 0.1, 120).tolist()]
    canvas.polygon([(left - 0.1, -1.0), *ground, (right + 0.1, -1.0)], "#E8EAF0")
    canvas.line(ground, _DARK, 0.012)
    goal = float(params.goal_position)
    pole = _height(goal) + 0.2
    canvas.line([(goal, _height(goal)), (goal, pole)], _DARK, 0.01)
    canvas.polygon([(goal, pole), (goal, pole - 0.08), (goal + 0.09, pole - 0.04)], _GOAL)
    _draw_car(canvas, float(state.position))
    return canvas.picture()


def _draw_car(canvas: Canvas, x: float) -> None:
    slope = math.atan(0.45 * 3 * math.cos(3 * x))
    along, up = (math.cos(slope), math.sin(slope)), (-math.sin(slope), math.cos(slope))

    def at(forward: float, above: float) -> Point:
        return (
            x + forward * along[0] + above * up[0],
            _height(x) + forward * along[1] + above * up[1],
        )

    canvas.polygon(_box(at(0.0, 0.065), 0.17, 0.06, slope), _POLE)
    canvas.polygon(_box(at(0.0, 0.11), 0.09, 0.05, slope), _POLE)
    for wheel in (-0.05, 0.05):
        canvas.circle(at(wheel, 0.03), 0.028, _DARK)


def _height(x: float) -> float:
    """Height of the ground of the valley."""
    return 0.45 * math.sin(3 * x) + 0.55


def _box(centre: Point, width: float, height: float, angle: float) -> list[Point]:
    """The corners of a rectangle that is turned by an angle."""
    cos, sin = math.cos(angle), math.sin(angle)
    corners = [(-width, -height), (width, -height), (width, height), (-width, height)]
    return [
        (centre[0] + (x * cos - y * sin) / 2, centre[1] + (x * sin + y * cos) / 2)
        for x, y in corners
    ]
