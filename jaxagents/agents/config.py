"""The static configurations of agents."""

import dataclasses
import os
from collections.abc import Callable, Collection
from typing import ClassVar, Literal, Self, get_args

import optax
from flax import linen as nn
from flax import struct

from jaxagents.agents.env_params import PlayingHyperparameters
from jaxagents.core.config import StaticConfig
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.keys import RandomKey
from jaxagents.core.numbers import multiples_near
from jaxagents.learners.optimizer import OptimizerParams

Memory = Literal["gru", "lstm", "min_gru"]
"""Kinds of recurrent cells."""
Sharing = Literal["separate", "shared", "torso"]
"""Parameters that networks of several actors have in common: none, all, or those of hidden layers."""

_OUTSIDE = {
    "checkpoint_dir": None,
    "restore_agent": False,
    "keep_checkpoints": None,
    "stop_if_not_finite": True,
}
"""Fields that concern no compiled program, with the values that they have without files."""
_EVALUATED_ONCE = {
    "n_steps": 1,
    "eval_frequency": 1,
    "eval_rng": None,
    "n_evals": None,
    "eval_deterministic": True,
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Config(StaticConfig):
    """Base of the configurations of all agents. Compares and hashes by value.

    Attributes:
        n_steps: Number of update steps that `train` makes (additional ones when it goes on from a
            runner).
        eval_frequency: Number of update steps between evaluations.
        eval_rng: Random key of the evaluations during training; every evaluation plays
            episodes of the same seeds. `None` is key 0.
        n_evals: Number of episodes of an evaluation during training. `None` is 32, and 10 where
            environments are stepped on the host.
        eval_deterministic: Whether evaluations during training play the greedy actions, rather than
            actions drawn from the policy.
        max_episode_steps: Steps after which an episode is truncated, if the environment does not
            truncate it earlier.
        final_info: Names of entries of the environment's `info` whose values at the last step of each
            episode are among the metrics, such as whether it was won.
        summed_info: Names of entries whose sums over each episode are, such as costs. Rollouts of
            on-policy agents hold both (`traj.info`). On the host they are numbers of single precision.
        checkpoint_dir: Folder for checkpoints, configuration and metrics, which is made absolute.
            `None` saves nothing.
        restore_agent: Whether `checkpoint_dir` may already hold checkpoints.
        keep_checkpoints: Number of latest checkpoints to keep besides the best. `None` keeps all.
        n_groups: Number of groups of environments (or of a dataset's rows), within which samples are
            mixed. The devices of a mesh share out the groups, so that no sample has to leave its device.
            Results depend on it, but not on the number of devices.
        replicated_updates: Whether every device of a mesh learns from the samples of all of them,
            instead of taking the mean of the gradients that each computes from its own. Training is then
            bit for bit the same on any number of devices, but more of them speed up collecting only.
        stop_if_not_finite: Whether training ends with an error once parameters, losses, gradient norms,
            observations or rewards are not finite numbers. Otherwise it warns.
    """

    n_steps: int = 200
    eval_frequency: int = 1
    eval_rng: RandomKey | None = None
    n_evals: int | None = None
    eval_deterministic: bool = True
    max_episode_steps: int = 9999
    final_info: tuple[str, ...] = ()
    summed_info: tuple[str, ...] = ()
    checkpoint_dir: str | os.PathLike | None = None
    restore_agent: bool = False
    keep_checkpoints: int | None = 5
    n_groups: int = 1
    replicated_updates: bool = False
    stop_if_not_finite: bool = True

    outside: ClassVar[Collection[str]] = tuple(_OUTSIDE)

    shared_out: ClassVar[tuple[str, ...]] = ("n_groups",)
    """Fields whose numbers the devices of a mesh share out."""

    def __post_init__(self) -> None:
        """Validates the fields.

        Raises:
            TypeError: A field holds a traced value, or a number of the wrong type.
            ValueError: A number is out of range, or fields do not fit together.
        """
        super().__post_init__()
        self._check_positive(
            "n_steps",
            "eval_frequency",
            "n_evals",
            "max_episode_steps",
            "keep_checkpoints",
            "n_groups",
        )
        self._check_names("final_info")
        self._check_names("summed_info")
        self._check_folder("checkpoint_dir")
        if self.restore_agent and self.checkpoint_dir is None:
            raise ValueError(
                f"{type(self).__name__}: restore_agent=True needs a checkpoint_dir that it may go on "
                "from, such as checkpoint_dir='runs/1'."
            )

    def check_devices(self, n_devices: int) -> None:
        """Raises if that many devices cannot share the work equally.

        Args:
            n_devices: Number of devices along the axis of a mesh over which it is split.

        Raises:
            ValueError: They cannot; the error names numbers that would do.
        """
        for name in self.shared_out:
            number = getattr(self, name)
            if number % n_devices:
                raise ValueError(
                    f"{type(self).__name__}.{name} must be a multiple of the {n_devices} devices that "
                    f"share a training, got {number}; {multiples_near(number, n_devices)}."
                )

    def without_files(self) -> Self:
        """The same computation without anything that concerns files."""
        return dataclasses.replace(self, **_OUTSIDE)

    def updates(self) -> "Config":
        """The same updates, without anything that concerns files, evaluations and how many they are."""
        return dataclasses.replace(self.without_files(), **_EVALUATED_ONCE)

    def _check_divides(self, divisor: str, dividend: str) -> None:
        small, large = getattr(self, divisor), getattr(self, dividend)
        if large % small:
            divisors = [n for n in range(1, large + 1) if large % n == 0]
            raise ValueError(
                f"{type(self).__name__}.{divisor} must divide {dividend}: {large} is not a multiple "
                f"of {small}. Values of {divisor} that would: {', '.join(map(str, divisors))}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OnPolicyConfig(Config):
    """Base of the configurations of on-policy agents.

    Attributes:
        batch_size: Number of parallel environments (elsewhere `num_envs`).
        rollout_length: Steps taken in each environment before an update (elsewhere `num_steps`).
        minibatch_size: Size of a minibatch, counted in environments: it holds `minibatch_size *
            rollout_length` samples. Divides `batch_size`; `None` takes all.
        minibatches_per_epoch: Number of minibatches, if it is not `batch_size / minibatch_size`, such as
            more than there are environments. Divides the number of samples; with a memory, that of
            environments.
        actor_epochs: Passes over the samples for the actor.
        critic_epochs: Passes over the samples for the critic.
        actor_network: A `flax.linen` module, or a module class or other function that is called
            with this configuration to make one. `None` takes a default network.
        critic_network: As `actor_network`, for the value.
        memory: The recurrent cell of default networks, between their two layers: `"gru"`, `"lstm"`, or
            `"min_gru"`, whose steps are computed side by side. `None` gives them no memory.
        memory_size: Number of units of the cell.
        network_sharing: The parameters that the default networks of several actors have in common:
            `"separate"` none, `"shared"` all, `"torso"` those of the hidden layers, so that each actor
            has only a last layer of its own. A centralised critic is one network anyhow.
        optimizer: Any function that makes an optax optimizer, `functools.partial` included. It is
            given those fields of the `OptimizerParams` that it takes as arguments and that no
            partial fixes.
        squash_actions: How agents with a ready-made policy keep box actions inside their bounds:
            `True` squashes a Gaussian by tanh, `False` clips it.
        normalise_observations: Whether networks are given observations of zero mean and unit variance,
            by running statistics that they carry with their parameters. Images stay as they are.
        normalise_rewards: Whether agents learn from rewards in units of the standard deviation of
            returns. Metrics and evaluations show the true ones.
        normalise_values: Whether the critic learns returns of zero mean and unit variance, by running
            statistics. Advantages are those of the true ones.
    """

    batch_size: int = 16
    rollout_length: int = 128
    minibatch_size: int | None = None
    minibatches_per_epoch: int | None = None
    actor_epochs: int = 1
    critic_epochs: int = 1
    actor_network: nn.Module | Callable[..., nn.Module] | None = None
    critic_network: nn.Module | Callable[..., nn.Module] | None = None
    memory: Memory | None = None
    memory_size: int = 64
    network_sharing: Sharing = "separate"
    optimizer: Callable[..., optax.GradientTransformation] = optax.adam
    squash_actions: bool = False
    normalise_observations: bool = False
    normalise_rewards: bool = False
    normalise_values: bool = False

    shared_out: ClassVar[tuple[str, ...]] = ("batch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive(
            "batch_size",
            "rollout_length",
            "minibatch_size",
            "minibatches_per_epoch",
            "actor_epochs",
            "critic_epochs",
            "memory_size",
        )
        self._check_divides("n_groups", "batch_size")
        self._check_optimizer(self.optimizer)
        self._check_memory()
        self._check_sharing()
        self._check_minibatches()

    def _check_minibatches(self) -> None:
        name, n_samples = type(self).__name__, self.batch_size * self.rollout_length
        if self.minibatches_per_epoch is None and self.minibatch_size is not None:
            self._check_divides("minibatch_size", "batch_size")
        if n_samples % self.n_minibatches:
            raise ValueError(
                f"{name}.minibatches_per_epoch must divide the {n_samples} samples of an update "
                f"(batch_size * rollout_length), got {self.n_minibatches}."
            )
        size = n_samples // self.n_minibatches
        if size % self.n_groups:
            raise ValueError(
                f"{name}.n_groups must divide the {size} samples of a minibatch "
                f"(batch_size * rollout_length / {self.n_minibatches}), got {self.n_groups}."
            )

    def _check_memory(self) -> None:
        if self.memory is None:
            return
        name, kinds = type(self).__name__, get_args(Memory)
        if self.memory not in kinds:
            raise ValueError(f"{name}.memory must be None or one of {kinds}, got {self.memory!r}.")
        if self.actor_network is not None and self.critic_network is not None:
            raise ValueError(
                f"{name}.memory={self.memory!r} is for default networks, but actor_network and "
                "critic_network are both given: put the memory into these, with "
                "jaxagents.networks.WithMemory."
            )

    def _check_sharing(self) -> None:
        name, kinds = type(self).__name__, get_args(Sharing)
        if self.network_sharing not in kinds:
            raise ValueError(
                f"{name}.network_sharing must be one of {kinds}, got {self.network_sharing!r}."
            )
        if self.network_sharing == "separate":
            return
        if self.actor_network is not None and self.critic_network is not None:
            raise ValueError(
                f"{name}.network_sharing={self.network_sharing!r} is for default networks, but "
                "actor_network and critic_network are both given: lift these yourself, with "
                "jaxagents.networks.PerActor(network, n_actors, shared_params=True)."
            )
        if self.network_sharing == "torso" and self.memory is not None:
            raise ValueError(
                f"{name}.network_sharing='torso' is for networks without a memory, but memory is "
                f"{self.memory!r}: take 'shared' or 'separate'."
            )

    @property
    def n_minibatches(self) -> int:
        """Number of minibatches of an epoch."""
        if self.minibatches_per_epoch is not None:
            return self.minibatches_per_epoch
        return 1 if self.minibatch_size is None else self.batch_size // self.minibatch_size


class OnPolicyHyperparameters(PlayingHyperparameters):
    """Base of the traced hyperparameters of on-policy agents.

    Attributes:
        gamma: Discount.
        actor_optimizer_params: Parameters of the actor's optimizer.
        critic_optimizer_params: Parameters of the critic's optimizer.
        vf_coeff: Weight of the critic's loss.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    actor_optimizer_params: Traced = struct.field(default=OptimizerParams(), kw_only=True)
    critic_optimizer_params: Traced = struct.field(default=OptimizerParams(), kw_only=True)
    vf_coeff: Traced = hyperparameter(1.0, 0.0, kw_only=True)


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
            of uniformly.
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
