"""Object-oriented reinforcement-learning agents on JAX."""

from importlib.metadata import version

from jaxagents.core.agent import Agent
from jaxagents.core.on_policy import OnPolicyBase
from jaxagents.core.train_state import TrainState
from jaxagents.ippo import IPPO, IPPOBase
from jaxagents.ppo import PPO, PPOBase
from jaxagents.reinforce import REINFORCE, REINFORCEBase

__version__ = version("jaxagents")

__all__ = [
    "IPPO",
    "PPO",
    "REINFORCE",
    "Agent",
    "IPPOBase",
    "OnPolicyBase",
    "PPOBase",
    "REINFORCEBase",
    "TrainState",
]
