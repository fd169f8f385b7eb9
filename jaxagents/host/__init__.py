"""Tools for loops of your own around Gymnasium environments: evaluation, monitors and videos."""

from jaxagents.host.evaluation import (
    concatenate_trajectories,
    evaluate,
    evaluate_with_trajectories,
    supply_rng,
)
from jaxagents.host.monitor import EpisodeMonitor
from jaxagents.host.transitions import example_transition, rescale_actions
from jaxagents.host.video import record_video

__all__ = [
    "EpisodeMonitor",
    "concatenate_trajectories",
    "evaluate",
    "evaluate_with_trajectories",
    "example_transition",
    "record_video",
    "rescale_actions",
    "supply_rng",
]
