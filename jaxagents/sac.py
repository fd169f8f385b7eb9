"""Soft actor-critic (Haarnoja et al., 2018), for continuous and discrete actions."""

import dataclasses
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OffPolicyConfig
from jaxagents.agents.off_policy import OffPolicyBase, ReplayHyperparameters
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.numbers import positive, share
from jaxagents.learners.actor_critic import (
    ActorCriticConfig,
    ActorCriticHyperparameters,
    ActorCriticLearner,
    squared_error,
)
from jaxagents.learners.config import Example
from jaxagents.learners.learner import Batch, Info, create_network
from jaxagents.learners.train_state import TrainState, target_update
from jaxagents.networks import CategoricalPolicy, Critic, DiscreteCritic, Policy, ensemblize


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SACConfig(ActorCriticConfig):
    """Static configuration of SAC's learners, inherited by the agent's configuration.

    Attributes:
        n_critics: Number of critics (2 in the paper); their minimum is used.
        backup_entropy: Whether targets include the entropy of the next action (they do in the paper).
        n_target_critics: Number of critics, chosen at random in each update, whose minimum is used for
            the targets; the policy then uses the mean of all critics. `None` uses the minimum of all
            critics for both.
        critic_layer_norm: Whether the default critics use layer normalisation.
        critic_dropout_rate: Dropout rate of the default critics in updates. If it is positive, updates
            call custom encoders and critics with `train=True`.
    """

    backup_entropy: bool = True
    n_target_critics: int | None = checked(None, positive)
    critic_layer_norm: bool = False
    critic_dropout_rate: float = checked(0.0, share)

    def in_update(self, key: Key[Array, ""], number: int) -> dict[str, Any]:
        """Keyword arguments of the critics during an update.

        Args:
            key: Random key, shared with other draws.
            number: A number unique to this draw.

        Returns:
            The arguments; empty without dropout.
        """
        if not self.critic_dropout_rate:
            return {}
        return {"train": True, "rngs": {"dropout": jax.random.fold_in(key, number)}}


class SACHyperparameters(ActorCriticHyperparameters):
    """Traced hyperparameters of SAC. The defaults are from the paper.

    Attributes:
        gamma: Discount.
        tau: Soft-update coefficient of the target critics.
        target_entropy: Target entropy for tuning the temperature, in nats. `None` means
            minus the number of action components; for discrete actions, 0.98 times the maximum entropy.
        initial_temperature: Initial temperature, the weight of the entropy.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        temperature_learning_rate: Learning rate of the temperature; 0 keeps it fixed.
    """

    target_entropy: Traced = None
    initial_temperature: Traced = hyperparameter(1.0, 1e-8, constant=True)
    temperature_learning_rate: Traced = hyperparameter(3e-4, 0.0)


SACHyperparametersT = TypeVar("SACHyperparametersT", bound=SACHyperparameters)


class Temperature(nn.Module):
    r"""The weight of the entropy, $\alpha = \exp(\theta)$."""

    @nn.compact
    def __call__(self, initial: Traced = 1.0) -> Float[Array, ""]:
        """Returns the temperature."""
        return jnp.exp(self.param("log_temperature", lambda _: jnp.log(initial)))


