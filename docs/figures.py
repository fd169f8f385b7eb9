"""How the figures of the site look: SVG files that are legible on a phone.

    with figures.drawn("docs/pictures/ppo.svg") as axes:
        plot_learning_curve(runs, title="PPO on CartPole-v1", ax=axes)

Include them as any picture: `![Learning curve of PPO](../pictures/ppo.svg)`. Draw on white: in the dark
theme `assets/site.css` inverts the lightness of PNG and SVG pictures, and keeps their hues. Scripts in
this folder import this module as `figures`. The same data gives the same file, byte for byte.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

SIZE = (6.4, 3.6)
"""Of a figure, in inches."""
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 12,
    "legend.fontsize": "small",
    "lines.linewidth": 2,
    "svg.hashsalt": "jaxagents",
}


@contextlib.contextmanager
def drawn(path: str | Path, size: tuple[float, float] = SIZE) -> Iterator[Axes]:
    """Gives the axes of a figure, and then writes it to a file.

    Args:
        path: The file, which ends in `.svg`.
        size: Width and height, in inches.
    """
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        yield axes
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)
