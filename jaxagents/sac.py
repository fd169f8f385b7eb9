"""Soft actor-critic (Haarnoja et al., 2018, "Soft actor-critic algorithms and applications")."""

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key

from jaxagents import ops
from jaxagents.core.actor_critic import ActorCriticLearner
from jaxagents.core.learner import Batch, Info, LearnerConfig
from jaxagents.core.optimizer import optimized
from jaxagents.core.train_state import TrainState, target_update
from jaxagents.core.types import Hyperparameters, Traced, hyperparameter
from jaxagents.networks import Policy
from jaxagents.networks.initialisation import initialise


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SACConfig(LearnerConfig):
    """What the compiled program of SAC depends on.

    Attributes:
        n_critics: Number of critics, of whose values the smallest is taken (2 in the paper).
        backup_entropy: Whether targets include the entropy of the next action (they do in the paper).
    """

    n_critics: int = 2
    backup_entropy: bool = True

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("n_critics")


class SACHyperparameters(Hyperparameters):
    """Traced hyperparameters of SAC. The defaults are those of the paper.

    Attributes:
        gamma: Discount.
        tau: Step size of the target critics.
        target_entropy: Entropy to which the temperature steers the policy, in nats; `None` is minus
            the number of the action's components.
        initial_temperature: Weight of the entropy before the first update.
        actor_learning_rate: Step size of the policy.
        critic_learning_rate: Step size of the critics.
        temperature_learning_rate: Step size of the temperature; 0 keeps it fixed.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    tau: Traced = hyperparameter(0.005, 0.0, 1.0)
    target_entropy: Traced = None
    initial_temperature: Traced = hyperparameter(1.0, 1e-8)
    actor_learning_rate: Traced = hyperparameter(3e-4, 0.0)
    critic_learning_rate: Traced = hyperparameter(3e-4, 0.0)
    temperature_learning_rate: Traced = hyperparameter(3e-4, 0.0)


class Temperature(nn.Module):
    r"""The weight of the entropy, $\alpha = \exp(\theta)$."""

    @nn.compact
    def __call__(self, initial: Traced = 1.0) -> Float[Array, ""]:
        """The temperature."""
        return jnp.exp(self.param("log_temperature", lambda _: jnp.log(initial)))


class SACLearner(ActorCriticLearner):
    """Soft actor-critic for continuous actions, with a learned temperature.

    Haarnoja et al., 2018, "Soft actor-critic algorithms and applications", algorithm 1: an update moves
    the critics, then the policy and the temperature by the new critics, then the targets.

    Attributes:
        actor: The policy.
        critic: The critics.
        target_critic: Their slowly moving copies.
        temperature: The weight of the entropy.
    """

    temperature: TrainState

    _config_type = SACConfig
    _hyperparams_type = SACHyperparameters

    @classmethod
    def _initial(
        cls,
        config: SACConfig,
        hyperparams: SACHyperparameters,
        rng: Key[Array, ""],
        observations: Any,
        actions: Any,
    ) -> Self:
        rng, actor_key, critic_key, temperature_key = jax.random.split(rng, 4)
        action_dim = actions.shape[-1]
        if hyperparams.target_entropy is None:
            hyperparams = hyperparams.replace(target_entropy=-float(action_dim))
        actor = config.encoded(
            config.actor_network or Policy(features=config.features, action_dim=action_dim)
        )
        critic, target_critic = cls._critics(config, hyperparams, critic_key, observations, actions)
        return cls(
            config=config,
            hyperparams=hyperparams,
            rng=rng,
            actor=optimized(
                actor,
                initialise(actor, actor_key, observations),
                config.optimizer,
                hyperparams.actor_learning_rate,
            ),
            critic=critic,
            target_critic=target_critic,
            temperature=optimized(
                Temperature(),
                initialise(Temperature(), temperature_key, hyperparams.initial_temperature),
                config.optimizer,
                hyperparams.temperature_learning_rate,
            ),
        )

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        rng, critic_key, actor_key = jax.random.split(self.rng, 3)
        critic, critic_info = self._update_critic(critic_key, batch)
        actor, actor_info = self._update_actor(actor_key, critic, batch)
        temperature, temperature_info = self._update_temperature(actor_info["entropy"])
        learner = self.replace(
            rng=rng,
            actor=actor,
            critic=critic,
            target_critic=target_update(critic, self.target_critic, self.hyperparams.tau),
            temperature=temperature,
        )
        return learner, {**critic_info, **actor_info, **temperature_info}

    def _update_critic(self, key: Key[Array, ""], batch: Batch) -> tuple[TrainState, Info]:
        targets = self._targets(key, batch)

        def loss_fn(params: Any) -> tuple[Array, Info]:
            values = self.critic(batch["observations"], batch["actions"], params=params)
            return self._critic_loss(values, targets)

        return self.critic.apply_loss_fn(loss_fn=loss_fn, has_aux=True)

    @staticmethod
    def _critic_loss(
        values: Float[Array, "critics batch"], targets: Float[Array, "batch"]
    ) -> tuple[Float[Array, ""], Info]:
        """Equation 5, for each critic."""
        loss = 0.5 * jnp.square(values - targets).mean(axis=-1).sum()
        return loss, {"critic_loss": loss, "q": values.mean()}

    def _targets(self, key: Key[Array, ""], batch: Batch) -> Float[Array, "batch"]:
        policy = self.actor(batch["next_observations"])
        next_actions, log_prob = policy.sample_and_log_prob(key)
        values = self.target_critic(batch["next_observations"], next_actions).min(axis=0)
        if self.config.backup_entropy:
            values = ops.soft_value(values, log_prob, self.temperature())
        return ops.td_target(batch["rewards"], self._discounts(batch), batch["masks"], values)

    def _update_actor(
        self, key: Key[Array, ""], critic: TrainState, batch: Batch
    ) -> tuple[TrainState, Info]:
        temperature = self.temperature()

        def loss_fn(params: Any) -> tuple[Array, Info]:
            policy = self.actor(batch["observations"], params=params)
            actions, log_prob = policy.sample_and_log_prob(key)
            values = critic(batch["observations"], actions).min(axis=0)
            loss = -ops.soft_value(values, log_prob, temperature).mean()
            return loss, {"actor_loss": loss, "entropy": -log_prob.mean()}

        return self.actor.apply_loss_fn(loss_fn=loss_fn, has_aux=True)

    def _update_temperature(self, entropy: Float[Array, ""]) -> tuple[TrainState, Info]:
        r"""Equation 18: $J(\alpha) = \alpha \, (H(\pi) - \bar H)$."""
        slack = entropy - self.hyperparams.target_entropy
        temperature, loss = dual_step(self.temperature, slack)
        return temperature, {"temperature_loss": loss, "temperature": self.temperature()}


def dual_step(
    multiplier: TrainState, slack: Float[Array, ""]
) -> tuple[TrainState, Float[Array, ""]]:
    """A step down the product of a multiplier and the slack of its constraint.

    Args:
        multiplier: The multiplier, which falls while there is slack.
        slack: By how much the constraint is more than satisfied; negative where it is violated.

    Returns:
        The multiplier after the step, and the product before it.
    """
    return multiplier.apply_loss_fn(loss_fn=lambda params: multiplier(params=params) * slack)