class SACLearner(ActorCriticLearner[SACConfig, SACHyperparameters]):
    """SAC's learner for continuous actions, with a learned temperature.

    Haarnoja et al., 2018, "Soft actor-critic algorithms and applications", algorithm 1. An update trains
    the critics, then the policy and the temperature with the new critics, and then updates the target
    networks.

    Attributes:
        actor: The policy.
        critic: The critics.
        target_critic: The target networks of the critics.
        temperature: The weight of the entropy.
    """

    temperature: TrainState

    hooks = ("_targets", "_critic_loss", "_update_critic", "_update_actor", "_update_temperature")
    _config_type = SACConfig
    _hyperparams_type = SACHyperparameters

    @classmethod
    def _with_defaults(
        cls, hyperparams: SACHyperparametersT, example: Example
    ) -> SACHyperparametersT:
        if hyperparams.target_entropy is not None:
            return hyperparams
        return hyperparams.replace(target_entropy=jnp.float32(cls._default_target_entropy(example)))

    @classmethod
    def _further_networks(
        cls,
        config: SACConfig,
        hyperparams: SACHyperparameters,
        key: Key[Array, ""],
        example: Example,
    ) -> dict[str, TrainState]:
        initial, rate = hyperparams.initial_temperature, hyperparams.temperature_learning_rate
        return {"temperature": create_network(Temperature(), config.optimizer, rate, key, initial)}

    def _check_networks(self, example: Example) -> None:
        super()._check_networks(example)
        inputs = self._critic_inputs(example.observations, example.actions)
        values = jax.eval_shape(TrainState.__call__, self.critic, *inputs)
        n_chosen = self.config.n_target_critics
        if n_chosen is not None and n_chosen > len(values):
            raise ValueError(
                f"{type(self.config).__name__}.n_target_critics must not exceed the number of critics "
                f"({len(values)}), got {n_chosen}."
            )

    @classmethod
    def default_networks(cls, config: SACConfig, example: Example) -> dict[str, nn.Module]:
        """The default networks for vector observations; see `Learner`."""
        critics = ensemblize(Critic, config.n_critics)(
            features=config.features,
            layer_norm=config.critic_layer_norm,
            dropout_rate=config.critic_dropout_rate,
        )
        actor = Policy(features=config.features, action_dim=example.action_size)
        return {"actor_network": actor, "critic_network": critics}

    @staticmethod
    def _default_target_entropy(example: Example) -> float:
        return -float(example.action_size)

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
        targets, kwargs = self._targets(key, batch), self.config.in_update(key, 1)
        return self._fit_critics(targets, batch, **kwargs)

    def _for_target(
        self, key: Key[Array, ""], values: Float[Array, "critics *batch"]
    ) -> Float[Array, "*batch"]:
        """Combines the critics' values for a target."""
        n_critics = self.config.n_target_critics
        if n_critics is not None:
            chosen = jax.random.fold_in(key, 3)
            values = jax.random.choice(chosen, values, (n_critics,), replace=False)
        return values.min(axis=0)

    def _for_policy(self, values: Float[Array, "critics *batch"]) -> Float[Array, "*batch"]:
        """Combines the critics' values for the loss of the policy."""
        return values.min(axis=0) if self.config.n_target_critics is None else values.mean(axis=0)

    @staticmethod
    def _critic_loss(
        values: Float[Array, "critics batch"],
        targets: Float[Array, "batch"],
        batch: Batch | None = None,
    ) -> tuple[Float[Array, ""], Info]:
        """The critics' loss (equation 5)."""
        error, info = squared_error(values, targets, {} if batch is None else batch)
        loss = 0.5 * error
        return loss, {"critic_loss": loss, **info}

    def _targets(self, key: Key[Array, ""], batch: Batch) -> Float[Array, "batch"]:
        policy = self.actor(batch["next_observations"])
        next_actions, log_prob = policy.sample_and_log_prob(key)
        values = self.target_critic(
            batch["next_observations"], next_actions, **self.config.in_update(key, 2)
        )
        values = self._for_target(key, values)
        if self.config.backup_entropy:
            values = ops.soft_value(values, log_prob, self.temperature())
        return ops.td_target(batch["rewards"], self.discounts(batch), batch["masks"], values)

    def _update_actor(
        self, key: Key[Array, ""], critic: TrainState, batch: Batch
    ) -> tuple[TrainState, Info]:
        temperature, kwargs = self.temperature(), self.config.in_update(key, 1)

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            policy = self.actor(batch["observations"], params=params)
            actions, log_prob = policy.sample_and_log_prob(key)
            values = self._for_policy(critic(batch["observations"], actions, **kwargs))
            loss = -ops.soft_value(values, log_prob, temperature).mean()
            return loss, {"actor_loss": loss, "entropy": -log_prob.mean()}

        return self.actor.apply_loss_fn(loss_fn=loss_fn, has_aux=True)

    def _update_temperature(self, entropy: Float[Array, ""]) -> tuple[TrainState, Info]:
        r"""Trains the temperature on $J(\alpha) = \alpha \, (H(\pi) - \bar H)$ (equation 18)."""
        slack = entropy - self.hyperparams.target_entropy
        temperature, loss = dual_step(self.temperature, slack)
        return temperature, {"temperature_loss": loss, "temperature": self.temperature()}


def dual_step(
    multiplier: TrainState, slack: Float[Array, ""]
) -> tuple[TrainState, Float[Array, ""]]:
    """Takes a gradient step on a Lagrange multiplier.

    Args:
        multiplier: The multiplier, which decreases while there is slack.
        slack: The slack of the constraint; negative if it is violated.

    Returns:
        The multiplier after the step, and the loss, multiplier times slack, before it.
    """
    return multiplier.apply_loss_fn(loss_fn=lambda params: multiplier(params=params) * slack)


