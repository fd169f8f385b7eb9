"""The configuration of agents that learn from transitions, or from sequences of them."""

import dataclasses
from typing import get_args

from jaxagents.agents.config.learner import OffPolicyConfig
from jaxagents.core.numbers import multiples_near, not_negative
from jaxagents.learners.q_learning import ValueConfig
from jaxagents.networks.recurrent import Memory, Recurrent


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SequenceReplayConfig(OffPolicyConfig, ValueConfig):
    """Base of the configurations of off-policy agents whose critic may have a memory.

    With one, a gradient step learns from `minibatch_size / sequence_length` sequences.

    Attributes:
        memory: The recurrent cell of the default network, behind its first layer: `"gru"`, `"lstm"`, or
            `"min_gru"`, whose steps are computed side by side. `None` gives it no memory.
        memory_size: Number of units of the cell.
        sequence_length: With a memory, number of steps of the sequences that are learned from. Divides
            `minibatch_size`.
        burn_in: Number of the first steps of each sequence by which the memory is only brought up to
            date, and from which nothing is learned.
    """

    memory: Memory | None = None
    memory_size: int = 64
    sequence_length: int = 16
    burn_in: int = 0

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        name, kinds = type(self).__name__, get_args(Memory)
        self._check_positive("memory_size", "sequence_length")
        object.__setattr__(self, "burn_in", not_negative(f"{name}.burn_in", self.burn_in))
        if self.memory not in (None, *kinds):
            raise ValueError(f"{name}.memory must be None or one of {kinds}, got {self.memory!r}.")
        if self.memory is not None and self.critic_network is not None:
            raise ValueError(
                f"{name}.memory={self.memory!r} is for the default network, but critic_network is "
                "given: put the memory into it, with jaxagents.networks.WithMemory."
            )
        if self.has_memory:
            self._check_sequences()

    @property
    def has_memory(self) -> bool:
        """Whether the critic has a memory."""
        return self.memory is not None or isinstance(self.critic_network, Recurrent)

    def _check_sequences(self) -> None:
        name, length = type(self).__name__, self.sequence_length
        if self.n_step_returns > length:
            raise ValueError(
                f"{name}.n_step_returns must be at most sequence_length ({length}) where the critic has "
                f"a memory, got {self.n_step_returns}."
            )
        if self.encoder is not None:
            raise ValueError(
                f"{name}.encoder is for networks without a memory: put it into the critic's, as the "
                "torso of a jaxagents.networks.WithMemory."
            )
        if self.minibatch_size % (length * self.n_groups):
            raise ValueError(
                f"{name}.minibatch_size must be a multiple of sequence_length * n_groups "
                f"({length * self.n_groups}) where the critic has a memory, got {self.minibatch_size}; "
                f"{multiples_near(self.minibatch_size, length * self.n_groups)}."
            )
        if self.burn_in >= length:
            raise ValueError(
                f"{name}.burn_in must be less than sequence_length ({length}), got {self.burn_in}."
            )
        if self.n_warmup_steps < length:
            raise ValueError(
                f"{name}.learning_starts must be at least sequence_length * batch_size "
                f"({length * self.batch_size}), so that there are sequences to learn from, got "
                f"{self.learning_starts}."
            )
