"""The base classes of learners of discrete action values."""

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, Self, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxagents import ops
from jaxagents.core.compilation import jit_by_structure
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.core.numbers import positive
from jaxagents.core.observed import action_mask
from jaxagents.core.report import check_not_taken
from jaxagents.learners.batches import check_targets, weighted_mean
from jaxagents.learners.config import Example, LearnerConfig
from jaxagents.learners.learner import Batch, Info, Learner, create_network
from jaxagents.learners.train_state import (
    TrainState,
    check_shape,
    losses_and_info,
    target_of,
    target_update,
)
from jaxagents.networks import (
    ActionCritic,
    DiscreteCritic,
    DuelingCritic,
    with_noise,
)

_NOISE = 0x6E6F6973  # folded into the key of noise, since actions use splits of the same key


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QConfig(LearnerConfig):
    """Static configuration of Q-learners, inherited by their agents' configurations.

    Attributes:
        features: Widths of the hidden layers of the default network.
        dueling: Whether the default network has separate streams for value and advantages; see
            [`DuelingCritic`][jaxagents.networks.DuelingCritic].
        noisy: Whether the default network explores with noisy layers, which come after the memory, if
            any; see [`NoisyDense`][jaxagents.networks.NoisyDense].
        target_update_period: Number of updates between updates of the target network. For hard updates,
            set `tau` to 1; for soft updates, use a period of 1 and a small `tau`.
    """

    actor_network: ClassVar[None] = None
    features: tuple[int, ...] = (128, 128)
    dueling: bool = False
    noisy: bool = False
    target_update_period: int = checked(1, positive)


