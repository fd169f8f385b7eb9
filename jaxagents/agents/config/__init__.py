"""The static configurations of agents."""

from jaxagents.agents.config.learner import (
    LearnerAgentConfig,
    OfflineAgentConfig,
    OffPolicyConfig,
    SequencesConfig,
)
from jaxagents.agents.config.on_policy import (
    Memory,
    OnPolicyConfig,
    OnPolicyHyperparameters,
    Sharing,
)
from jaxagents.engine.config import Config

__all__ = [
    "Config",
    "LearnerAgentConfig",
    "Memory",
    "OffPolicyConfig",
    "OfflineAgentConfig",
    "OnPolicyConfig",
    "OnPolicyHyperparameters",
    "SequencesConfig",
    "Sharing",
]
