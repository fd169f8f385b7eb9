"""The configuration of agents that learn from transitions, or from sequences of them."""

import dataclasses

from jaxagents.agents.config.action_values import ActionValuesConfig
from jaxagents.agents.config.learner import OffPolicyConfig
from jaxagents.core.numbers import multiples_near, not_negative


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SequenceReplayConfig(OffPolicyConfig, ActionValuesConfig):
    """Base of the configurations of off-policy agents whose critic may have a memory.

    With one, a gradient step learns from `minibatch_size / sequence_length` sequences.

    Attributes:
        sequence_length: With a memory, number of steps of the sequences that are learned from. Divides
            `minibatch_size`.
        burn_in: Number of the first steps of each sequence by which the memory is only brought up to
            date, and from which nothing is learned.
    """

    sequence_length: int = 16
    burn_in: int = 0

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("sequence_length")
        burn_in = not_negative(f"{type(self).__name__}.burn_in", self.burn_in)
        object.__setattr__(self, "burn_in", burn_in)
        if self.has_memory:
            self._check_sequences()

    def _check_sequences(self) -> None:
        name, length = type(self).__name__, self.sequence_length
        if self.n_step_returns > length:
            raise ValueError(
                f"{name}.n_step_returns must be at most sequence_length ({length}) where the critic has "
                f"a memory, got {self.n_step_returns}."
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