class QHyperparameters(Hyperparameters):
    """Traced hyperparameters of Q-learning.

    Attributes:
        gamma: Discount.
        tau: Soft-update coefficient of the target network.
        epsilon: Probability of a random action when a learner acts at temperature 1.
        critic_learning_rate: Learning rate of the network.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    tau: Traced = hyperparameter(0.005, 0.0, 1.0)
    epsilon: Traced = hyperparameter(0.05, 0.0, 1.0)
    critic_learning_rate: Traced = hyperparameter(3e-4, 0.0)


ValueHyperparametersT = TypeVar("ValueHyperparametersT", bound=Hyperparameters)
QConfigT = TypeVar("QConfigT", bound=QConfig)
QHyperparametersT = TypeVar("QHyperparametersT", bound=QHyperparameters)


class ValueLearner(Learner[QConfigT, ValueHyperparametersT]):
    """Base class of learners with a network of discrete action values.

    A subclass defines the hook `_loss`, which takes batches, and may override `_q`. These are hooks of
    the learner: its agent calls them, but has none of its own. Hyperparameters need the fields
    `epsilon` and `critic_learning_rate`.

    Attributes:
        critic: The network.
    """

    critic: TrainState

    discrete_actions = True
    acting_network = "critic"
    hooks = ("_q", "_loss")
    _noisy_networks: ClassVar[tuple[str, ...]] = ("critic",)

    def _q(self, params: PyTree, obs: PyTree) -> Float[Array, "*batch n_actions"]:
        """The values of all actions.

        Args:
            params: Parameters of the online network, or of the target network.
            obs: One observation, or a batch of them.

        Returns:
            The values.
        """
        return self.critic(obs, params=params)

    @abstractmethod
    def _loss(
        self, params: PyTree, batch: Batch, targets: Float[Array, "batch ..."]
    ) -> tuple[Float[Array, "batch"], Info]:
        """The loss of each sample.

        Args:
            params: Parameters of the network; the loss is differentiated with respect to them.
            batch: Transitions.
            targets: Targets from `_q_target`.

        Returns:
            The losses, and a dict of arrays of the same shape, whose means are reported. In prioritised
            replay, the absolute values of the entry `td_errors` set the priorities.
        """

    @jit_by_structure
    def q(self, observations: PyTree) -> Float[Array, "*batch n_actions"]:
        """The values of all actions.

        Args:
            observations: One observation, or a batch of them.

        Returns:
            The values.
        """
        return self._q(self.critic.params, observations)

    def epsilon_greedy(self, observations: PyTree, epsilon: ArrayLike) -> ops.EpsilonGreedy:
        """The epsilon-greedy policy.

        Args:
            observations: One observation, or a batch of them.
            epsilon: Probability of a random action.

        Returns:
            The distribution.
        """
        values = self._q(self.critic.params, observations)
        return ops.EpsilonGreedy(values, epsilon, action_mask(observations))

    def with_noise(self, rng: Key[Array, ""], scale: ArrayLike = 1.0) -> Self:
        """Returns the learner with noise in its noisy layers, if it has any.

        Fortunato et al., 2018, "Noisy networks for exploration". Noise is drawn separately for each
        network, non-greedy action and update. Greedy actions have none.

        Args:
            rng: Random key, which may be used for other draws too.
            scale: Factor that multiplies the noise.

        Returns:
            The learner.
        """
        networks = {name: getattr(self, name) for name in self._noisy_networks}
        params = {name: network.params for name, network in networks.items()}
        noisy = with_noise(params, jax.random.fold_in(rng, _NOISE), scale)
        return self.replace(
            **{name: network.replace(params=noisy[name]) for name, network in networks.items()}
        )

    def allowed_q(self, params: PyTree, obs: PyTree) -> Float[Array, "*batch n_actions"]:
        """The values of all actions, minus infinity for forbidden ones.

        Args:
            params: Parameters of the online network, or of the target network.
            obs: One observation, or a batch of them.

        Returns:
            The values.
        """
        return ops.among_allowed(self._q(params, obs), action_mask(obs))

    @classmethod
    def _n_outputs(cls, config: QConfigT) -> int | None:
        """Number of outputs per action; `None` for a single value."""
        return None

    @classmethod
    def default_critic(
        cls, config: QConfigT, features: tuple[int, ...], n_actions: int
    ) -> ActionCritic:
        """The default network for vectors.

        Args:
            config: The learner's configuration.
            features: Widths of the hidden layers.
            n_actions: Number of actions.

        Returns:
            The network.
        """
        kind = DuelingCritic if config.dueling else DiscreteCritic
        return kind(
            features=features,
            layer_norm=cls._layer_norm,
            noisy=config.noisy,
            n_actions=n_actions,
            n_outputs=cls._n_outputs(config),
        )

    @classmethod
    def default_networks(cls, config: QConfigT, example: Example) -> dict[str, nn.Module]:
        """The default network for vectors; see `Learner`."""
        return {"critic_network": cls.default_critic(config, config.features, example.action_size)}

    @classmethod
    def _create_critic(
        cls, config: QConfigT, learning_rate: Traced, key: Key[Array, ""], example: Example
    ) -> TrainState:
        """Creates the network."""
        critic = config.critic_network or cls.default_networks(config, example)["critic_network"]
        critic = config.critic_of(critic, example.observations)
        return create_network(critic, config.optimizer, learning_rate, key, example.observations)

    def _fit_critic(
        self, batch: Batch, targets: Float[Array, "batch ..."]
    ) -> tuple[TrainState, Info]:
        """Takes a gradient step on the loss; also returns metrics."""
        rng = self._noise_key(0)

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            output = self._loss(with_noise(params, rng), batch, targets)
            losses, details = losses_and_info(output)
            hook, n_samples = f"{type(self).__name__}._loss", len(batch["actions"])
            check_shape(hook, losses.shape, n_samples, may_be_one=False)
            check_not_taken(
                f"{hook} reports",
                sorted(details),
                ["critic_loss"],
                "which updates already report",
            )
            loss = weighted_mean(losses, batch)
            return loss, {"critic_loss": loss, **details}

        critic, info = self.critic.apply_loss_fn(loss_fn=loss_fn, has_aux=True)
        reported = {name: x.mean() for name, x in info.items() if name != "td_errors"}
        if "weights" in batch and "td_errors" in info:
            reported["td_errors"] = info["td_errors"]
        return critic, reported

    def _noise_key(self, i: int) -> Key[Array, ""]:
        """The key for the i-th noise draw in the next gradient step."""
        return jax.random.fold_in(jax.random.fold_in(self.rng, self.critic.step), i)

    def _policy(self, observations: PyTree, temperature: ArrayLike) -> ops.Distribution:
        hyperparams: Any = self.hyperparams
        return self.epsilon_greedy(observations, jnp.clip(temperature * hyperparams.epsilon, 0, 1))

    def _check_networks(self, example: Example) -> None:
        values = jax.eval_shape(type(self).q, self, example.observations)
        expected = (*jnp.shape(example.actions), example.action_size)
        if values.shape != expected:
            raise ValueError(
                f"{type(self).__name__} must output one value for each of the "
                f"n_actions={expected[-1]} actions, shape {expected} for the example "
                f"observations, got shape {values.shape}: check critic_network and the hook _q."
            )
        super()._check_networks(example)


class QLearner(ValueLearner[QConfigT, QHyperparametersT]):
    """Base class of Q-learners with a target network.

    A subclass defines the hooks `_q_target` and `_loss`, which take batches, and may override `_q`.
    These are hooks of the learner: its agent calls them, but has none of its own.

    Attributes:
        critic: The online network.
        target_critic: The target network.
    """

    target_critic: TrainState

    _noisy_networks = ("critic", "target_critic")
    _config_type = QConfig
    _hyperparams_type = QHyperparameters
    batch_keys = ("observations", "actions", "rewards", "next_observations", "masks")
    hooks = ("_q", "_q_target", "_loss")

    @abstractmethod
    def _q_target(self, batch: Batch) -> Float[Array, "batch ..."]:
        """Targets for the values of the batch's actions.

        Args:
            batch: Transitions.

        Returns:
            The targets, samples first.
        """

    @classmethod
    def _initial(
        cls, config: QConfigT, hyperparams: QHyperparametersT, rng: Key[Array, ""], example: Example
    ) -> Self:
        rng, key = jax.random.split(rng)
        rate = hyperparams.critic_learning_rate
        critic = cls._create_critic(config, rate, key, example)
        networks: dict[str, Any] = {"critic": critic, "target_critic": target_of(critic)}
        return cls(config=config, hyperparams=hyperparams, rng=rng, **networks)

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        targets = self.with_noise(self._noise_key(1))._q_target(batch)
        hook = f"{type(self).__name__}._q_target"
        check_targets(hook, jnp.shape(targets), batch, may_be_several=True)
        critic, info = self._fit_critic(batch, targets)
        return self.replace(critic=critic, target_critic=self._next_target(critic)), info

    def _next_target(self, critic: TrainState) -> TrainState:
        """The target network after an update."""
        target, tau = self.target_critic, self.hyperparams.tau
        period = self.config.target_update_period
        if period == 1:
            return target_update(critic, target, tau)
        return jax.lax.cond(
            critic.step % period == 0,
            lambda critic, target: target_update(critic, target, tau),
            lambda critic, target: target,
            critic,
            target,
        )


class DistributionalLearner(QLearner[QConfigT, QHyperparametersT]):
    """Base class of Q-learners whose network outputs a return distribution for each action."""

    def _next_actions(self, obs: PyTree, double: bool) -> Int[Array, "batch"]:
        """Greedy actions for targets: the online network's if `double`, else the target network's."""
        network = self.critic if double else self.target_critic
        return self.allowed_q(network.params, obs).argmax(axis=-1)


def td_targets(
    learner: Learner, batch: Batch, next_values: Float[Array, "batch ..."]
) -> Float[Array, "batch ..."]:
    """One-step (or n-step) targets for values, or for arrays of values.

    Args:
        learner: The learner, whose discount is used if the batch has no `discounts`.
        batch: Transitions.
        next_values: Values of the successors, samples first.

    Returns:
        The targets, shaped like the values.
    """
    discounts = jnp.broadcast_to(learner.discounts(batch), batch["rewards"].shape)
    target = ops.td_target
    for _ in next_values.shape[1:]:
        target = jax.vmap(target, (None, None, None, -1), -1)
    return target(batch["rewards"], discounts, batch["masks"], next_values)


def outputs_of(
    outputs: Float[Array, "batch n_actions n_outputs"], actions: Int[Array, "batch"]
) -> Float[Array, "batch n_outputs"]:
    """Selects a network's outputs for the actions taken.

    Args:
        outputs: Several numbers per action.
        actions: One action per sample.

    Returns:
        The outputs of each sample's action.
    """
    return jax.vmap(ops.values_of, (-1, None), -1)(outputs, actions)
