"""Draws the figures of the site as SVG files, in the style of `figures.mplstyle`.

    with figures.drawn("docs/pictures/ppo.svg") as axes:
        plot_learning_curve(runs, title="PPO on CartPole-v1", ax=axes)

Include them as any picture: `![Learning curve of PPO](../pictures/ppo.svg)`. Draw on white: in the dark
theme `assets/site.css` inverts the lightness of PNG and SVG pictures, and keeps their hues. Scripts in
this folder import this module as `figures`. The same data gives the same file, byte for byte.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

STYLE = Path(__file__).with_suffix(".mplstyle")


@contextlib.contextmanager
def drawn(path: str | Path) -> Iterator[Axes]:
    """Gives the axes of a figure, and then writes it to a file, which ends in `.svg`."""
    with plt.style.context(STYLE):
        figure, axes = plt.subplots()
        yield axes
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
