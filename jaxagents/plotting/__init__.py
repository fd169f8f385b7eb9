"""Pictures of trainings (matplotlib and SciPy, extra `plot`)."""

from jaxagents.plotting.comparison import plot_sweep
from jaxagents.plotting.curves import plot_learning_curve
from jaxagents.plotting.losses import plot_losses
from jaxagents.plotting.trainings import Source

__all__ = ["Source", "plot_learning_curve", "plot_losses", "plot_sweep"]
