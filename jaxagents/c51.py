"""Categorical DQN, "C51" (Bellemare et al., 2017): a distribution of returns over fixed atoms."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from jaxagents import dqn, ops
from jaxagents.core.arrays import is_traced
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

_SMALLEST_NUMBER_OF_ATOMS = 2


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class C51Config(QConfig):
    """What the configurations of C51 share, of learners and of agents.

    Attributes:
        n_atoms: Number of returns to which a probability is given.
    """

    n_atoms: int = 51

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("n_atoms")
        if self.n_atoms < _SMALLEST_NUMBER_OF_ATOMS:
            raise ValueError(f"{type(self).__name__}.n_atoms must be 2 or more, got 1.")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class C51LearnerConfig(C51Config, QLearnerConfig):
    """What the compiled program of a C51 learner depends on."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(dqn.AgentConfig, C51Config):
    """Static configuration of C51, beside that of [DQN][jaxagents.dqn.AgentConfig]."""


class Support(Hyperparameters):
    """Traced bounds of the returns.

    Attributes:
        v_min: Smallest return, to which smaller ones are moved.
        v_max: Largest return, to which larger ones are moved.
    """

    v_min: Traced = hyperparameter(-10.0, -float("inf"))
    v_max: Traced = hyperparameter(10.0, -float("inf"))

    def check_ranges(self, path: str = "") -> None:
        """Raises if a concrete value lies outside of its interval.

        Raises:
            ValueError: A value is out of its interval, or `v_max` is not above `v_min`.
        """
        super().check_ranges(path)
        if is_traced(self.v_min) or is_traced(self.v_max):
            return
        low, high = np.asarray(self.v_min), np.asarray(self.v_max)
        if not np.all((high > low) & np.isfinite(low) & np.isfinite(high)):
            raise ValueError(
                f"{path}v_max must be above {path}v_min, and both finite, got v_max={self.v_max} and "
                f"v_min={self.v_min}."
            )


class C51Hyperparameters(Support, QHyperparameters):
    """Traced hyperparameters of a C51 learner: those of Q-learning, and the bounds of the returns."""


class HyperParameters(Support, dqn.HyperParameters):
    """Traced hyperparameters of the agent.

    Those of [DQN][jaxagents.dqn.HyperParameters], and the bounds of the returns.
    """


class CategoricalQLearning(QLearning):
    """Q-learning of the distribution of returns over fixed atoms, as hooks.

    Bellemare et al., 2017, "A distributional perspective on reinforcement learning", algorithm 1.
    """

    def _atoms(self, learner: Any) -> Float[Array, "n_atoms"]:
        """The returns to which a probability is given."""
        hyperparams = learner.hyperparams
        return jnp.linspace(hyperparams.v_min, hyperparams.v_max, learner.config.n_atoms)

    def _logits(
        self, learner: Any, params: Any, obs: Any
    ) -> Float[Array, "*batch n_actions n_atoms"]:
        """Logits of the returns of every action."""
        return learner.critic(obs, params=params)

    def _means(
        self, learner: Any, logits: Float[Array, "*batch n_atoms"]
    ) -> Float[Array, "*batch"]:
        """Means of distributions of the returns."""
        return (jax.nn.softmax(logits) * self._atoms(learner)).sum(axis=-1)

    def _q(self, learner: Any, params: Any, obs: Any) -> Float[Array, "*batch n_actions"]:
        """The mean returns; see [`QLearning`][jaxagents.learners.q_learning.QLearning]."""
        return self._means(learner, self._logits(learner, params, obs))

    def _q_target(self, learner: Any, batch: Batch) -> Float[Array, "batch n_atoms"]:
        r"""Probabilities of the atoms under the distribution of $r + \gamma Z(s', a^*)$."""
        params, obs = learner.target_critic.params, batch["next_observations"]
        logits = self._logits(learner, params, obs)
        greedy = self._q(learner, params, obs).argmax(axis=-1)
        atoms = self._atoms(learner)
        probabilities = jax.nn.softmax(outputs_of(logits, greedy))
        returns = td_targets(learner, batch, jnp.broadcast_to(atoms, probabilities.shape))
        return ops.categorical_projection(atoms, returns, probabilities)

    def _loss(
        self, learner: Any, params: Any, batch: Batch, targets: Float[Array, "batch n_atoms"]
    ) -> tuple[Float[Array, "batch"], Info]:
        """The cross-entropy, which is also the priority."""
        logits = outputs_of(self._logits(learner, params, batch["observations"]), batch["actions"])
        losses = optax.softmax_cross_entropy(logits, targets)
        q = self._means(learner, logits)
        return losses, {"q": q, "td_errors": jax.lax.stop_gradient(losses)}


class C51Learner(CategoricalQLearning, QLearner):
    """Categorical DQN for batches.

    It learns by the hooks of [`CategoricalQLearning`][jaxagents.c51.CategoricalQLearning].

    Attributes:
        critic: The network.
        target_critic: Its slowly moving copy.
    """

    _config_type = C51LearnerConfig
    _hyperparams_type = C51Hyperparameters

    @classmethod
    def _n_outputs(cls, config: C51LearnerConfig) -> int:
        return config.n_atoms


class C51(CategoricalQLearning, dqn.DQNBase):
    """Categorical DQN, complete for discrete actions; see [`DQN`][jaxagents.dqn.DQN]."""

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _discrete_learner = C51Learner
