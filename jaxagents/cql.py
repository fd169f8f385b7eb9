"""Conservative Q-learning (Kumar et al., 2020), for continuous and discrete actions."""

import dataclasses
import functools
from typing import ClassVar, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OfflineAgentConfig
from jaxagents.agents.offline import OfflineBase
from jaxagents.core.arrays import is_traced
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter, is_schedule
from jaxagents.core.numbers import positive
from jaxagents.core.observed import action_mask
from jaxagents.dqn import DDQNLearner, DQNLearner
from jaxagents.learners.batches import check_targets, weighted_mean
from jaxagents.learners.config import Example
from jaxagents.learners.learner import Batch, Info, create_network
from jaxagents.learners.q_learning import QConfig
from jaxagents.learners.train_state import TrainState
from jaxagents.sac import SACConfig, SACHyperparameters, SACLearner, Temperature, dual_step


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CQLConfig(SACConfig):
    """Static configuration of continuous CQL. The defaults are from the authors' code.

    Attributes:
        features: Widths of the hidden layers of the default networks.
        backup_entropy: Whether targets include the entropy of the next action.
        n_action_samples: Number of actions to draw per observation from each of three distributions:
            uniform, the policy, and the policy at the next observation.
    """

    critic_dropout_rate: ClassVar[float] = 0.0

    features: tuple[int, ...] = (256, 256, 256)
    backup_entropy: bool = False
    n_action_samples: int = checked(10, positive)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteCQLConfig(QConfig):
    """Static configuration of discrete CQL.

    Extends the [configuration of Q-learning][jaxagents.learners.q_learning.QConfig].

    Attributes:
        features: Widths of the hidden layers of the default network.
        double: Whether the critic selects the next action and the target network evaluates it (van
            Hasselt et al., 2016, "Deep reinforcement learning with double Q-learning"). Otherwise the
            target network does both.
    """

    noisy: ClassVar[bool] = False

    features: tuple[int, ...] = (256, 256)
    double: bool = True


