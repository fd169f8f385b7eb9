"""Learners in Gymnasium environments on the host: training, evaluation, checkpoints and videos."""

from jaxagents.host.checkpoint import restore_learner
from jaxagents.host.config import OfflineConfig, OnlineConfig
from jaxagents.host.evaluation import (
    concatenate_trajectories,
    evaluate,
    evaluate_with_trajectories,
    supply_rng,
)
from jaxagents.host.monitor import EpisodeMonitor
from jaxagents.host.training import train_offline, train_online
from jaxagents.host.transitions import example_transition, rescale_actions
from jaxagents.host.video import record_video

__all__ = [
    "EpisodeMonitor",
    "OfflineConfig",
    "OnlineConfig",
    "concatenate_trajectories",
    "evaluate",
    "evaluate_with_trajectories",
    "example_transition",
    "record_video",
    "rescale_actions",
    "restore_learner",
    "supply_rng",
    "train_offline",
    "train_online",
]
