"""The configuration and hyperparameters that on-policy agents share."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Literal

import optax
from flax import linen as nn
from flax import struct

from jaxagents.agents.env_params import PlayingHyperparameters
from jaxagents.core.config import checked, one_of, optimizer_function
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.numbers import positive
from jaxagents.engine.config import Config
from jaxagents.learners.optimizer import OptimizerParams, accepted_names, fixed_arguments
from jaxagents.networks.recurrent import Memory

Sharing = Literal["separate", "shared", "torso"]
"""Parameters that networks of several actors have in common: none, all, or those of hidden layers."""


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
        trunk: A network, as `actor_network`, of what is observed, whose output both networks are given
            in its place. It is trained with the actor, by the losses of both. Default networks behind
            it are single layers. `None` for none: actor and critic have nothing in common.
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
    squash_actions: bool = False
    normalise_observations: bool = False
    normalise_rewards: bool = False
    normalise_values: bool = False

    shared_out: ClassVar[tuple[str, ...]] = ("batch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_divides("n_groups", "batch_size")
        self._check_learning_rate()
        self._check_trunk()
        self._check_memory()
        self._check_sharing()
        self._check_minibatches()

    def _check_learning_rate(self) -> None:
        fixed = fixed_arguments(self.optimizer)
        given = getattr(self.optimizer, "__name__", self.optimizer)
        if "learning_rate" not in fixed and not accepted_names(self.optimizer, ["learning_rate"]):
            raise TypeError(
                f"{type(self).__name__}.optimizer must take a learning_rate, which is a hyperparameter, "
                f"as optax.adam does, got {given}: to fix it nevertheless, give "
                "functools.partial(optax.adam, learning_rate=1e-3)."
            )

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

    def _check_trunk(self) -> None:
        if self.trunk is None:
            return
        name = type(self).__name__
        if self.actor_epochs != self.critic_epochs:
            raise ValueError(
                f"With {name}.trunk, actor and critic learn together: actor_epochs "
                f"({self.actor_epochs}) and critic_epochs ({self.critic_epochs}) must be equal."
            )
        if self.memory is not None:
            raise ValueError(
                f"{name}.memory={self.memory!r} is for default networks without a trunk, but trunk is "
                "given: put the memory into it, with jaxagents.networks.WithMemory."
            )
        if self.network_sharing == "torso":
            raise ValueError(
                f"{name}.network_sharing='torso' is for default networks without a trunk, but trunk is "
                "given: have actors share it, with jaxagents.networks.PerActor(network, "
                "n_actors, shared_params=True)."
            )

    def _check_memory(self) -> None:
        has_default = self.actor_network is None or self.critic_network is None
        if self.memory is not None and not has_default:
            raise ValueError(
                f"{type(self).__name__}.memory={self.memory!r} is for default networks, but "
                "actor_network and critic_network are both given: put the memory into these, with "
                "jaxagents.networks.WithMemory."
            )

    def _check_sharing(self) -> None:
        name = type(self).__name__
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
