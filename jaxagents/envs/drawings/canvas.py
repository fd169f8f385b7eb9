"""A canvas in the units of an environment (Pillow, extra `video`)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8

from jaxagents.core.extras import require

_FINER = 2
"""Lines are drawn at this multiple of the size, and are smooth once it is reduced."""

Point = tuple[float, float]


class Canvas:
    """Draws shapes whose coordinates grow to the right and upwards."""

    def __init__(self, shape: tuple[int, int], centre: Point, width: float) -> None:
        """Makes a white canvas.

        Args:
            shape: Height and width, in pixels.
            centre: The point in the middle.
            width: Width, in the units of the environment.
        """
        height, n_columns = (side * _FINER for side in shape)
        self._image = require("PIL.Image", "jaxagents[video]").new(
            "RGB", (n_columns, height), "white"
        )
        self._draw = require("PIL.ImageDraw", "jaxagents[video]").Draw(self._image)
        self._scale = n_columns / width
        self._origin = (
            n_columns / 2 - self._scale * centre[0],
            height / 2 + self._scale * centre[1],
        )

    def polygon(self, points: Sequence[Point], colour: str) -> None:
        """Fills a polygon."""
        self._draw.polygon([self._pixel(point) for point in points], fill=colour)

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

    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        """The picture so far."""
        return np.array(self._image.reduce(_FINER))

    def _pixel(self, point: Point) -> Point:
        x, y = point
        return self._origin[0] + self._scale * float(x), self._origin[1] - self._scale * float(y)
