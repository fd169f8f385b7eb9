"""The configurations that agents around a learner share."""

import dataclasses
from typing import ClassVar

from jaxagents.core.numbers import multiples_near
from jaxagents.engine.config import Config


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LearnerAgentConfig(Config):
    """Base of the configurations of agents around a learner.

    Attributes:
        n_steps: Number of update steps that `train` makes.
        eval_frequency: Number of update steps between evaluations.
        minibatch_size: Number of transitions that a gradient step learns from.
        gradient_steps: Number of gradient steps of an update step.
        normalise_observations: Whether networks are given observations of zero mean and unit variance,
            by statistics that they carry with their parameters. Images stay as they are.
    """

    n_steps: int = 50_000
    eval_frequency: int = 5_000
    minibatch_size: int = 128
    gradient_steps: int = 1
    normalise_observations: bool = False

    has_default_networks: ClassVar[bool]
    """Whether no network is the user's own, as the configuration of the learner says."""

    shared_out: ClassVar[tuple[str, ...]] = ("minibatch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("minibatch_size", "gradient_steps")
        self._check_divides("n_groups", "minibatch_size")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OfflineAgentConfig(LearnerAgentConfig):
    """Base of the configurations of agents that learn from the rewards of a dataset.

    Attributes:
        normalise_rewards: Whether rewards are multiplied by the length of the dataset's longest episode,
            and divided by the difference between the highest and the lowest return.
    """

    normalise_rewards: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OffPolicyConfig(LearnerAgentConfig):
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

    batch_size: int = 8
    rollout_length: int = 1
    buffer_size: int = 100_000
    learning_starts: int = 1_000
    n_step_returns: int = 1
    prioritised_replay: bool = False
    normalise_rewards: bool = False
    checkpoint_buffer: bool = True

    shared_out: ClassVar[tuple[str, ...]] = ("batch_size", "minibatch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive(
            "batch_size", "rollout_length", "buffer_size", "learning_starts", "n_step_returns"
        )
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

    @property
    def n_warmup_steps(self) -> int:
        """Number of steps taken in each environment before the first update."""
        return -(-self.learning_starts // self.batch_size)

    @property
    def update_to_data_ratio(self) -> float:
        """Number of gradient steps for each transition collected."""
        return self.gradient_steps / (self.rollout_length * self.batch_size)
