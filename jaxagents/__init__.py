"""Object-oriented reinforcement-learning agents on JAX."""

from importlib.metadata import version

from jaxagents.bc import BCLearner, DiscreteBCLearner
from jaxagents.core.agent import Agent
from jaxagents.core.learner import Learner
from jaxagents.core.on_policy import OnPolicyBase
from jaxagents.core.train_state import TrainState, nonpytree_field, target_update
from jaxagents.cql import CQLLearner, DiscreteCQLLearner
from jaxagents.ippo import IPPO, IPPOBase
from jaxagents.iql import IQLLearner
from jaxagents.ppo import PPO, PPOBase
from jaxagents.reinforce import REINFORCE, REINFORCEBase
from jaxagents.sac import SACLearner

__version__ = version("jaxagents")

__all__ = [
    "IPPO",
    "PPO",
    "REINFORCE",
    "Agent",
    "BCLearner",
    "CQLLearner",
    "DiscreteBCLearner",
    "DiscreteCQLLearner",
    "IPPOBase",
    "IQLLearner",
    "Learner",
    "OnPolicyBase",
    "PPOBase",
    "REINFORCEBase",
    "SACLearner",
    "TrainState",
    "nonpytree_field",
    "target_update",
]
