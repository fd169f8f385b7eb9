"""Figures of matplotlib as pictures."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import UInt8

from jaxagents.core.extras import require


def as_picture(draw: Callable[[], Any]) -> Any:
    """The picture that a function draws, without opening a window.

    Args:
        draw: Returns a picture, or a figure of matplotlib, its axes, or a pair of both.

    Returns:
        The picture, or whatever else it returns.
    """
    drawn = _without_windows(draw)
    for part in drawn if isinstance(drawn, tuple) else (drawn,):
        figure = getattr(part, "figure", None)  # a figure is its own
        if figure is not None:
            return _pixels(figure)
    return drawn


def _without_windows(draw: Callable[[], Any]) -> Any:
    try:
        plt = require("matplotlib.pyplot", "jaxagents[plot]")
    except ImportError:
        return draw()  # which may need no matplotlib
    with plt.ioff():
        return draw()


def _pixels(figure: Any) -> UInt8[np.ndarray, "height width 3"]:
    """The pixels of a figure, which is closed."""
    agg = require("matplotlib.backends.backend_agg", "jaxagents[plot]")
    canvas = agg.FigureCanvasAgg(figure)
    canvas.draw()
    picture = np.array(canvas.buffer_rgba())[..., :3]
    require("matplotlib.pyplot", "jaxagents[plot]").close(figure)
    return picture
