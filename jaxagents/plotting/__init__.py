"""Plots of runs (matplotlib and SciPy, `plot` extra)."""

from jaxagents.plotting.plots import plot_learning_curve, plot_losses, plot_sweep
from jaxagents.plotting.trainings import Source

__all__ = ["Source", "plot_learning_curve", "plot_losses", "plot_sweep"]
