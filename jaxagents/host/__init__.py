"""Gymnasium environments on the host: evaluation, statistics of episodes and videos."""

from jaxagents.host.evaluation import (
    concatenate_trajectories,
    evaluate,
    evaluate_with_trajectories,
    supply_rng,
)
from jaxagents.host.monitor import EpisodeMonitor
from jaxagents.host.video import record_video

__all__ = [
    "EpisodeMonitor",
    "concatenate_trajectories",
    "evaluate",
    "evaluate_with_trajectories",
    "record_video",
    "supply_rng",
]
