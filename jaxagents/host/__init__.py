"""Tools for custom loops around Gymnasium environments: evaluation, monitors and videos."""

from jaxagents.host.environments import EpisodeMonitor as EpisodeMonitor
from jaxagents.host.environments import example_transition as example_transition
from jaxagents.host.environments import rescale_actions as rescale_actions
from jaxagents.host.evaluation import concatenate_trajectories as concatenate_trajectories
from jaxagents.host.evaluation import evaluate as evaluate
from jaxagents.host.evaluation import evaluate_with_trajectories as evaluate_with_trajectories
from jaxagents.host.evaluation import record_video as record_video
from jaxagents.host.evaluation import supply_rng as supply_rng
