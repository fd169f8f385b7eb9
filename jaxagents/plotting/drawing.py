"""The parts that all pictures of trainings share: axes, colours, lines and files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxagents.core import processes
from jaxagents.core.extras import require
from jaxagents.core.folders import file_in_folder
from jaxagents.plotting.statistics import CONFIDENCE, inter_quartile_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Those of Okabe and Ito, which colour-blind people tell apart, the darkest first."""
_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00")
_STYLES = ("-", "--", ":", "-.")


class Look(NamedTuple):
    """How a curve is drawn."""

    color: str
    linestyle: str


def new_axes(figsize: tuple[float, float] = (7, 4)) -> "Axes":
    """The axes of a new figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    return require("matplotlib.pyplot", "jaxagents[plot]").subplots(
        figsize=figsize, layout="constrained"
    )[1]


def colours_on(axes: "Axes") -> tuple[str, ...]:
    """Colours that stand out from the background."""
    red, green, blue = require("matplotlib.colors", "jaxagents[plot]").to_rgb(axes.get_facecolor())
    is_dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4
    return _ON_DARK if is_dark else COLOURS


def next_look(axes: "Axes") -> Look:
    """That of the next curve: other colours first, then other strokes."""
    colours, number = colours_on(axes), len(axes.lines)
    return Look(colours[number % len(colours)], _STYLES[number // len(colours) % len(_STYLES)])


def draw_curve(axes: "Axes", x: np.ndarray, y: np.ndarray, **look: Any) -> None:
    """Draws a curve, with a dot where a point has no finite neighbour that a stroke would lead to."""
    known = np.pad(np.isfinite(y), 1)
    alone = np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:])
    dots = {"marker": "o", "markersize": 4, "markevery": alone.tolist()} if alone.size else {}
    axes.plot(x, y, **dots, **look)


def draw_line(axes: "Axes", x: np.ndarray, y: np.ndarray, label: str) -> None:
    """Draws one number for each point; points that are NaN are left out."""
    known = ~np.isnan(y)
    draw_curve(axes, x[known], y[known], label=label, **next_look(axes)._asdict())


def draw_runs(
    axes: "Axes", x: np.ndarray, values: Float[np.ndarray, "runs points"], label: str
) -> None:
    """Draws the inter-quartile mean over runs in its interval, where all of them are finite."""
    known = np.isfinite(values).all(axis=0)
    look, estimate = next_look(axes), inter_quartile_mean(values[:, known])
    if len(values) > 1:
        axes.fill_between(
            x[known], estimate.low, estimate.high, color=look.color, alpha=0.2, linewidth=0
        )
    draw_curve(axes, x[known], estimate.mean, label=label, **look._asdict())


def in_words(n_runs: int) -> str:
    """The label of a curve of that many runs."""
    if n_runs == 1:
        return "one run"
    return f"inter-quartile mean of {n_runs} runs, {CONFIDENCE:.0%} interval".replace("%", " %")


def name_steps(axes: "Axes", label: str) -> None:
    """Labels the horizontal axis, with 200k for 200,000, unless its numbers have a form already."""
    ticker = require("matplotlib.ticker", "jaxagents[plot]")
    axes.set_xlabel(label)
    if isinstance(axes.xaxis.get_major_formatter(), ticker.ScalarFormatter):
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))


def finish(axes: "Axes", title: str | None) -> None:
    """Sets the title, unless it is to stay as it is, the margins and the grid."""
    if title is not None:
        axes.set_title(title)
    axes.margins(x=0.01)
    axes.grid(alpha=0.3)


def save(axes: "Axes", path: str | os.PathLike | None) -> None:
    """Saves the figure, if there is a path; of several processes, the first one does.

    Raises:
        ValueError: The path names no file.
    """
    if path is not None and not Path(path).name:
        raise ValueError(f"path must be that of a file, such as 'curve.png', got {path!r}.")
    if path is not None and processes.leads():
        figure = axes.get_figure(root=True)
        figure.savefig(file_in_folder(path), dpi=150)  # pyright: ignore[reportOptionalMemberAccess]