class DiscreteCQLHyperparameters(Hyperparameters):
    """Traced hyperparameters of discrete CQL.

    Attributes:
        gamma: Discount.
        tau: Soft-update coefficient of the target critic.
        conservative_weight: Weight of the penalty; `None` means 5 for continuous and 1 for discrete
            actions.
        critic_learning_rate: Learning rate of the critic.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    tau: Traced = hyperparameter(0.005, 0.0, 1.0)
    conservative_weight: Traced = hyperparameter(None, 0.0)
    critic_learning_rate: Traced = hyperparameter(3e-4, 0.0)


WeightedT = TypeVar("WeightedT", bound=DiscreteCQLHyperparameters)


class HyperParameters(SACHyperparameters, DiscreteCQLHyperparameters):
    """Traced hyperparameters of the agent, and of its learner for continuous actions.

    Extends the hyperparameters of [SAC][jaxagents.sac.SACHyperparameters] and
    [discrete CQL][jaxagents.cql.DiscreteCQLHyperparameters].

    Attributes:
        actor_learning_rate: Learning rate of the policy.
        target_action_gap: Target value of the penalty, for the Lagrange version: the penalty's weight
            starts at `conservative_weight`, grows while the penalty is above the target, and shrinks
            while it is below. `None` keeps the weight fixed.
        weight_learning_rate: Learning rate of the weight, if there is a `target_action_gap`.
    """

    actor_learning_rate: Traced = hyperparameter(1e-4, 0.0)
    target_action_gap: Traced = None
    weight_learning_rate: Traced = hyperparameter(3e-4, 0.0)

    def check_ranges(self, path: str = "", single: bool = False) -> None:
        """Raises if a concrete value is out of range.

        Raises:
            ValueError: A value is out of range, or a learned weight is 0 or a schedule.
        """
        super().check_ranges(path, single)
        weight = self.conservative_weight
        is_learned = self.target_action_gap is not None
        if is_learned and is_schedule(weight):
            raise ValueError(
                f"{path}conservative_weight is learned with a target_action_gap: pass a number "
                f"to start from, not a {type(weight).__name__}."
            )
        if is_learned and not is_traced(weight) and np.any(np.asarray(weight) == 0.0):
            raise ValueError(
                f"{path}conservative_weight must be above 0 with a target_action_gap: it is learned as "
                "a logarithm."
            )


class CQLLearner(SACLearner):
    r"""CQL(H)'s learner for continuous actions.

    Kumar et al., 2020, "Conservative Q-learning for offline reinforcement learning", equation 4: soft
    actor-critic with a penalty that pushes down the values of all actions and pushes up the values of
    the dataset's actions. It updates its networks in the same order as
    [`SACLearner`][jaxagents.sac.SACLearner], and then the penalty's weight. The `weights` of a batch
    apply to the critics' loss and to the penalty but, as in SAC, not to the losses of the policy, the
    temperature and the penalty's weight.

    Attributes:
        weight: The weight of the penalty, if it is learned.
    """

    config: CQLConfig = struct.field(pytree_node=False)
    hyperparams: HyperParameters
    weight: TrainState | None = None

    _config_type = CQLConfig
    _hyperparams_type = HyperParameters

    @classmethod
    def _with_defaults(cls, hyperparams: HyperParameters, example: Example) -> HyperParameters:
        return _with_weight(super()._with_defaults(hyperparams, example), 5.0)

    @classmethod
    def _further_networks(
        cls, config: CQLConfig, hyperparams: HyperParameters, key: Key[Array, ""], example: Example
    ) -> dict[str, TrainState]:
        networks = super()._further_networks(config, hyperparams, key, example)
        if hyperparams.target_action_gap is not None:
            initial, rate = hyperparams.conservative_weight, hyperparams.weight_learning_rate
            networks["weight"] = create_network(Temperature(), config.optimizer, rate, key, initial)
        return networks

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        learner, info = super()._update(batch)
        if self.weight is None:
            if self.hyperparams.target_action_gap is not None:
                raise ValueError(
                    "target_action_gap needs a learned weight of the penalty, but this learner "
                    "was made without one: set target_action_gap from the start of a run."
                )
            return learner, info
        slack = self.hyperparams.target_action_gap - info["conservative_penalty"]
        weight, loss = dual_step(self.weight, slack)  # appendix F
        info = {**info, "weight_loss": loss, "conservative_weight": self.weight()}
        return learner.replace(weight=weight), info

    def _update_critic(self, key: Key[Array, ""], batch: Batch) -> tuple[TrainState, Info]:
        target_key, sample_key = jax.random.split(key)
        targets = self._targets(target_key, batch)
        check_targets(f"{type(self).__name__}._targets", jnp.shape(targets), batch)
        sampled, log_probs = self._sampled_actions(sample_key, batch)
        actions = jnp.concatenate([batch["actions"][None], sampled])
        weight = self.hyperparams.conservative_weight if self.weight is None else self.weight()

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            values_of = jax.vmap(functools.partial(self.critic, params=params), (None, 0), -1)
            values = values_of(batch["observations"], actions)  # encodes observations once
            data_values = values[..., 0]
            bellman_loss, info = self._loss_of_critics(data_values, targets, batch)
            penalties = ops.conservative_penalty(values[..., 1:], log_probs, data_values)
            loss = bellman_loss + weight * weighted_mean(penalties, batch).sum()
            info = {**info, "critic_loss": loss, "bellman_loss": bellman_loss}
            return loss, {**info, "conservative_penalty": penalties.mean()}

        return self.critic.apply_loss_fn(loss_fn=loss_fn, has_aux=True)

    def _sampled_actions(
        self, key: Key[Array, ""], batch: Batch
    ) -> tuple[Float[Array, "samples batch action"], Float[Array, "batch samples"]]:
        """Samples actions whose values the penalty pushes down; returns them and their log-densities."""
        n = self.config.n_action_samples
        shape = (n, *batch["actions"].shape)
        uniform_key, policy_key, next_key = jax.random.split(key, 3)

        def sample(key: Key[Array, ""], observations: PyTree) -> tuple[Array, Array]:
            return jax.vmap(self.actor(observations).sample_and_log_prob)(jax.random.split(key, n))

        uniform = jax.random.uniform(uniform_key, shape, jnp.float32, -1.0, 1.0)
        uniform_log_probs = jnp.full(shape[:-1], -shape[-1] * np.log(2.0), jnp.float32)
        current, current_log_probs = sample(policy_key, batch["observations"])
        following, following_log_probs = sample(next_key, batch["next_observations"])
        log_probs = [uniform_log_probs, current_log_probs, following_log_probs]
        return jnp.concatenate([uniform, current, following]), jnp.concatenate(log_probs).T


class DiscreteCQLLearner(DDQNLearner):
    r"""CQL(H)'s learner for discrete actions: double Q-learning with a penalty.

    Kumar et al., 2020, "Conservative Q-learning for offline reinforcement learning", equation 4. Actions
    are drawn with probabilities proportional to $\exp(Q / T)$ at temperature $T$; the mode is the action
    with the largest value.

    Attributes:
        critic: The critic.
        target_critic: The target network of the critic.
    """

    config: DiscreteCQLConfig = struct.field(pytree_node=False)
    hyperparams: DiscreteCQLHyperparameters

    _config_type = DiscreteCQLConfig
    _hyperparams_type = DiscreteCQLHyperparameters

    @classmethod
    def _with_defaults(
        cls, hyperparams: DiscreteCQLHyperparameters, example: Example
    ) -> DiscreteCQLHyperparameters:
        return _with_weight(hyperparams, 1.0)

    def _q_target(self, batch: Batch) -> Float[Array, "batch"]:
        """The target of double Q-learning or, with `double=False`, of Q-learning."""
        return super()._q_target(batch) if self.config.double else DQNLearner._q_target(self, batch)

    def _loss(
        self, params: PyTree, batch: Batch, targets: Float[Array, "batch"]
    ) -> tuple[Float[Array, "batch"], Info]:
        """The squared error plus the penalty."""
        values = self._q(params, batch["observations"])
        q = ops.values_of(values, batch["actions"])
        bellman_losses = 0.5 * ops.value_loss(q, targets)
        allowed = ops.among_allowed(values, action_mask(batch["observations"]))
        penalties = ops.conservative_penalty(allowed, 0.0, q)
        losses = bellman_losses + self.hyperparams.conservative_weight * penalties
        info = {"q": q, "bellman_loss": bellman_losses, "conservative_penalty": penalties}
        return losses, {**info, "td_errors": jnp.abs(q - targets)}

    def _policy(self, observations: PyTree, temperature: ArrayLike) -> ops.Distribution:
        values = self.allowed_q(self.critic.params, observations)
        return ops.Categorical(values).tempered(temperature)


def _with_weight(hyperparams: WeightedT, default: float) -> WeightedT:
    """Sets the weight of the penalty to a default if it is missing."""
    if hyperparams.conservative_weight is not None:
        return hyperparams
    return hyperparams.replace(conservative_weight=default)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OfflineAgentConfig, CQLConfig, DiscreteCQLConfig):
    """Static configuration of the agent: its learners' fields, and the training settings."""


class CQL(OfflineBase[AgentConfig, HyperParameters]):
    """Conservative Q-learning for discrete and continuous actions, with a dataset on the device.

    ```python
    agent = CQL(env, env_params, AgentConfig(n_steps=20_000), dataset=dataset)
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```

    With discrete actions, it is double Q-learning with a penalty, and ignores the fields of the
    configuration that concern the continuous policy.
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _continuous_learner = CQLLearner
    _discrete_learner = DiscreteCQLLearner
