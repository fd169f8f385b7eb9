"""Tools for loops of your own around Gymnasium environments: evaluation, monitors and videos."""

from jaxagents.host.environments import EpisodeMonitor, example_transition, rescale_actions
from jaxagents.host.evaluation import (
    concatenate_trajectories,
    evaluate,
    evaluate_with_trajectories,
    record_video,
    supply_rng,
)

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
