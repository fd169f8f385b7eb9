"""Configurations of agents, and hyperparameters shared by families of agents."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, TypeVar

import optax
from flax import linen as nn
from flax import struct

from jaxagents.core.config import checked, one_of, optimizer_function
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.core.numbers import check_divides, check_multiple, counted, not_negative, positive
from jaxagents.engine.config import Config
from jaxagents.learners.optimizer import (
    OptimizerParams,
    accepted_names,
    annealed_adam,
    fixed_arguments,
)
from jaxagents.networks.recurrent import Memory, remembers

__all__ = [
    "Config",
    "LearnerAgentConfig",
    "Memory",
    "OffPolicyConfig",
    "OfflineAgentConfig",
    "OnPolicyConfig",
    "OnPolicyHyperparameters",
    "PlayingHyperparameters",
    "SequencesConfig",
    "Sharing",
    "annealed",
]

Sharing = Literal["separate", "shared", "torso"]
"""Parameters shared by the networks of several actors: none, all, or the hidden layers."""
ConfigT = TypeVar("ConfigT", bound=Config)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OnPolicyConfig(Config):
    """Base class of the configurations of on-policy agents.

    Attributes:
        batch_size: Number of parallel environments (`num_envs` in other libraries).
        rollout_length: Steps taken in each environment per update (`num_steps` in other libraries).
        minibatch_size: Number of environments per minibatch, which then holds `minibatch_size *
            rollout_length` samples. Must divide `batch_size`; `None` uses all environments.
        minibatches_per_epoch: Number of minibatches per epoch, instead of `minibatch_size`; it may
            exceed the number of environments. Must divide the number of samples, or, with a memory,
            the number of environments.
        actor_epochs: Passes over the samples for the actor.
        critic_epochs: Passes over the samples for the critic.
        actor_network: A `flax.linen` module, or a class or function that creates one from this
            configuration. `None` uses a default network.
        critic_network: Like `actor_network`, for the critic.
        trunk: Like `actor_network`, but maps observations to features for both actor and critic. It is
            trained with the actor, on both losses. Default networks on top of it are single layers.
            With `None`, actor and critic share nothing.
        memory: Recurrent cell of the default networks, between their two layers: `"gru"`, `"lstm"`, or
            `"min_gru"`, whose steps are computed in parallel. `None` for no memory.
        memory_size: Number of units of the recurrent cell.
        network_sharing: Parameters that the default networks of several actors share: none
            (`"separate"`), all (`"shared"`), or the hidden layers (`"torso"`), so that each actor only
            has a last layer of its own. A centralised critic is always a single network.
        optimizer: Any function that creates an optax optimizer, including a `functools.partial`. It
            receives the fields of `OptimizerParams` that it accepts, unless a partial fixes them.
        channels_first: Whether images have their channels first, (channels, height, width), as in
            PyTorch; default networks then move them last. `None` assumes that they are last, and warns
            if their shape suggests otherwise.
        squash_actions: How the built-in policy keeps continuous actions within their bounds: `True`
            squashes a Gaussian with tanh, `False` clips its samples.
        normalise_observations: Whether to normalise observations to zero mean and unit variance, with
            running statistics stored with the networks' parameters. Images are left unchanged.
        normalise_rewards: Whether to divide rewards by the standard deviation of returns. Metrics and
            evaluations report the original rewards.
        normalise_values: Whether the critic learns returns normalised to zero mean and unit variance,
            with running statistics. Advantages are computed from the original values.
    """

    batch_size: int = checked(16, positive)
    rollout_length: int = checked(128, positive)
    minibatch_size: int | None = checked(None, positive)
    minibatches_per_epoch: int | None = checked(None, positive)
    actor_epochs: int = checked(1, positive)
    critic_epochs: int = checked(1, positive)
    actor_network: nn.Module | Callable[..., nn.Module] | None = None
    critic_network: nn.Module | Callable[..., nn.Module] | None = None
    trunk: nn.Module | Callable[..., nn.Module] | None = None
    memory: Memory | None = checked(None, one_of(Memory, or_none=True))
    memory_size: int = checked(64, positive)
    network_sharing: Sharing = checked("separate", one_of(Sharing))
    optimizer: Callable[..., optax.GradientTransformation] = checked(optax.adam, optimizer_function)
    channels_first: bool | None = None
    squash_actions: bool = False
    normalise_observations: bool = False
    normalise_rewards: bool = False
    normalise_values: bool = False

    shared_out: ClassVar[tuple[str, ...]] = ("batch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        fixed = fixed_arguments(self.optimizer)
        if "learning_rate" not in fixed and not accepted_names(self.optimizer, ["learning_rate"]):
            given = getattr(self.optimizer, "__name__", self.optimizer)
            raise TypeError(
                f"{type(self).__name__}.optimizer must take a learning_rate, as optax.adam "
                f"does, since it is a hyperparameter, got {given}: to fix it anyway, pass "
                "functools.partial(optax.adam, learning_rate=1e-3)."
            )
        self._check_networks()
        name, n_samples = type(self).__name__, self.batch_size * self.rollout_length
        sizes = "batch_size * rollout_length"
        if self.minibatches_per_epoch is not None:
            what = f"the {n_samples} samples of an update ({sizes})"
            given = self.minibatches_per_epoch
            check_divides(f"{name}.minibatches_per_epoch", given, n_samples, what)
        elif self.minibatch_size is not None:
            check_divides(
                f"{name}.minibatch_size", self.minibatch_size, self.batch_size, "batch_size"
            )
        size = self.samples_of_minibatch
        what = f"the {size} samples of a minibatch ({sizes} / {self.n_minibatches})"
        check_divides(f"{name}.n_groups", self.n_groups, size, what)

    def _check_networks(self) -> None:
        """Raises if fields exclude each other, or configure default networks that are not used."""
        name, memory, sharing = type(self).__name__, self.memory, self.network_sharing
        are_given = self.actor_network is not None and self.critic_network is not None
        has_trunk, both = self.trunk is not None, "actor_network and critic_network are both given"
        per_actor = "jaxagents.networks.PerActor(network, n_actors, shared_params=True)"
        for is_wrong, message in (
            (
                has_trunk and self.actor_epochs != self.critic_epochs,
                f"With {name}.trunk, actor and critic learn together: actor_epochs "
                f"({self.actor_epochs}) and critic_epochs ({self.critic_epochs}) must be equal.",
            ),
            (
                has_trunk and memory is not None,
                f"{name}.memory={memory!r} is for default networks without a trunk, but a trunk "
                "is given: put the memory into it, with jaxagents.networks.WithMemory.",
            ),
            (
                has_trunk and sharing == "torso",
                f"{name}.network_sharing='torso' is for default networks without a trunk, but a "
                f"trunk is given: have actors share it, with {per_actor}.",
            ),
            (
                are_given and memory is not None,
                f"{name}.memory={memory!r} is for default networks, but {both}: put the memory "
                "into them, with jaxagents.networks.WithMemory.",
            ),
            (
                are_given and sharing != "separate",
                f"{name}.network_sharing={sharing!r} is for default networks, but {both}: lift "
                f"them yourself, with {per_actor}.",
            ),
            (
                sharing == "torso" and memory is not None,
                f"{name}.network_sharing='torso' is for networks without a memory, but memory is "
                f"{memory!r}: take 'shared' or 'separate'.",
            ),
        ):
            if is_wrong:
                raise ValueError(message)

    @property
    def n_minibatches(self) -> int:
        """Number of minibatches per epoch."""
        if self.minibatches_per_epoch is not None:
            return self.minibatches_per_epoch
        return 1 if self.minibatch_size is None else self.batch_size // self.minibatch_size

    @property
    def samples_of_minibatch(self) -> int:
        """Number of samples per minibatch."""
        return self.batch_size * self.rollout_length // self.n_minibatches


class PlayingHyperparameters(Hyperparameters):
    """Base class of the hyperparameters of agents that learn in an environment.

    Attributes:
        env_params: Environment parameters by name, which override the agent's own: numbers, arrays of
            them for `sweep` and `jax.vmap`, schedules, or functions of the update step.
    """

    env_params: Mapping[str, Traced] = struct.field(default_factory=dict, kw_only=True)


class OnPolicyHyperparameters(PlayingHyperparameters):
    """Base class of the traced hyperparameters of on-policy agents.

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
    """Base class of the configurations of agents with a learner.

    Attributes:
        n_steps: Number of updates in a run.
        eval_frequency: Number of updates between evaluations.
        minibatch_size: Number of transitions per gradient step.
        gradient_steps: Number of gradient steps per update.
        normalise_observations: Whether to normalise observations to zero mean and unit variance, with
            statistics stored with the networks' parameters. Images are left unchanged.
        channels_first: Whether images have their channels first, (channels, height, width), as in
            PyTorch; default networks and `encoder` then see them last. `None` assumes that they are
            last, and warns if their shape suggests otherwise.
        memory: Recurrent cell of the default networks, after their first layer: `"gru"`, `"lstm"`, or
            `"min_gru"`, whose steps are computed in parallel. `None` for no memory.
        memory_size: Number of units of the recurrent cell.
    """

    n_steps: int = 50_000
    eval_frequency: int = 5_000
    minibatch_size: int = checked(128, positive)
    gradient_steps: int = checked(1, positive)
    normalise_observations: bool = False
    channels_first: bool | None = None
    memory: Memory | None = checked(None, one_of(Memory, or_none=True))
    memory_size: int = checked(64, positive)

    has_default_networks: ClassVar[bool]
    """Whether the learner's configuration has no custom network."""

    shared_out: ClassVar[tuple[str, ...]] = ("minibatch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
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
        """Whether any network has a memory."""
        given = [network for network in self._networks.values() if network is not None]
        return self.memory is not None or any(map(remembers, given))

    @property
    def _networks(self) -> dict[str, nn.Module | None]:
        """Custom networks by field, `None` for default ones."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name.endswith("_network")}

    def amount(self, n_updates: int) -> str:
        """Describes how many environment steps and gradient steps the updates take."""
        total = counted(n_updates * self.gradient_steps, "gradient step")
        if self.steps_per_update:
            return f"{super().amount(n_updates)} and {total}"
        each = counted(self.gradient_steps, "gradient step")
        return f"{counted(n_updates, 'update')} x {each} = {total}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SequencesConfig(LearnerAgentConfig):
    """Base class of the configurations of agents that learn from transitions or sequences.

    With a memory, a gradient step learns from `minibatch_size / sequence_length` sequences.

    Attributes:
        sequence_length: With a memory, number of steps per training sequence. Must divide
            `minibatch_size`.
        burn_in: Number of steps at the start of each sequence that warm up the memory, without
            contributing to the loss.
    """

    sequence_length: int = checked(16, positive)
    burn_in: int = checked(0, not_negative)

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        if not self.has_memory:
            return
        name, length = type(self).__name__, self.sequence_length
        check_multiple(
            f"{name}.minibatch_size",
            self.minibatch_size,
            length * self.n_groups,
            f"sequence_length * n_groups ({length * self.n_groups}) where a network has a memory",
        )
        if self.burn_in >= length:
            raise ValueError(
                f"{name}.burn_in must be less than sequence_length ({length}), got {self.burn_in}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OfflineAgentConfig(SequencesConfig):
    """Base class of the configurations of offline agents that learn from rewards.

    Attributes:
        normalise_rewards: Whether to multiply rewards by the length of the longest episode in the
            dataset, and divide them by the difference between its highest and lowest return.
    """

    normalise_rewards: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OffPolicyConfig(SequencesConfig):
    """Base class of the configurations of off-policy agents.

    One update collects `rollout_length` steps in each of `batch_size` environments, stores them in the
    replay buffer, and takes `gradient_steps` gradient steps, each on `minibatch_size` transitions
    sampled from the buffer.

    Attributes:
        batch_size: Number of parallel environments (`num_envs` in other libraries).
        rollout_length: Steps taken in each environment per update.
        buffer_size: Number of transitions that the replay buffer holds; a multiple of `batch_size`.
        learning_starts: Number of transitions collected with random actions before the first update,
            rounded up to a multiple of `batch_size`.
        n_step_returns: Number of steps whose rewards are summed before bootstrapping.
        prioritised_replay: Whether to sample transitions in proportion to their last
            temporal-difference errors (Schaul et al., 2016, "Prioritized experience replay"), instead
            of uniformly; with a memory, sequences in proportion to the errors of their steps.
        normalise_rewards: Whether to divide rewards by the standard deviation of returns. The replay
            buffer, metrics and evaluations keep the original rewards.
        checkpoint_buffer: Whether checkpoints include the replay buffer. Without the buffer,
            checkpoints are small, but a run that continues from one must first refill its buffer, which
            changes its results.
        buffer_on_host: Whether to keep the replay buffer in host memory, for buffers that do not fit on
            the accelerator; batches are copied from there. Works only with environments that are
            stepped on the host, and without `prioritised_replay`. Such a buffer is not saved in
            checkpoints.
    """

    batch_size: int = checked(8, positive)
    rollout_length: int = checked(1, positive)
    buffer_size: int = checked(100_000, positive)
    learning_starts: int = checked(1_000, positive)
    n_step_returns: int = checked(1, positive)
    prioritised_replay: bool = False
    normalise_rewards: bool = False
    checkpoint_buffer: bool = True
    buffer_on_host: bool = False

    shared_out: ClassVar[tuple[str, ...]] = ("batch_size", "minibatch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        name, n_envs, length = type(self).__name__, self.batch_size, self.sequence_length
        check_multiple(f"{name}.buffer_size", self.buffer_size, n_envs, f"batch_size ({n_envs})")
        if self.n_warmup_steps * self.batch_size > self.buffer_size:
            raise ValueError(
                f"{name}.learning_starts must not exceed buffer_size ({self.buffer_size}), got "
                f"{self.learning_starts}."
            )
        if self.buffer_on_host and self.prioritised_replay:
            raise ValueError(
                f"{name}.buffer_on_host samples uniformly: leave out prioritised_replay, or "
                "keep the buffer on the device."
            )
        if self.buffer_on_host and self.checkpoint_buffer and self.checkpoint_dir is not None:
            raise ValueError(
                f"{name}.buffer_on_host keeps the buffer out of checkpoints: set "
                "checkpoint_buffer=False."
            )
        if not self.has_memory:
            return
        if self.n_step_returns > length:
            raise ValueError(
                f"{name}.n_step_returns must be at most sequence_length ({length}) where a network has "
                f"a memory, got {self.n_step_returns}."
            )
        if self.n_warmup_steps < length:
            raise ValueError(
                f"{name}.learning_starts must be at least sequence_length * batch_size "
                f"({length * n_envs}), so that there are sequences to learn from, got "
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


def annealed(config: ConfigT) -> ConfigT:
    """Copies a configuration, with Adam and a learning rate that decays to zero over `config.n_steps`.

    The decay is linear. For a network with fewer gradient steps than the others, such as the policy of
    TD3, the learning rate does not reach zero.

    Args:
        config: The configuration of an agent.

    Returns:
        A copy with a different optimizer.

    Raises:
        TypeError: `config` is not the configuration of an agent.
    """
    if isinstance(config, OnPolicyConfig):
        n_epochs = max(config.actor_epochs, config.critic_epochs)
        n_gradient_steps = config.n_steps * n_epochs * config.n_minibatches
    elif isinstance(config, LearnerAgentConfig):
        n_gradient_steps = config.n_steps * config.gradient_steps
    else:
        raise TypeError(f"annealed takes the configuration of an agent, got {config!r}.")
    optimizer = functools.partial(annealed_adam, n_gradient_steps=n_gradient_steps)
    return config.replace(optimizer=optimizer)
