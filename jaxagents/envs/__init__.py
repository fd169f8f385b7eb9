"""Environments as the agents see them."""

from jaxagents.envs.episodes import Episodes, EpisodeState, Timestep
from jaxagents.envs.spaces import is_box, is_discrete

__all__ = ["EpisodeState", "Episodes", "Timestep", "is_box", "is_discrete"]
