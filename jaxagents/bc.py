"""Behavioural cloning (Pomerleau, 1989, "ALVINN: an autonomous land vehicle in a neural network")."""

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import SequencesConfig
from jaxagents.agents.offline import OfflineBase
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.core.numbers import share
from jaxagents.learners.batches import weighted_mean
from jaxagents.learners.config import Example, LearnerConfig
from jaxagents.learners.learner import Batch, Info, Learner
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalPolicy, Policy


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ImitationConfig(LearnerConfig):
    """Static configuration of learners that imitate the actions of a dataset.

    Attributes:
        dropout_rate: Dropout rate of the default policy during training. If it is positive, custom
            encoders and policies are called with `train=True` during training.
    """

    critic_network: ClassVar[None] = None
    dropout_rate: float = checked(0.0, share)

    def training(self, key: Key[Array, ""]) -> dict[str, Any]:
        """Keyword arguments of the policy during training."""
        return {"train": True, "rngs": {"dropout": key}} if self.dropout_rate else {}


def _floats(name: str, given: ArrayLike) -> float | tuple[float, ...]:
    numbers = np.asarray(given, float)
    return tuple(numbers.tolist()) if numbers.ndim else numbers.item()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BCConfig(ImitationConfig):
    """Static configuration of continuous behavioural cloning, inherited by the agent's configuration.

    Attributes:
        fixed_std: Standard deviation of each action component, if it is not learned. The loss is then
            the squared error, up to a factor and a constant.
    """

    fixed_std: float | tuple[float, ...] | None = checked(None, _floats)


class HyperParameters(Hyperparameters):
    """Traced hyperparameters of behavioural cloning.

    Attributes:
        actor_learning_rate: Learning rate of the policy.
    """

    actor_learning_rate: Traced = hyperparameter(3e-4, 0.0)


def gaussian_policy(
    config: ImitationConfig, action_dim: int, fixed_std: float | tuple[float, ...] | None = None
) -> Policy:
    """The default policy of learners that imitate continuous actions.

    Args:
        config: Configuration of the learner.
        action_dim: Number of action components.
        fixed_std: Standard deviation of each component, if it is not learned.

    Returns:
        A Gaussian policy with a tanh-squashed mean and a state-independent standard deviation.
    """
    return Policy(
        features=config.features,
        dropout_rate=config.dropout_rate,
        action_dim=action_dim,
        squash="mean",
        state_dependent_std=False,
        fixed_std=fixed_std,
        log_std_min=-5.0,
    )


def imitate(
    actor: TrainState,
    batch: Batch,
    advantage: Float[Array, "batch"],
    beta: Traced,
    max_weight: Traced,
    training: dict[str, Any],
) -> tuple[TrainState, Info]:
    """Imitates the batch's actions, weighted by the exponential of their advantages.

    Args:
        actor: The policy.
        batch: Observations and actions; its `weights`, if it has any, multiply the others.
        advantage: Advantage of each action.
        beta: Inverse temperature of the weights.
        max_weight: Maximum weight.
        training: Keyword arguments of the policy during training.

    Returns:
        The policy after a gradient step, and metrics.
    """
    weights = ops.advantage_weights(advantage, beta, max_weight)

    def loss_fn(params: PyTree) -> tuple[Array, Info]:
        policy = actor(batch["observations"], params=params, **training)
        loss = -weighted_mean(weights * policy.log_prob(batch["actions"]), batch)
        return loss, {"actor_loss": loss, "advantage": advantage.mean()}

    return actor.apply_loss_fn(loss_fn=loss_fn, has_aux=True)


class BCLearner(Learner[BCConfig, HyperParameters]):
    """The behavioural cloning learner for continuous actions, by maximum likelihood.

    The policy is a Gaussian with a tanh-squashed mean and a state-independent standard deviation, which
    is learned unless `fixed_std` sets it.

    Attributes:
        actor: The policy.
    """

    actor: TrainState

    _config_type = BCConfig
    _hyperparams_type = HyperParameters
    batch_keys = ("observations", "actions")

    @classmethod
    def _initial(
        cls, config: BCConfig, hyperparams: HyperParameters, rng: Key[Array, ""], example: Example
    ) -> Self:
        rng, key = jax.random.split(rng)
        actor = cls._create_actor(config, hyperparams.actor_learning_rate, key, example)
        return cls(config=config, hyperparams=hyperparams, rng=rng, actor=actor)

    @classmethod
    def default_networks(cls, config: BCConfig, example: Example) -> dict[str, nn.Module]:
        """The default network for vectors; see `Learner`."""
        return {"actor_network": gaussian_policy(config, example.action_size, config.fixed_std)}

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        rng, key = jax.random.split(self.rng)

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            policy = self.actor(batch["observations"], params=params, **self.config.training(key))
            log_probs = policy.log_prob(batch["actions"])
            loss = -weighted_mean(log_probs, batch)
            info = {"actor_loss": loss, "log_likelihood": log_probs.mean()}
            return loss, {**info, **self._agreement(policy.mode(), batch["actions"])}

        actor, info = self.actor.apply_loss_fn(loss_fn=loss_fn, has_aux=True)
        return self.replace(rng=rng, actor=actor), info

    def _policy(self, observations: PyTree, temperature: ArrayLike) -> ops.Distribution:
        return self.actor(observations, temperature=temperature)

    @staticmethod
    def _agreement(modes: Array, actions: Array) -> Info:
        return {"mse": jnp.square(modes - actions).mean()}


class DiscreteBCLearner(BCLearner):
    """The behavioural cloning learner for discrete actions, with the cross-entropy loss.

    Attributes:
        actor: The policy.
    """

    config: ImitationConfig = struct.field(pytree_node=False)

    _config_type = ImitationConfig
    discrete_actions = True

    @classmethod
    def default_networks(cls, config: ImitationConfig, example: Example) -> dict[str, nn.Module]:
        """The default network for vectors; see `Learner`."""
        actor = CategoricalPolicy(
            features=config.features,
            dropout_rate=config.dropout_rate,
            n_actions=example.action_size,
        )
        return {"actor_network": actor}

    @staticmethod
    def _agreement(modes: Array, actions: Array) -> Info:
        return {"accuracy": (modes == actions).mean()}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(SequencesConfig, BCConfig):
    """Static configuration of the agent: its learner's fields, and the training settings."""


class BC(OfflineBase[AgentConfig, HyperParameters]):
    """Behavioural cloning for discrete and continuous actions, with a dataset on the device.

    ```python
    agent = BC(env, env_params, AgentConfig(n_steps=20_000), dataset=dataset)
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = BCLearner
    _discrete_learner = DiscreteBCLearner
