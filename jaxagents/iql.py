"""Implicit Q-learning (Kostrikov et al., 2021)."""

import dataclasses
from collections.abc import Callable
from typing import Self

import jax
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OfflineAgentConfig
from jaxagents.agents.offline import OfflineBase
from jaxagents.bc import ImitationConfig, gaussian_policy, imitate
from jaxagents.core.config import checked, optimizer_function
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.learners.actor_critic import (
    ActorCriticConfig,
    ActorCriticHyperparameters,
    ActorCriticLearner,
)
from jaxagents.learners.batches import weighted_mean
from jaxagents.learners.config import Example, flax_module
from jaxagents.learners.learner import Batch, Info, create_network
from jaxagents.learners.train_state import TrainState, target_update
from jaxagents.networks import ValueCritic


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IQLConfig(ActorCriticConfig, ImitationConfig):
    """Static configuration of IQL's learner, inherited by the agent's configuration.

    Attributes:
        n_critics: Number of critics (2 in the paper); their minimum is used.
        value_network: Module that replaces the default value function.
        actor_optimizer: Like `optimizer`, but for the policy only; the paper uses a cosine schedule.
    """

    critic_network: nn.Module | None = None
    value_network: nn.Module | None = checked(None, flax_module)
    actor_optimizer: Callable[..., optax.GradientTransformation] | None = checked(
        None, optimizer_function
    )


class HyperParameters(ActorCriticHyperparameters):
    """Traced hyperparameters of IQL. The defaults are the paper's for the MuJoCo tasks.

    Attributes:
        gamma: Discount.
        tau: Soft-update coefficient of the target critics.
        expectile: Expectile of the action values that the value function estimates.
        beta: Inverse temperature of the action weights; 0 imitates all actions equally.
        max_weight: Maximum action weight.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        value_learning_rate: Learning rate of the value function.
    """

    expectile: Traced = hyperparameter(0.7, 0.0, 1.0)
    beta: Traced = hyperparameter(3.0, 0.0)
    max_weight: Traced = hyperparameter(100.0, 0.0, infinite=True)
    value_learning_rate: Traced = hyperparameter(3e-4, 0.0)


class IQLLearner(ActorCriticLearner[IQLConfig, HyperParameters]):
    """IQL's learner for continuous actions; it only ever evaluates actions from the dataset.

    Kostrikov et al., 2021, "Offline reinforcement learning with implicit Q-learning", algorithm 1. As in
    the authors' code, an update trains the value function with the target critics, the policy with the
    target critics and the new value function, and the critics with the new value function; then it
    updates the target networks.

    Attributes:
        actor: The policy.
        critic: The critics.
        target_critic: The target networks of the critics.
        value: The value function.
    """

    value: TrainState

    hooks = ("_targets", "_update_value", "_update_actor", "_update_critic")
    _config_type = IQLConfig
    _hyperparams_type = HyperParameters

    @classmethod
    def _further_networks(
        cls,
        config: IQLConfig,
        hyperparams: HyperParameters,
        key: Key[Array, ""],
        example: Example,
    ) -> dict[str, TrainState]:
        obs, rate = example.observations, hyperparams.value_learning_rate
        value = config.value_network or cls.default_networks(config, example)["value_network"]
        value = config.critic_of(value, obs, "value")
        return {"value": create_network(value, config.optimizer, rate, key, obs)}

    @classmethod
    def default_networks(cls, config: IQLConfig, example: Example) -> dict[str, nn.Module]:
        """The default networks for vector observations; see `Learner`."""
        return {
            **super().default_networks(config, example),
            "actor_network": gaussian_policy(config, example.action_size),
            "value_network": ValueCritic(config.features),
        }

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        rng, key = jax.random.split(self.rng)
        q = self.target_critic(batch["observations"], batch["actions"]).min(axis=0)
        value, value_info = self._update_value(q, batch)
        advantage = q - value(batch["observations"])
        actor, actor_info = self._update_actor(key, advantage, batch)
        critic, critic_info = self._update_critic(value, batch)
        learner = self.replace(
            rng=rng,
            actor=actor,
            critic=critic,
            target_critic=target_update(critic, self.target_critic, self.hyperparams.tau),
            value=value,
        )
        return learner, {**value_info, **actor_info, **critic_info}

    def _update_value(self, q: Float[Array, "batch"], batch: Batch) -> tuple[TrainState, Info]:
        """Trains the value function (equation 5)."""

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            values = self.value(batch["observations"], params=params)
            losses = ops.expectile_loss(values, q, self.hyperparams.expectile)
            loss = weighted_mean(losses, batch)
            return loss, {"value_loss": loss, "v": values.mean()}

        return self.value.apply_loss_fn(loss_fn=loss_fn, has_aux=True)

    def _update_actor(
        self, key: Key[Array, ""], advantage: Float[Array, "batch"], batch: Batch
    ) -> tuple[TrainState, Info]:
        """Trains the policy (equation 7)."""
        hp, training = self.hyperparams, self.config.training(key)
        return imitate(self.actor, batch, advantage, hp.beta, hp.max_weight, training)

    def _update_critic(self, value: TrainState, batch: Batch) -> tuple[TrainState, Info]:
        """Trains the critics (equation 6)."""
        return self._fit_critics(self._targets(value, batch), batch)

    def _targets(self, value: TrainState, batch: Batch) -> Float[Array, "batch"]:
        values, rewards = value(batch["next_observations"]), batch["rewards"]
        return ops.td_target(rewards, self.discounts(batch), batch["masks"], values)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OfflineAgentConfig, IQLConfig):
    """Static configuration of the agent: its learner's fields, and the training settings."""


class IQL(OfflineBase[AgentConfig, HyperParameters]):
    """Implicit Q-learning for continuous actions, with a dataset on the device.

    ```python
    agent = IQL(env, env_params, AgentConfig(n_steps=20_000), dataset=dataset)
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = IQLLearner
