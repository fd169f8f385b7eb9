"""QR-DQN (Dabney et al., 2018): quantiles of the distribution of returns."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Float

from jaxagents import dqn, ops
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.learners.learner import Batch, Info
from jaxagents.learners.q_learning import (
    QConfig,
    QHyperparameters,
    QLearner,
    QLearnerConfig,
    QLearning,
    outputs_of,
    td_targets,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QRDQNConfig(QConfig):
    """What the configurations of QR-DQN share, of learners and of agents.

    Attributes:
        n_quantiles: Number of quantiles (200 in the paper).
    """

    n_quantiles: int = 51

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("n_quantiles")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QRDQNLearnerConfig(QRDQNConfig, QLearnerConfig):
    """What the compiled program of a QR-DQN learner depends on."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(dqn.AgentConfig, QRDQNConfig):
    """Static configuration of QR-DQN, beside that of [DQN][jaxagents.dqn.AgentConfig]."""


class HuberThreshold(Hyperparameters):
    """Traced threshold of the quantile Huber loss.

    Attributes:
        kappa: Error beyond which the loss is linear.
    """

    kappa: Traced = hyperparameter(1.0, 0.0)


class QRDQNHyperparameters(HuberThreshold, QHyperparameters):
    """Traced hyperparameters of a QR-DQN learner: those of Q-learning, and the loss's threshold."""


class HyperParameters(HuberThreshold, dqn.HyperParameters):
    """Traced hyperparameters of the agent.

    Those of [DQN][jaxagents.dqn.HyperParameters], and the threshold of the loss.
    """


class QuantileQLearning(QLearning):
    """Q-learning of quantiles of the returns, as hooks.

    Dabney et al., 2018, "Distributional reinforcement learning with quantile regression", algorithm 1.
    """

    def _quantiles(
        self, learner: Any, params: Any, obs: Any
    ) -> Float[Array, "*batch n_actions n_quantiles"]:
        """Quantiles of the returns of every action, at the midpoints of equal probabilities.

        Args:
            learner: The learner, of whose `critic` this is the output.
            params: Parameters to use: those in training, or those of the target.
            obs: One observation, or a batch of them.

        Returns:
            The quantiles.
        """
        return learner.critic(obs, params=params)

    def _q(self, learner: Any, params: Any, obs: Any) -> Float[Array, "*batch n_actions"]:
        """The mean returns; see [`QLearning`][jaxagents.learners.q_learning.QLearning]."""
        return self._quantiles(learner, params, obs).mean(axis=-1)

    def _q_target(self, learner: Any, batch: Batch) -> Float[Array, "batch n_quantiles"]:
        r"""The quantiles $r + \gamma \theta_j(s', a^*)$, of the action with the largest value."""
        params, obs = learner.target_critic.params, batch["next_observations"]
        greedy = self._q(learner, params, obs).argmax(axis=-1)
        next_quantiles = outputs_of(self._quantiles(learner, params, obs), greedy)
        return td_targets(learner, batch, next_quantiles)

    def _loss(
        self, learner: Any, params: Any, batch: Batch, targets: Float[Array, "batch n_quantiles"]
    ) -> tuple[Float[Array, "batch"], Info]:
        """The quantile Huber loss, which is also the priority."""
        quantiles = self._quantiles(learner, params, batch["observations"])
        taken = outputs_of(quantiles, batch["actions"])
        losses = ops.quantile_huber_loss(taken, targets, learner.hyperparams.kappa)
        return losses, {"q": taken.mean(axis=-1), "td_errors": jax.lax.stop_gradient(losses)}


class QRDQNLearner(QuantileQLearning, QLearner):
    """QR-DQN for batches.

    It learns by the hooks of [`QuantileQLearning`][jaxagents.qrdqn.QuantileQLearning].

    Attributes:
        critic: The network.
        target_critic: Its slowly moving copy.
    """

    _config_type = QRDQNLearnerConfig
    _hyperparams_type = QRDQNHyperparameters

    @classmethod
    def _n_outputs(cls, config: QRDQNLearnerConfig) -> int:
        return config.n_quantiles


class QRDQN(QuantileQLearning, dqn.DQNBase):
    """QR-DQN, complete for discrete actions; see [`DQN`][jaxagents.dqn.DQN].

    Override `_q` to act by another statistic of the quantiles than their mean.
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _discrete_learner = QRDQNLearner
