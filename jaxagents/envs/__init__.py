"""Environments as the agents see them."""

from jaxagents.envs.adapters import as_environment, make
from jaxagents.envs.checking import EnvironmentReport, check_env
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.episodes import Episodes, EpisodeState, Timestep
from jaxagents.envs.spaces import is_box, is_discrete

__all__ = [
    "Environment",
    "EnvironmentReport",
    "EpisodeState",
    "Episodes",
    "Step",
    "Timestep",
    "as_environment",
    "check_env",
    "is_box",
    "is_discrete",
    "make",
]
