"""The configurations that agents around a learner share."""

import dataclasses
from typing import ClassVar

from flax import linen as nn

from jaxagents.core.config import checked, one_of
from jaxagents.core.numbers import counted, multiples_near, not_negative, positive
from jaxagents.engine.config import Config
from jaxagents.networks.recurrent import Memory, remembers


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LearnerAgentConfig(Config):
    """Base of the configurations of agents around a learner.

    Attributes:
        n_steps: Number of updates that `train` makes.
        eval_frequency: Number of update steps between evaluations.
        minibatch_size: Number of transitions that a gradient step learns from.
        gradient_steps: Number of gradient steps of an update step.
        normalise_observations: Whether networks are given observations of zero mean and unit variance,
            by statistics that they carry with their parameters. Images stay as they are.
        memory: The recurrent cell of default networks, behind their first layer: `"gru"`, `"lstm"`, or
            `"min_gru"`, whose steps are computed side by side. `None` gives them no memory.
        memory_size: Number of units of the cell.
    """

    n_steps: int = 50_000
    eval_frequency: int = 5_000
    minibatch_size: int = checked(128, positive)
    gradient_steps: int = checked(1, positive)
    normalise_observations: bool = False
    memory: Memory | None = checked(None, one_of(Memory, or_none=True))
    memory_size: int = checked(64, positive)

    has_default_networks: ClassVar[bool]
    """Whether no network is the user's own, as the configuration of the learner says."""

    shared_out: ClassVar[tuple[str, ...]] = ("minibatch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_divides("n_groups", "minibatch_size")
        name, networks = type(self).__name__, self._networks
        given = [field for field, network in networks.items() if network is not None]
        if self.memory is not None and len(given) == len(networks):
            default, into = ("network", "it") if len(given) == 1 else ("networks", "them")
            are = "is" if len(given) == 1 else "are"
            raise ValueError(
                f"{name}.memory={self.memory!r} is for the default {default}, but "
                f"{' and '.join(given)} {are} given: put the memory into {into}, with "
                "jaxagents.networks.WithMemory."
            )
        if self.has_memory and vars(self).get("encoder") is not None:
            of_whom = " and the ".join(f"{field.removesuffix('_network')}'s" for field in networks)
            raise ValueError(
                f"{name}.encoder is for networks without a memory: put it into the {of_whom}, as the "
                "torso of a jaxagents.networks.WithMemory."
            )

    @property
    def has_memory(self) -> bool:
        """Whether a network has a memory."""
        given = [network for network in self._networks.values() if network is not None]
        return self.memory is not None or any(map(remembers, given))

    @property
    def _networks(self) -> dict[str, nn.Module | None]:
        """The user's own networks, by fields, `None` for default ones."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name.endswith("_network")}

    def amount(self, n_updates: int) -> str:
        """The environment steps and gradient steps that updates amount to, in words."""
        total = counted(n_updates * self.gradient_steps, "gradient step")
        if self.steps_per_update:
            return f"{super().amount(n_updates)} and {total}"
        each = counted(self.gradient_steps, "gradient step")
        return f"{counted(n_updates, 'update')} x {each} = {total}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SequencesConfig(LearnerAgentConfig):
    """Base of the configurations of agents that learn from transitions, or with a memory from sequences.

    With a memory, a gradient step learns from `minibatch_size / sequence_length` sequences.

    Attributes:
        sequence_length: With a memory, number of steps of the sequences that are learned from. Divides
            `minibatch_size`.
        burn_in: Number of the first steps of each sequence by which the memory is only brought up to
            date, and from which nothing is learned.
    """

    sequence_length: int = checked(16, positive)
    burn_in: int = checked(0, not_negative)

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        if not self.has_memory:
            return
        name, length = type(self).__name__, self.sequence_length
        if self.minibatch_size % (length * self.n_groups):
            raise ValueError(
                f"{name}.minibatch_size must be a multiple of sequence_length * n_groups "
                f"({length * self.n_groups}) where a network has a memory, got {self.minibatch_size}; "
                f"{multiples_near(self.minibatch_size, length * self.n_groups)}."
            )
        if self.burn_in >= length:
            raise ValueError(
                f"{name}.burn_in must be less than sequence_length ({length}), got {self.burn_in}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OfflineAgentConfig(SequencesConfig):
    """Base of the configurations of agents that learn from the rewards of a dataset.

    Attributes:
        normalise_rewards: Whether rewards are multiplied by the length of the dataset's longest episode,
            and divided by the difference between the highest and the lowest return.
    """

    normalise_rewards: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OffPolicyConfig(SequencesConfig):
    """Base of the configurations of off-policy agents.

    One update step takes `rollout_length` steps in each of `batch_size` environments, stores them in
    the replay buffer, and makes `gradient_steps` gradient steps, each on `minibatch_size` transitions
    drawn from it.

    Attributes:
        batch_size: Number of parallel environments (elsewhere `num_envs`).
        rollout_length: Steps taken in each environment before learning from them.
        buffer_size: Number of transitions that the replay buffer holds; a multiple of `batch_size`.
        learning_starts: Number of transitions collected by random actions before the first update,
            rounded up to whole steps of all environments.
        n_step_returns: Number of steps over which rewards are summed before the value of the successor
            is taken.
        prioritised_replay: Whether transitions are drawn in proportion to their last
            temporal-difference errors (Schaul et al., 2016, "Prioritized experience replay"), instead
            of uniformly; with a memory, sequences in proportion to those of their steps.
        normalise_rewards: Whether agents learn from rewards in units of the standard deviation of
            returns. The replay buffer, metrics and evaluations have the true ones.
        checkpoint_buffer: Whether checkpoints hold the replay buffer. Without it they are small, but a
            training that goes on from one has to fill a new buffer first, which changes its results.
    """

    batch_size: int = checked(8, positive)
    rollout_length: int = checked(1, positive)
    buffer_size: int = checked(100_000, positive)
    learning_starts: int = checked(1_000, positive)
    n_step_returns: int = checked(1, positive)
    prioritised_replay: bool = False
    normalise_rewards: bool = False
    checkpoint_buffer: bool = True

    shared_out: ClassVar[tuple[str, ...]] = ("batch_size", "minibatch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_divides("n_groups", "batch_size")
        if self.buffer_size % self.batch_size:
            raise ValueError(
                f"{type(self).__name__}.buffer_size must be a multiple of batch_size "
                f"({self.batch_size}), got {self.buffer_size}; "
                f"{multiples_near(self.buffer_size, self.batch_size)}."
            )
        if self.n_warmup_steps * self.batch_size > self.buffer_size:
            raise ValueError(
                f"{type(self).__name__}.learning_starts must not exceed buffer_size "
                f"({self.buffer_size}), got {self.learning_starts}."
            )
        if self.has_memory:
            self._check_steps_of_sequences()

    def _check_steps_of_sequences(self) -> None:
        name, length = type(self).__name__, self.sequence_length
        if self.n_step_returns > length:
            raise ValueError(
                f"{name}.n_step_returns must be at most sequence_length ({length}) where a network has "
                f"a memory, got {self.n_step_returns}."
            )
        if self.n_warmup_steps < length:
            raise ValueError(
                f"{name}.learning_starts must be at least sequence_length * batch_size "
                f"({length * self.batch_size}), so that there are sequences to learn from, got "
                f"{self.learning_starts}."
            )

    @property
    def n_warmup_steps(self) -> int:
        """Number of steps taken in each environment before the first update."""
        return -(-self.learning_starts // self.batch_size)

    @property
    def update_to_data_ratio(self) -> float:
        """Number of gradient steps for each transition collected."""
        return self.gradient_steps / (self.rollout_length * self.batch_size)
