"""Environments, as agents see them."""

from typing import TYPE_CHECKING, Any

from jaxagents.envs.adapters import as_environment as as_environment
from jaxagents.envs.adapters import make as make
from jaxagents.envs.adapters.native import adapter_named
from jaxagents.envs.checking import EnvironmentReport as EnvironmentReport
from jaxagents.envs.checking import check_env as check_env
from jaxagents.envs.environment import Environment as Environment
from jaxagents.envs.environment import Step as Step
from jaxagents.envs.episodes import Episodes as Episodes
from jaxagents.envs.episodes import EpisodeState as EpisodeState
from jaxagents.envs.episodes import Timestep as Timestep
from jaxagents.envs.opponents import Opponents as Opponents
from jaxagents.envs.randomised import RandomParams as RandomParams
from jaxagents.envs.spaces import is_box as is_box
from jaxagents.envs.spaces import is_discrete as is_discrete
from jaxagents.envs.wrappers import FrameStack as FrameStack
from jaxagents.envs.wrappers import WithPrevious as WithPrevious
from jaxagents.envs.wrappers import Wrapper as Wrapper

if TYPE_CHECKING:
    from jaxagents.envs.adapters.gymnasium import Gymnasium as Gymnasium
    from jaxagents.envs.adapters.pettingzoo import PettingZoo as PettingZoo


def __getattr__(name: str) -> Any:
    """Imports gymnasium and pettingzoo lazily."""
    if name in ("Gymnasium", "PettingZoo"):
        return adapter_named(name.lower())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
