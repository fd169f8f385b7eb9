"""The configuration of agents whose learner gives the values of discrete actions."""

import dataclasses
from typing import get_args

from jaxagents.agents.config.learner import LearnerAgentConfig
from jaxagents.learners.q_learning import ValueConfig
from jaxagents.networks.recurrent import Memory, remembers


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ActionValuesConfig(LearnerAgentConfig, ValueConfig):
    """Base of the configurations of agents whose critic, of the values of actions, may have a memory.

    Attributes:
        memory: The recurrent cell of the default network, behind its first layer: `"gru"`, `"lstm"`, or
            `"min_gru"`, whose steps are computed side by side. `None` gives it no memory.
        memory_size: Number of units of the cell.
    """

    memory: Memory | None = None
    memory_size: int = 64

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        name = type(self).__name__
        self._check_positive("memory_size")
        self._check_choice("memory", get_args(Memory))
        if self.memory is not None and self.critic_network is not None:
            raise ValueError(
                f"{name}.memory={self.memory!r} is for the default network, but critic_network is "
                "given: put the memory into it, with jaxagents.networks.WithMemory."
            )
        if self.has_memory and self.encoder is not None:
            raise ValueError(
                f"{name}.encoder is for networks without a memory: put it into the critic's, as the "
                "torso of a jaxagents.networks.WithMemory."
            )

    @property
    def has_memory(self) -> bool:
        """Whether the critic has a memory."""
        network = self.critic_network
        return self.memory is not None or (network is not None and remembers(network))
