"""The names of the package, each of which is imported once it is used."""

from .a2c import A2C, A2CBase
from .agents.agent import Agent
from .agents.off_policy import OffPolicyBase
from .agents.offline import OfflineBase
from .agents.on_policy import OnPolicyBase
from .awac import AWAC, AWACLearner
from .bc import BC, BCLearner, DiscreteBCLearner
from .c51 import C51, C51Learner
from .compilation_cache import cache_programs
from .core.hyperparameters import (
    CosineSchedule,
    ExponentialSchedule,
    FunctionSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    Schedule,
)
from .cql import CQL, CQLLearner, DiscreteCQLLearner
from .dqn import DDQN, DQN, DDQNLearner, DQNBase, DQNLearner
from .envs.adapters.making import make
from .envs.checking import check_env
from .envs.environment import Environment
from .exporting import ExportedPolicy, load_policy
from .ippo import IPPO, IPPOBase
from .iql import IQL, IQLLearner
from .learners.learner import Learner
from .learners.train_state import TrainState, nonpytree_field, target_update
from .mappo import MAPPO
from .ppo import PPO, PPOBase
from .pqn import PQN, PQNLearner
from .qrdqn import QRDQN, QRDQNLearner
from .reinforce import REINFORCE, REINFORCEBase
from .rnd import RND, RNDBase
from .sac import SAC, DiscreteSACLearner, SACLearner
from .td3 import TD3, TD3Learner
from .td3bc import TD3BC, TD3BCLearner
from .verification import verify

__version__: str

__all__ = [
    "A2C",
    "AWAC",
    "BC",
    "C51",
    "CQL",
    "DDQN",
    "DQN",
    "IPPO",
    "IQL",
    "MAPPO",
    "PPO",
    "PQN",
    "QRDQN",
    "REINFORCE",
    "RND",
    "SAC",
    "TD3",
    "TD3BC",
    "A2CBase",
    "AWACLearner",
    "Agent",
    "BCLearner",
    "C51Learner",
    "CQLLearner",
    "CosineSchedule",
    "DDQNLearner",
    "DQNBase",
    "DQNLearner",
    "DiscreteBCLearner",
    "DiscreteCQLLearner",
    "DiscreteSACLearner",
    "Environment",
    "ExponentialSchedule",
    "ExportedPolicy",
    "FunctionSchedule",
    "IPPOBase",
    "IQLLearner",
    "Learner",
    "LinearSchedule",
    "OffPolicyBase",
    "OfflineBase",
    "OnPolicyBase",
    "PPOBase",
    "PQNLearner",
    "PiecewiseSchedule",
    "QRDQNLearner",
    "REINFORCEBase",
    "RNDBase",
    "SACLearner",
    "Schedule",
    "TD3BCLearner",
    "TD3Learner",
    "TrainState",
    "cache_programs",
    "check_env",
    "load_policy",
    "make",
    "nonpytree_field",
    "target_update",
    "verify",
]
