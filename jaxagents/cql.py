"""Conservative Q-learning (Kumar et al., 2020), for continuous and for discrete actions."""

import dataclasses
import functools
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jaxagents import ops
from jaxagents.agents.config import LearnerAgentConfig
from jaxagents.agents.offline import OfflineBase
from jaxagents.core.arrays import is_traced
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.learners.batches import check_values_of_actions
from jaxagents.learners.learner import Batch, Info, Learner, LearnerConfig
from jaxagents.learners.optimizer import optimized
from jaxagents.learners.train_state import TrainState, target_update
from jaxagents.networks import DiscreteCritic
from jaxagents.networks.initialisation import initialise
from jaxagents.sac import SACConfig, SACHyperparameters, SACLearner, Temperature, dual_step


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CQLConfig(SACConfig):
    """What the compiled program of CQL depends on. The defaults are those of the authors' code.

    Attributes:
        features: Widths of the hidden layers of the default networks.
        backup_entropy: Whether targets include the entropy of the next action.
        n_action_samples: Number of actions that are drawn at each observation from each of the uniform
            distribution, the policy, and the policy at the next observation.
    """

    features: tuple[int, ...] = (256, 256, 256)
    backup_entropy: bool = False
    n_action_samples: int = 10

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("n_action_samples")


class CQLHyperparameters(SACHyperparameters):
    """Traced hyperparameters of CQL, beside those of [SAC][jaxagents.sac.SACHyperparameters].

    Attributes:
        actor_learning_rate: Step size of the policy.
        conservative_weight: Weight of the penalty; with a `target_action_gap`, before the first update.
        target_action_gap: Penalty at which the weight is left as it is; a larger one raises the weight,
            a smaller one lowers it (the Lagrange version). `None` keeps the weight fixed.
        weight_learning_rate: Step size of the weight, if there is a `target_action_gap`.
    """

    actor_learning_rate: Traced = hyperparameter(1e-4, 0.0)
    conservative_weight: Traced = hyperparameter(5.0, 0.0)
    target_action_gap: Traced = None
    weight_learning_rate: Traced = hyperparameter(3e-4, 0.0)

    def check_ranges(self, path: str = "") -> None:
        """Raises if a concrete value lies outside of its interval.

        Raises:
            ValueError: A value is out of its interval, or a weight that is learned is 0.
        """
        super().check_ranges(path)
        weight = self.conservative_weight
        is_learned = self.target_action_gap is not None
        if is_learned and not is_traced(weight) and np.any(np.asarray(weight) == 0.0):
            raise ValueError(
                f"{path}conservative_weight must be above 0 with a target_action_gap: it is learned as "
                "a logarithm."
            )


class CQLLearner(SACLearner):
    r"""Conservative Q-learning, CQL(H), for continuous actions.

    Kumar et al., 2020, "Conservative Q-learning for offline reinforcement learning", equation 4: soft
    actor-critic whose critics are also to give small values to all actions, and large ones to those of
    the data. It updates in the order of [`SACLearner`][jaxagents.sac.SACLearner], and then the weight
    of the penalty.

    Attributes:
        weight: The weight of the penalty, if it is learned.
    """

    weight: TrainState | None = None

    _config_type = CQLConfig
    _hyperparams_type = CQLHyperparameters

    @classmethod
    def _initial(cls, config: Any, hyperparams: Any, rng: Any, *examples: Any) -> Self:
        learner = super()._initial(config, hyperparams, rng, *examples)
        if hyperparams.target_action_gap is None:
            return learner
        weight = optimized(
            Temperature(),
            initialise(Temperature(), rng, hyperparams.conservative_weight),
            config.optimizer,
            hyperparams.weight_learning_rate,
        )
        return learner.replace(weight=weight)

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        learner, info = super()._update(batch)
        if self.weight is None:
            return learner, info
        slack = self.hyperparams.target_action_gap - info["conservative_penalty"]
        weight, loss = dual_step(self.weight, slack)  # appendix F
        info = {**info, "weight_loss": loss, "conservative_weight": self.weight()}
        return learner.replace(weight=weight), info

    def _update_critic(self, key: Key[Array, ""], batch: Batch) -> tuple[TrainState, Info]:
        target_key, sample_key = jax.random.split(key)
        targets = self._targets(target_key, batch)
        sampled, log_probs = self._sampled_actions(sample_key, batch)
        actions = jnp.concatenate([batch["actions"][None], sampled])
        weight = self.hyperparams.conservative_weight if self.weight is None else self.weight()

        def loss_fn(params: Any) -> tuple[Array, Info]:
            values_of = jax.vmap(functools.partial(self.critic, params=params), (None, 0), -1)
            values = values_of(batch["observations"], actions)  # encodes observations once
            data_values = values[..., 0]
            bellman_loss, info = self._critic_loss(data_values, targets)
            penalties = ops.conservative_penalty(values[..., 1:], log_probs, data_values)
            loss = bellman_loss + weight * penalties.mean(axis=-1).sum()
            info = {**info, "critic_loss": loss, "bellman_loss": bellman_loss}
            return loss, {**info, "conservative_penalty": penalties.mean()}

        return self.critic.apply_loss_fn(loss_fn=loss_fn, has_aux=True)

    def _sampled_actions(
        self, key: Key[Array, ""], batch: Batch
    ) -> tuple[Float[Array, "samples batch action"], Float[Array, "batch samples"]]:
        """Actions at which values are to be small, and the log-densities with which they were drawn."""
        n = self.config.n_action_samples
        shape = (n, *batch["actions"].shape)
        uniform_key, policy_key, next_key = jax.random.split(key, 3)

        def drawn(key: Key[Array, ""], observations: Any) -> tuple[Array, Array]:
            return jax.vmap(self.actor(observations).sample_and_log_prob)(jax.random.split(key, n))

        uniform = jax.random.uniform(uniform_key, shape, minval=-1.0, maxval=1.0)
        uniform_log_probs = jnp.full(shape[:-1], -shape[-1] * np.log(2.0))
        current, current_log_probs = drawn(policy_key, batch["observations"])
        following, following_log_probs = drawn(next_key, batch["next_observations"])
        log_probs = [uniform_log_probs, current_log_probs, following_log_probs]
        return jnp.concatenate([uniform, current, following]), jnp.concatenate(log_probs).T


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteCQLConfig(LearnerConfig):
    """What the compiled program of discrete CQL depends on.

    Attributes:
        n_actions: Number of actions.
        double: Whether the critic chooses the next action of which its target gives the value (van
            Hasselt et al., 2016, "Deep reinforcement learning with double Q-learning"), or its target
            does both.
    """

    actor_network: ClassVar[None] = None
    n_actions: int
    double: bool = True

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("n_actions")


