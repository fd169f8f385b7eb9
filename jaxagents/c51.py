"""Categorical DQN, "C51" (Bellemare et al., 2017): return distributions over fixed atoms."""

import dataclasses
from typing import SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from jaxagents import dqn, ops
from jaxagents.core.arrays import atleast_nd, is_traced
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


def _two_or_more(name: str, number: SupportsIndex) -> int:
    if positive(name, number) == 1:
        raise ValueError(f"{name} must be 2 or more, got 1.")
    return positive(name, number)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class C51Config(QConfig):
    """Static configuration of C51's learner, inherited by the agent's configuration.

    Attributes:
        n_atoms: Number of atoms of the return distribution.
        double: Whether the online network selects the next action and the target network evaluates it
            (van Hasselt et al., 2016, "Deep reinforcement learning with double Q-learning"). Otherwise
            the target network does both.
    """

    n_atoms: int = checked(51, _two_or_more)
    double: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(dqn.AgentConfig, C51Config):
    """Static configuration of C51, in addition to [DQN's][jaxagents.dqn.AgentConfig]."""


class C51Hyperparameters(QHyperparameters):
    """Traced hyperparameters of C51, in addition to Q-learning's.

    Attributes:
        v_min: Smallest atom; lower returns are clipped to it.
        v_max: Largest atom; higher returns are clipped to it.
    """

    v_min: Traced = hyperparameter(-10.0, -float("inf"), constant=True)
    v_max: Traced = hyperparameter(10.0, -float("inf"), constant=True)

    def check_ranges(self, path: str = "", single: bool = False) -> None:
        """Raises if a concrete value is out of range.

        Raises:
            ValueError: A value is out of range, or `v_max` is not above `v_min`.
        """
        super().check_ranges(path, single)
        if is_traced(self.v_min) or is_traced(self.v_max):
            return
        low, high = np.asarray(self.v_min), np.asarray(self.v_max)
        if not np.all((high > low) & np.isfinite(low) & np.isfinite(high)):
            raise ValueError(
                f"{path}v_max must be above {path}v_min, and both finite, got v_max={self.v_max} and "
                f"v_min={self.v_min}."
            )


class HyperParameters(C51Hyperparameters, dqn.HyperParameters):
    """Traced hyperparameters of the agent, including [DQN's][jaxagents.dqn.HyperParameters]."""


class C51Learner(DistributionalLearner[C51Config, C51Hyperparameters]):
    """C51's learner: Q-learning of return distributions over fixed atoms.

    Bellemare et al., 2017, "A distributional perspective on reinforcement learning", algorithm 1.

    Attributes:
        critic: The online network, which outputs logits of the atoms for every action.
        target_critic: The target network.
    """

    _config_type = C51Config
    _hyperparams_type = C51Hyperparameters
    hooks = (*DistributionalLearner.hooks, "_atoms", "_logits", "_means")

    @classmethod
    def _n_outputs(cls, config: C51Config) -> int:
        return config.n_atoms

    def _atoms(self) -> Float[Array, "n_atoms"]:
        """The returns at the atoms."""
        hyperparams = self.hyperparams
        return jnp.linspace(hyperparams.v_min, hyperparams.v_max, self.config.n_atoms)

    def _logits(self, params: PyTree, obs: PyTree) -> Float[Array, "*batch n_actions n_atoms"]:
        """Logits of each action's return distribution."""
        return self.critic(obs, params=params)

    def _means(self, logits: Float[Array, "*batch n_atoms"]) -> Float[Array, "*batch"]:
        """Means of return distributions."""
        return (jax.nn.softmax(logits) * atleast_nd(self._atoms(), logits.ndim)).sum(axis=-1)

    def _q(self, params: PyTree, obs: PyTree) -> Float[Array, "*batch n_actions"]:
        """The mean return of each action."""
        return self._means(self._logits(params, obs))

    def _q_target(self, batch: Batch) -> Float[Array, "batch n_atoms"]:
        r"""Probabilities of the atoms under the distribution of $r + \gamma Z(s', a^*)$."""
        params, obs = self.target_critic.params, batch["next_observations"]
        logits = self._logits(params, obs)
        atoms = self._atoms()
        probabilities = jax.nn.softmax(
            outputs_of(logits, self._next_actions(obs, self.config.double))
        )
        returns = td_targets(self, batch, jnp.broadcast_to(atoms, probabilities.shape))
        return ops.categorical_projection(atoms, returns, probabilities)

    def _loss(
        self, params: PyTree, batch: Batch, targets: Float[Array, "batch n_atoms"]
    ) -> tuple[Float[Array, "batch"], Info]:
        """The cross-entropy, which also sets the priority."""
        logits = outputs_of(self._logits(params, batch["observations"]), batch["actions"])
        losses = optax.softmax_cross_entropy(logits, targets)
        q = self._means(logits)
        return losses, {"q": q, "td_errors": jax.lax.stop_gradient(losses)}


class C51(dqn.DQNBase):
    """Categorical DQN for discrete actions; see [`DQN`][jaxagents.dqn.DQN]."""

    config: AgentConfig

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _discrete_learner = C51Learner
