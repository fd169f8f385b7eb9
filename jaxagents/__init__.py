"""Object-oriented reinforcement-learning agents on JAX."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from jaxagents.a2c import A2C, A2CBase
from jaxagents.agents.agent import Agent
from jaxagents.agents.off_policy import OffPolicyBase
from jaxagents.agents.offline import OfflineBase
from jaxagents.agents.on_policy import OnPolicyBase
from jaxagents.bc import BC, BCLearner, DiscreteBCLearner
from jaxagents.c51 import C51, C51Learner
from jaxagents.core.former_names import former_names
from jaxagents.cql import CQL, CQLLearner, DiscreteCQLLearner
from jaxagents.dqn import DDQN, DQN, DDQNLearner, DQNBase, DQNLearner
from jaxagents.envs.checking import check_env
from jaxagents.envs.environment import Environment
from jaxagents.ippo import IPPO, IPPOBase
from jaxagents.iql import IQL, IQLLearner
from jaxagents.learners.learner import Learner
from jaxagents.learners.train_state import TrainState, nonpytree_field, target_update
from jaxagents.ppo import PPO, PPOBase
from jaxagents.qrdqn import QRDQN, QRDQNLearner
from jaxagents.reinforce import REINFORCE, REINFORCEBase
from jaxagents.sac import SAC, DiscreteSACLearner, SACLearner
from jaxagents.td3 import TD3, TD3Learner
from jaxagents.verification import verify

__version__ = version("jaxagents")

if not TYPE_CHECKING:  # which otherwise would take any name to exist
    __getattr__ = former_names(__name__)

__all__ = [
    "A2C",
    "BC",
    "C51",
    "CQL",
    "DDQN",
    "DQN",
    "IPPO",
    "IQL",
    "PPO",
    "QRDQN",
    "REINFORCE",
    "SAC",
    "TD3",
    "A2CBase",
    "Agent",
    "BCLearner",
    "C51Learner",
    "CQLLearner",
    "DDQNLearner",
    "DQNBase",
    "DQNLearner",
    "DiscreteBCLearner",
    "DiscreteCQLLearner",
    "DiscreteSACLearner",
    "Environment",
    "IPPOBase",
    "IQLLearner",
    "Learner",
    "OffPolicyBase",
    "OfflineBase",
    "OnPolicyBase",
    "PPOBase",
    "QRDQNLearner",
    "REINFORCEBase",
    "SACLearner",
    "TD3Learner",
    "TrainState",
    "check_env",
    "nonpytree_field",
    "target_update",
    "verify",
]
