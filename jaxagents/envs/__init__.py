"""Environments as the agents see them."""

from typing import TYPE_CHECKING, Any

from jaxagents.envs.adapters import as_environment, make
from jaxagents.envs.adapters.native import adapter_named
from jaxagents.envs.checking import EnvironmentReport, check_env
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.episodes import Episodes, EpisodeState, Timestep
from jaxagents.envs.opponents import Opponents
from jaxagents.envs.randomised import RandomParams
from jaxagents.envs.spaces import is_box, is_discrete
from jaxagents.envs.wrappers import FrameStack, WithPrevious, Wrapper

if TYPE_CHECKING:
    from jaxagents.envs.adapters.gymnasium import Gymnasium
    from jaxagents.envs.adapters.pettingzoo import PettingZoo

__all__ = [
    "Environment",
    "EnvironmentReport",
    "EpisodeState",
    "Episodes",
    "FrameStack",
    "Gymnasium",
    "Opponents",
    "PettingZoo",
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


def __getattr__(name: str) -> Any:
    """Imports gymnasium and pettingzoo once they are needed."""
    if name in ("Gymnasium", "PettingZoo"):
        return adapter_named(name.lower())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