class DiscreteSACLearner(SACLearner):
    """SAC's learner for discrete actions, with a learned temperature.

    Christodoulou, 2019, "Soft actor-critic for discrete action settings", equations 10 to 12. The
    critics output the values of all actions, so expectations over the policy are exact rather than
    sampled. It updates its networks in the same order as [`SACLearner`][jaxagents.sac.SACLearner], with
    the same [hyperparameters][jaxagents.sac.SACHyperparameters].

    Attributes:
        actor: The policy, which returns an [`ops.Categorical`][jaxagents.ops.Categorical].
        critic: The critics.
        target_critic: The target networks of the critics.
        temperature: The weight of the entropy.
    """

    discrete_actions = True

    @classmethod
    def default_networks(cls, config: SACConfig, example: Example) -> dict[str, nn.Module]:
        """The default networks for vector observations; see `Learner`."""
        critics = ensemblize(DiscreteCritic, config.n_critics)(
            features=config.features,
            layer_norm=config.critic_layer_norm,
            dropout_rate=config.critic_dropout_rate,
            n_actions=example.action_size,
        )
        actor = CategoricalPolicy(features=config.features, n_actions=example.action_size)
        return {"actor_network": actor, "critic_network": critics}

    @staticmethod
    def _default_target_entropy(example: Example) -> float:
        return 0.98 * float(np.log(example.action_size))

    @staticmethod
    def _critic_inputs(observations: PyTree, actions: ArrayLike) -> tuple[PyTree, ...]:
        return (observations,)

    def _values(self, params: PyTree, batch: Batch, **kwargs: Any) -> Float[Array, "critics batch"]:
        values = self.critic(batch["observations"], params=params, **kwargs)
        return jax.vmap(ops.values_of, (0, None))(values, batch["actions"])

    def _targets(self, key: Key[Array, ""], batch: Batch) -> Float[Array, "batch"]:
        policy = self.actor(batch["next_observations"])
        kwargs = self.config.in_update(key, 2)
        values = self._for_target(key, self.target_critic(batch["next_observations"], **kwargs))
        temperature = self.temperature() if self.config.backup_entropy else 0.0
        next_values = expected_soft_value(policy, values, temperature)
        return ops.td_target(batch["rewards"], self.discounts(batch), batch["masks"], next_values)

    def _update_actor(
        self, key: Key[Array, ""], critic: TrainState, batch: Batch
    ) -> tuple[TrainState, Info]:
        """Trains the policy (equation 12)."""
        temperature = self.temperature()
        kwargs = self.config.in_update(key, 1)
        values = self._for_policy(critic(batch["observations"], **kwargs))

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            policy = self.actor(batch["observations"], params=params)
            loss = -expected_soft_value(policy, values, temperature).mean()
            return loss, {"actor_loss": loss, "entropy": policy.entropy().mean()}

        return self.actor.apply_loss_fn(loss_fn=loss_fn, has_aux=True)


def expected_soft_value(
    policy: ops.Categorical,
    values: Float[Array, "batch n_actions"],
    temperature: float | Float[Array, ""],
) -> Float[Array, "batch"]:
    r"""The entropy-regularised value of a policy over discrete actions.

    $$V(s) = \sum_a \pi(a | s) \left(Q(s, a) - \alpha \log \pi(a | s)\right)$$

    Christodoulou, 2019, "Soft actor-critic for discrete action settings", equation 10.

    Args:
        policy: The policy $\pi$.
        values: Values $Q$ of all actions.
        temperature: Weight of the entropy, $\alpha$.

    Returns:
        The value of each sample.
    """
    expected_values = (jax.nn.softmax(policy.logits) * values).sum(axis=-1)
    return ops.soft_value(expected_values, -policy.entropy(), temperature)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OffPolicyConfig, SACConfig):
    """Static configuration of the agent: its learner's fields, and the training settings."""


class HyperParameters(SACHyperparameters, ReplayHyperparameters):
    """Traced hyperparameters of the agent.

    Extends the hyperparameters of [SAC][jaxagents.sac.SACHyperparameters] and
    [prioritised replay][jaxagents.agents.off_policy.ReplayHyperparameters].
    """


class SAC(OffPolicyBase[AgentConfig, HyperParameters]):
    """SAC for discrete and continuous actions, with a replay buffer on the device.

    ```python
    env, env_params = gymnax.make("Pendulum-v1")
    agent = SAC(env, env_params, AgentConfig(n_steps=20_000, batch_size=1))
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = SACLearner
    _discrete_learner = DiscreteSACLearner
