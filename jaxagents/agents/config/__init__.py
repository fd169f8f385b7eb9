"""The static configurations of agents."""

from jaxagents.agents.config.base import Config
from jaxagents.agents.config.learner import (
    ActionValuesConfig,
    LearnerAgentConfig,
    OfflineAgentConfig,
    OffPolicyConfig,
)
from jaxagents.agents.config.on_policy import (
    Memory,
    OnPolicyConfig,
    OnPolicyHyperparameters,
    Sharing,
)

__all__ = [
    "ActionValuesConfig",
    "Config",
    "LearnerAgentConfig",
    "Memory",
    "OffPolicyConfig",
    "OfflineAgentConfig",
    "OnPolicyConfig",
    "OnPolicyHyperparameters",
    "Sharing",
]
