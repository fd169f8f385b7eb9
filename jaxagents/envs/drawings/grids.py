"""Grids of cells, as the games of MinAtar have them."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, PyTree, UInt8

_SIZE = 240
"""Pixels of the longer side, about."""
_BACKGROUND = (16, 18, 28)
_COLOURS = (
    (86, 180, 233),
    (240, 228, 66),
    (90, 95, 115),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (120, 94, 240),
    (255, 255, 255),
    (0, 114, 178),
)
"""One for each channel, which colour-blind people tell apart: first the player's."""


def draw_channels(env: Any, state: PyTree, params: PyTree) -> UInt8[np.ndarray, "height width 3"]:
    """Draws the observation of a state: a grid of cells, in which a channel tells where its objects are.

    Args:
        env: The environment.
        state: State.
        params: The environment's parameters.

    Returns:
        The picture.
    """
    obs = env.observe(jax.random.key(0), state, None, params)
    return draw_grid(np.asarray(obs) > 0)


def draw_grid(
    channels: Bool[np.ndarray, "rows columns channels"],
) -> UInt8[np.ndarray, "height width 3"]:
    """Draws a grid; where several channels are set, the first is seen.

    Args:
        channels: Where the objects of each channel are.

    Returns:
        The picture.
    """
    n_rows, n_columns, n_channels = channels.shape
    colours = np.array(_COLOURS, np.uint8)[np.arange(n_channels) % len(_COLOURS)]
    palette = np.concatenate([colours, np.array([_BACKGROUND], np.uint8)])
    nothing = np.ones((n_rows, n_columns, 1), bool)
    cells = palette[np.argmax(np.concatenate([channels, nothing], axis=-1), axis=-1)]
    size = max(3, _SIZE // max(n_rows, n_columns))
    picture = cells.repeat(size, axis=0).repeat(size, axis=1)
    picture[::size] = picture[:, ::size] = np.array(_BACKGROUND, np.uint8)
    return picture
