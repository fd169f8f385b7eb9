"""The static configurations of agents."""

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
from jaxagents.engine.config import Config

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
