"""Environments as the agents see them."""

from jaxagents.envs.adapters import as_environment, make
from jaxagents.envs.checking import EnvironmentReport, check_env
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.episodes import Episodes, EpisodeState, Timestep
from jaxagents.envs.randomised import RandomParams
from jaxagents.envs.spaces import is_box, is_discrete
from jaxagents.envs.wrappers import FrameStack, WithPrevious, Wrapper

__all__ = [
    "Environment",
    "EnvironmentReport",
    "EpisodeState",
    "Episodes",
    "FrameStack",
    "RandomParams",
    "Step",
    "Timestep",
    "WithPrevious",
    "Wrapper",
    "as_environment",
    "check_env",
    "is_box",
    "is_discrete",
    "make",
]
