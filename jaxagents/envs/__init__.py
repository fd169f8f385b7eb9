"""Environments as the agents see them."""

from jaxagents.envs.episodes import EpisodeState, Episodes, Timestep
from jaxagents.envs.spaces import is_box, is_discrete

__all__ = ["EpisodeState", "Episodes", "Timestep", "is_box", "is_discrete"]