class DiscreteCQLHyperparameters(Hyperparameters):
    """Traced hyperparameters of discrete CQL.

    Attributes:
        gamma: Discount.
        tau: Step size of the target critic.
        conservative_weight: Weight of the penalty.
        critic_learning_rate: Step size of the critic.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    tau: Traced = hyperparameter(0.005, 0.0, 1.0)
    conservative_weight: Traced = hyperparameter(1.0, 0.0)
    critic_learning_rate: Traced = hyperparameter(3e-4, 0.0)


class DiscreteCQLLearner(Learner):
    r"""Conservative Q-learning, CQL(H), for discrete actions: Q-learning with a penalty.

    Kumar et al., 2020, "Conservative Q-learning for offline reinforcement learning", equation 4. An
    update moves the critic, then its target. Actions are drawn with probabilities proportional to
    $\exp(Q / T)$ at the temperature $T$; the mode is the action of the largest value.

    Attributes:
        critic: The critic.
        target_critic: Its slowly moving copy.
    """

    critic: TrainState
    target_critic: TrainState

    _config_type = DiscreteCQLConfig
    _hyperparams_type = DiscreteCQLHyperparameters
    batch_keys = ("observations", "actions", "rewards", "next_observations", "masks")
    discrete_actions = True

    @classmethod
    def _initial(
        cls,
        config: DiscreteCQLConfig,
        hyperparams: DiscreteCQLHyperparameters,
        rng: Key[Array, ""],
        observations: Any,
        actions: Any,
    ) -> Self:
        rng, key = jax.random.split(rng)
        critic = config.encoded(
            config.critic_network
            or DiscreteCritic(features=config.features, n_actions=config.n_actions)
        )
        variables = initialise(critic, key, observations)
        return cls(
            config=config,
            hyperparams=hyperparams,
            rng=rng,
            critic=optimized(critic, variables, config.optimizer, hyperparams.critic_learning_rate),
            target_critic=TrainState.from_variables(critic, variables),
        )

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        targets = self._targets(batch)

        def loss_fn(params: Any) -> tuple[Array, Info]:
            values = self.critic(batch["observations"], params=params)
            data_values = ops.values_of(values, batch["actions"])
            bellman_loss = 0.5 * ops.value_loss(data_values, targets).mean()
            penalty = ops.conservative_penalty(values, 0.0, data_values).mean()
            loss = bellman_loss + self.hyperparams.conservative_weight * penalty
            info = {"critic_loss": loss, "bellman_loss": bellman_loss, "q": data_values.mean()}
            return loss, {**info, "conservative_penalty": penalty}

        critic, info = self.critic.apply_loss_fn(loss_fn=loss_fn, has_aux=True)
        target_critic = target_update(critic, self.target_critic, self.hyperparams.tau)
        return self.replace(critic=critic, target_critic=target_critic), info

    def _policy(self, observations: Any, temperature: Any) -> ops.Distribution:
        return ops.Categorical(self.critic(observations)).tempered(temperature)

    def _check_networks(self, observations: Any, actions: Any) -> None:
        values = jax.eval_shape(TrainState.__call__, self.critic, observations)
        check_values_of_actions(values.shape, self.config.n_actions)
        super()._check_networks(observations, actions)

    def _targets(self, batch: Batch) -> Float[Array, "batch"]:
        values = self.target_critic(batch["next_observations"])
        chooser = self.critic(batch["next_observations"]) if self.config.double else values
        next_values = ops.values_of(values, chooser.argmax(axis=-1))
        return ops.td_target(batch["rewards"], self.discounts(batch), batch["masks"], next_values)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(LearnerAgentConfig, CQLConfig):
    """Static configuration of the agent: that of the learner, and how it is trained.

    Attributes:
        double: See [`DiscreteCQLConfig`][jaxagents.cql.DiscreteCQLConfig].
    """

    double: bool = True


class HyperParameters(CQLHyperparameters):
    """Traced hyperparameters of the agent, beside those of [CQL][jaxagents.cql.CQLHyperparameters].

    Attributes:
        conservative_weight: Weight of the penalty; `None` is 5 for box and 1 for discrete actions.
    """

    conservative_weight: Traced = hyperparameter(None, 0.0)


class CQL(OfflineBase[AgentConfig, HyperParameters]):
    """Conservative Q-learning on a dataset on the device, for discrete and box actions.

    ```python
    agent = CQL(env, env_params, AgentConfig(n_steps=20_000), dataset=dataset)
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```

    With discrete actions it is Q-learning with a penalty, and takes no notice of what concerns the
    policy of box actions.
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = CQLLearner
    _discrete_learner = DiscreteCQLLearner
