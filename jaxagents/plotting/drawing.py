"""Shared parts of all plots: axes, colours, lines, statistics over runs, and files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxagents.core import processes
from jaxagents.core.extras import require
from jaxagents.core.files import file_in_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXTRA = "plot"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""The palette of Okabe and Ito for colour-blind readers, darkest first."""
_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00")
_STYLES = ("-", "--", ":", "-.")

_CUT = 0.25
_CONFIDENCE = 0.95
_N_RESAMPLES = 2_000
_NUMBERS_AT_ONCE = 10_000_000


class Estimate(NamedTuple):
    """An inter-quartile mean with its interval.

    Attributes:
        mean: The mean of the middle half of the runs, or of all if there are fewer than four.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    mean: Float[np.ndarray, "..."]
    low: Float[np.ndarray, "..."]
    high: Float[np.ndarray, "..."]


def middle_mean(values: Float[np.ndarray, "runs ..."]) -> Float[np.ndarray, "..."]:
    """The inter-quartile mean over runs, NaN where a run is NaN."""
    return require("scipy.stats", EXTRA).trim_mean(values, _CUT, axis=0)


def inter_quartile_mean(values: Float[np.ndarray, "runs ..."]) -> Estimate:
    """The inter-quartile mean over runs, with its 95 % percentile bootstrap interval.

    Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice",
    recommend it for few runs. Deterministic: the resampling has a fixed seed. The interval of a single
    run has width zero.

    Args:
        values: One or more finite numbers per run.

    Returns:
        The estimate, without the axis of runs.
    """
    stats, mean = require("scipy.stats", EXTRA), middle_mean(values)
    if len(values) == 1 or not values.size:
        return Estimate(mean, mean, mean)
    interval = stats.bootstrap(
        (values,),
        lambda x, axis: stats.trim_mean(x, _CUT, axis=axis),
        axis=0,
        vectorized=True,
        method="percentile",
        confidence_level=_CONFIDENCE,
        n_resamples=_N_RESAMPLES,
        batch=max(1, _NUMBERS_AT_ONCE // values.size),
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Estimate(mean, interval.low, interval.high)


def in_words(n_runs: int) -> str:
    """The label of a curve over `n_runs` runs."""
    if n_runs == 1:
        return "one run"
    return f"inter-quartile mean of {n_runs} runs, {100 * _CONFIDENCE:.0f} % interval"


def new_axes(figsize: tuple[float, float] = (7, 4)) -> "Axes":
    """The axes of a new figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    return require("matplotlib.pyplot", EXTRA).subplots(figsize=figsize, layout="constrained")[1]


def colours_on(axes: "Axes") -> tuple[str, ...]:
    """The palette for the background of the axes."""
    red, green, blue = require("matplotlib.colors", EXTRA).to_rgb(axes.get_facecolor())
    is_dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4
    return _ON_DARK if is_dark else COLOURS


def draw_curve(
    axes: "Axes",
    x: np.ndarray,
    y: np.ndarray,
    label: str,
    band: tuple[np.ndarray, np.ndarray] | None = None,
    **look: Any,
) -> None:
    """Draws a curve, with dots for isolated finite points, which no line would show.

    Args:
        axes: The axes.
        x: Steps.
        y: Values.
        label: Name in the legend.
        band: Lower and upper ends of a band around it.
        **look: Line properties; by default the next colour, and the next line style after all colours.
    """
    if not look:
        colours, number = colours_on(axes), len(axes.lines)
        stroke = _STYLES[number // len(colours) % len(_STYLES)]
        look = {"color": colours[number % len(colours)], "linestyle": stroke}
    if band is not None:
        axes.fill_between(x, *band, color=look["color"], alpha=0.2, linewidth=0)
    known = np.pad(np.isfinite(y), 1)
    alone = np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:])
    dots = {"marker": "o", "markersize": 4, "markevery": alone.tolist()} if alone.size else {}
    axes.plot(x, y, label=label, **dots, **look)


def draw_runs(
    axes: "Axes", x: np.ndarray, values: Float[np.ndarray, "runs points"], label: str
) -> None:
    """Draws the inter-quartile mean over runs with its interval, where all runs are finite.

    A single run is a line that skips NaNs.
    """
    if len(values) == 1:
        known = ~np.isnan(values[0])
        return draw_curve(axes, x[known], values[0, known], label)
    known = np.isfinite(values).all(axis=0)
    mean, *band = inter_quartile_mean(values[:, known])
    return draw_curve(axes, x[known], mean, label, (band[0], band[1]))


def name_steps(axes: "Axes", label: str) -> None:
    """Labels the x axis, with 200k for 200,000 unless it has a formatter already."""
    ticker = require("matplotlib.ticker", EXTRA)
    axes.set_xlabel(label)
    if isinstance(axes.xaxis.get_major_formatter(), ticker.ScalarFormatter):
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))


def finish(axes: "Axes", title: str | None) -> None:
    """Sets the title if there is one, the margins and the grid."""
    if title is not None:
        axes.set_title(title)
    axes.margins(x=0.01)
    axes.grid(alpha=0.3)


def save(axes: "Axes", path: str | os.PathLike | None) -> None:
    """Saves the figure, if there is a path, in the first process only.

    Raises:
        ValueError: The path names no file.
    """
    if path is not None and not Path(path).name:
        raise ValueError(f"path must name a file, such as 'curve.png', got {path!r}.")
    if path is not None and processes.leads():
        figure = axes.get_figure(root=True)
        figure.savefig(file_in_folder(path), dpi=150)  # pyright: ignore[reportOptionalMemberAccess]
