"""Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""

import dataclasses
from typing import Self

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OffPolicyConfig
from jaxagents.agents.off_policy import OffPolicyBase, ReplayHyperparameters
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.numbers import positive
from jaxagents.learners.actor_critic import (
    ActorCriticConfig,
    ActorCriticHyperparameters,
    ActorCriticLearner,
)
from jaxagents.learners.config import Example
from jaxagents.learners.learner import Batch, Info
from jaxagents.learners.train_state import TrainState, check_mean_loss, target_update
from jaxagents.networks import Policy


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TD3Config(ActorCriticConfig):
    """Static configuration of TD3's learner, inherited by the agent's configuration.

    Attributes:
        actor_network: Module that maps observations and a temperature to a distribution of actions; its
            mode is the learned policy. `None` uses the default network.
        n_critics: Number of critics (2 in the paper); targets use the minimum over their target
            networks.
        policy_delay: Number of critic updates per update of the policy and the target networks.
    """

    policy_delay: int = checked(2, positive)


class TD3Hyperparameters(ActorCriticHyperparameters):
    """Traced hyperparameters of TD3. The defaults are from the authors' code.

    Noise is in units of half the action range.

    Attributes:
        gamma: Discount.
        tau: Soft-update coefficient of the target networks.
        target_noise: Standard deviation of the noise on target actions.
        target_noise_clip: Maximum absolute noise on target actions.
        exploration_noise: Standard deviation of the noise on sampled actions, at temperature 1.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
    """

    target_noise: Traced = hyperparameter(0.2, 0.0)
    target_noise_clip: Traced = hyperparameter(0.5, 0.0, infinite=True)
    exploration_noise: Traced = hyperparameter(0.1, 0.0)


class TD3Learner(ActorCriticLearner[TD3Config, TD3Hyperparameters]):
    """TD3's learner: a deterministic policy for continuous actions.

    Fujimoto et al., 2018, "Addressing function approximation error in actor-critic methods", algorithm
    1. An update trains the critics; every `policy_delay`-th update then trains the policy with the new
    critics and updates the target networks.

    Attributes:
        actor: The policy; its actions are the modes of its distributions.
        target_actor: The target network of the policy.
        critic: The critics.
        target_critic: The target networks of the critics.
    """

    target_actor: TrainState

    _with_targets = ("actor", "critic")
    hooks = ("_targets", "_actor_loss", "_update_critic", "_update_actor")
    _config_type = TD3Config
    _hyperparams_type = TD3Hyperparameters

    @classmethod
    def default_networks(cls, config: TD3Config, example: Example) -> dict[str, nn.Module]:
        """The default networks for vector observations; see `Learner`."""
        actor = Policy(
            features=config.features, action_dim=example.action_size, squash="mean", fixed_std=1.0
        )
        return {**super().default_networks(config, example), "actor_network": actor}

    def _policy(self, observations: PyTree, temperature: ArrayLike) -> ops.Distribution:
        noise = temperature * self.hyperparams.exploration_noise
        return self.actor(observations, temperature=noise)

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        rng, key = jax.random.split(self.rng)
        critic, critic_info = self._update_critic(key, batch)
        networks, actor_info = jax.lax.cond(
            critic.step % self.config.policy_delay == 0,
            lambda: self._update_actor(critic, batch),
            lambda: self._skip_actor(critic, batch),
        )
        return self.replace(rng=rng, critic=critic, **networks), {**critic_info, **actor_info}

    def _update_critic(self, key: Key[Array, ""], batch: Batch) -> tuple[TrainState, Info]:
        return self._fit_critics(self._targets(key, batch), batch)

    def _targets(self, key: Key[Array, ""], batch: Batch) -> Float[Array, "batch"]:
        next_actions = self._add_noise(key, self.target_actor(batch["next_observations"]).mode())
        values = self.target_critic(batch["next_observations"], next_actions).min(axis=0)
        return ops.td_target(batch["rewards"], self.discounts(batch), batch["masks"], values)

    def _add_noise(
        self, key: Key[Array, ""], actions: Float[Array, "batch action"]
    ) -> Float[Array, "batch action"]:
        """Adds noise to target actions, so that similar actions get similar values."""
        clip = self.hyperparams.target_noise_clip
        noise = self.hyperparams.target_noise * jax.random.normal(key, actions.shape, actions.dtype)
        return jnp.clip(actions + jnp.clip(noise, -clip, clip), -1.0, 1.0)

    def _update_actor(self, critic: TrainState, batch: Batch) -> tuple[dict[str, TrainState], Info]:
        """Updates the policy and the target networks with the new critics."""

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            output = self._actor_loss(params, critic, batch)
            check_mean_loss(f"{type(self).__name__}._actor_loss", output)
            return output

        actor, info = self.actor.apply_loss_fn(loss_fn=loss_fn, has_aux=True)
        tau = self.hyperparams.tau
        networks = {
            "actor": actor,
            "target_actor": target_update(actor, self.target_actor, tau),
            "target_critic": target_update(critic, self.target_critic, tau),
        }
        return networks, info

    def _skip_actor(self, critic: TrainState, batch: Batch) -> tuple[dict[str, TrainState], Info]:
        """Leaves the policy and the target networks unchanged, and computes the metrics."""
        networks = {
            "actor": self.actor,
            "target_actor": self.target_actor,
            "target_critic": self.target_critic,
        }
        return networks, self._actor_loss(self.actor.params, critic, batch)[1]

    def _actor_loss(
        self, params: PyTree, critic: TrainState, batch: Batch
    ) -> tuple[Float[Array, ""], Info]:
        """The negative mean of the values that the first critic assigns to the policy's actions."""
        actions = self.actor(batch["observations"], params=params).mode()
        loss = -critic(batch["observations"], actions)[0].mean()
        return loss, {"actor_loss": loss}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OffPolicyConfig, TD3Config):
    """Static configuration of the agent: its learner's fields, and the training settings."""


class HyperParameters(TD3Hyperparameters, ReplayHyperparameters):
    """Traced hyperparameters of the agent.

    Extends the hyperparameters of [TD3][jaxagents.td3.TD3Hyperparameters] and
    [prioritised replay][jaxagents.agents.off_policy.ReplayHyperparameters].
    """


class TD3(OffPolicyBase[AgentConfig, HyperParameters]):
    """TD3 for continuous actions, with a replay buffer on the device.

    ```python
    env, env_params = gymnax.make("Pendulum-v1")
    agent = TD3(env, env_params, AgentConfig(n_steps=20_000, batch_size=1))
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = TD3Learner
