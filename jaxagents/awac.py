"""Advantage-weighted actor-critic (Nair et al., 2020)."""

import dataclasses
from typing import Self

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OfflineAgentConfig
from jaxagents.agents.offline import OfflineBase
from jaxagents.bc import ImitationConfig, gaussian_policy, imitate
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.learners.actor_critic import (
    ActorCriticConfig,
    ActorCriticHyperparameters,
    ActorCriticLearner,
)
from jaxagents.learners.config import Example
from jaxagents.learners.learner import Batch, Info
from jaxagents.learners.train_state import TrainState, target_update


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AWACConfig(ActorCriticConfig, ImitationConfig):
    """Static configuration of AWAC's learner, inherited by the agent's configuration.

    Attributes:
        critic_network: Module that replaces the default critics; it takes observations and actions.
    """

    critic_network: nn.Module | None = None


class HyperParameters(ActorCriticHyperparameters):
    """Traced hyperparameters of AWAC.

    Attributes:
        gamma: Discount.
        tau: Soft-update coefficient of the target critics.
        beta: Inverse temperature of the action weights (1 / lambda in the paper); 0 imitates all actions
            equally.
        max_weight: Maximum action weight.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
    """

    beta: Traced = hyperparameter(1.0, 0.0)
    max_weight: Traced = hyperparameter(100.0, 0.0, infinite=True)


class AWACLearner(ActorCriticLearner[AWACConfig, HyperParameters]):
    """AWAC's learner for continuous actions, offline and online.

    Nair et al., 2020, "AWAC: Accelerating online reinforcement learning with offline datasets",
    algorithm 1. An update trains the critics, then the policy with the new critics, and then updates
    the target networks.

    Attributes:
        actor: The policy.
        critic: The critics.
        target_critic: The target networks of the critics.
    """

    hooks = ("_targets", "_advantage", "_update_critic", "_update_actor")
    _config_type = AWACConfig
    _hyperparams_type = HyperParameters

    @classmethod
    def default_networks(cls, config: AWACConfig, example: Example) -> dict[str, nn.Module]:
        """The default networks for vector observations; see `Learner`."""
        actor = gaussian_policy(config, example.action_size)
        return {**super().default_networks(config, example), "actor_network": actor}

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        rng, next_key, own_key, dropout_key = jax.random.split(self.rng, 4)
        critic, critic_info = self._update_critic(next_key, batch)
        advantage = self._advantage(own_key, critic, batch)
        actor, actor_info = self._update_actor(dropout_key, advantage, batch)
        learner = self.replace(
            rng=rng,
            actor=actor,
            critic=critic,
            target_critic=target_update(critic, self.target_critic, self.hyperparams.tau),
        )
        return learner, {**critic_info, **actor_info}

    def _drawn(self, key: Key[Array, ""], observations: PyTree) -> Float[Array, "batch action"]:
        """Samples actions from the policy."""
        return jnp.clip(self.actor(observations).sample(key), -1.0, 1.0)

    def _update_critic(self, key: Key[Array, ""], batch: Batch) -> tuple[TrainState, Info]:
        return self._fit_critics(self._targets(key, batch), batch)

    def _targets(self, key: Key[Array, ""], batch: Batch) -> Float[Array, "batch"]:
        obs = batch["next_observations"]
        values = self.target_critic(obs, self._drawn(key, obs)).min(axis=0)
        return ops.td_target(batch["rewards"], self.discounts(batch), batch["masks"], values)

    def _advantage(
        self, key: Key[Array, ""], critic: TrainState, batch: Batch
    ) -> Float[Array, "batch"]:
        """The value of the dataset's action minus the value of an action sampled from the policy."""
        obs = batch["observations"]
        own = critic(obs, self._drawn(key, obs)).min(axis=0)
        return critic(obs, batch["actions"]).min(axis=0) - own

    def _update_actor(
        self, key: Key[Array, ""], advantage: Float[Array, "batch"], batch: Batch
    ) -> tuple[TrainState, Info]:
        """Imitates actions, weighted by the exponential of their advantages."""
        hp, training = self.hyperparams, self.config.training(key)
        return imitate(self.actor, batch, advantage, hp.beta, hp.max_weight, training)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OfflineAgentConfig, AWACConfig):
    """Static configuration of the agent: its learner's fields, and the training settings."""


class AWAC(OfflineBase[AgentConfig, HyperParameters]):
    """Advantage-weighted actor-critic for continuous actions, with a dataset on the device.

    ```python
    agent = AWAC(env, env_params, AgentConfig(n_steps=20_000), dataset=dataset)
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = AWACLearner
