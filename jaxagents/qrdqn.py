"""QR-DQN (Dabney et al., 2018): return distributions by quantile regression."""

import dataclasses

import jax
from jaxtyping import Array, Float, PyTree

from jaxagents import dqn, ops
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.numbers import positive
from jaxagents.learners.learner import Batch, Info
from jaxagents.learners.q_learning import (
    DistributionalLearner,
    QConfig,
    QHyperparameters,
    outputs_of,
    td_targets,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QRDQNConfig(QConfig):
    """Static configuration of QR-DQN's learner, inherited by the agent's configuration.

    Attributes:
        n_quantiles: Number of quantiles (200 in the paper).
        double: Whether the online network selects the next action and the target network evaluates it
            (van Hasselt et al., 2016, "Deep reinforcement learning with double Q-learning"). Otherwise
            the target network does both.
    """

    n_quantiles: int = checked(51, positive)
    double: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(dqn.AgentConfig, QRDQNConfig):
    """Static configuration of QR-DQN, in addition to [DQN's][jaxagents.dqn.AgentConfig]."""


class QRDQNHyperparameters(QHyperparameters):
    """Traced hyperparameters of QR-DQN, in addition to Q-learning's.

    Attributes:
        kappa: Error above which the quantile Huber loss is linear.
    """

    kappa: Traced = hyperparameter(1.0, 0.0)


class HyperParameters(QRDQNHyperparameters, dqn.HyperParameters):
    """Traced hyperparameters of the agent: [DQN's][jaxagents.dqn.HyperParameters] and `kappa`."""


class QRDQNLearner(DistributionalLearner[QRDQNConfig, QRDQNHyperparameters]):
    """QR-DQN's learner: Q-learning of return quantiles.

    Dabney et al., 2018, "Distributional reinforcement learning with quantile regression", algorithm 1.
    Override `_q` to act on a statistic of the quantiles other than the mean.

    Attributes:
        critic: The online network, which outputs quantiles for every action.
        target_critic: The target network.
    """

    _config_type = QRDQNConfig
    _hyperparams_type = QRDQNHyperparameters
    hooks = (*DistributionalLearner.hooks, "_quantiles")

    @classmethod
    def _n_outputs(cls, config: QRDQNConfig) -> int:
        return config.n_quantiles

    def _quantiles(
        self, params: PyTree, obs: PyTree
    ) -> Float[Array, "*batch n_actions n_quantiles"]:
        """Quantiles of each action's return, at the midpoints of equal probability intervals.

        Args:
            params: Parameters of the online network, or of the target network.
            obs: One observation, or a batch of them.

        Returns:
            The quantiles.
        """
        return self.critic(obs, params=params)

    def _q(self, params: PyTree, obs: PyTree) -> Float[Array, "*batch n_actions"]:
        """The mean return of each action."""
        return self._quantiles(params, obs).mean(axis=-1)

    def _q_target(self, batch: Batch) -> Float[Array, "batch n_quantiles"]:
        r"""The quantiles $r + \gamma \theta_j(s', a^*)$ with the greedy action $a^*$."""
        params, obs = self.target_critic.params, batch["next_observations"]
        actions = self._next_actions(obs, self.config.double)
        next_quantiles = outputs_of(self._quantiles(params, obs), actions)
        return td_targets(self, batch, next_quantiles)

    def _loss(
        self, params: PyTree, batch: Batch, targets: Float[Array, "batch n_quantiles"]
    ) -> tuple[Float[Array, "batch"], Info]:
        """The quantile Huber loss, which also sets the priority."""
        taken = outputs_of(self._quantiles(params, batch["observations"]), batch["actions"])
        losses = ops.quantile_huber_loss(taken, targets, self.hyperparams.kappa)
        return losses, {"q": taken.mean(axis=-1), "td_errors": jax.lax.stop_gradient(losses)}


class QRDQN(dqn.DQNBase):
    """QR-DQN for discrete actions; see [`DQN`][jaxagents.dqn.DQN]."""

    config: AgentConfig

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _discrete_learner = QRDQNLearner
