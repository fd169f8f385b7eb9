"""Rewards of trainings on the host in units of the standard deviation of returns."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from jaxagents import ops
from jaxagents.agents.reward_scale import MOST_REWARD
from jaxagents.core.schedules import values_at
from jaxagents.data.replay_buffer import ENVIRONMENTS
from jaxagents.host.learner_like import LearnerLike


class RewardScale:
    r"""The running variance of the discounted returns of all transitions so far.

    With $n$ returns $R_i$, of which each is that of an episode up to a transition,

    $$\bar R_n = \bar R_{n - 1} + \frac{R_n - \bar R_{n - 1}}{n}, \qquad
    S_n = S_{n - 1} + (R_n - \bar R_{n - 1}) (R_n - \bar R_n), \qquad \sigma^2 = \frac{S_n}{n}$$

    Welford, 1962, "Note on a method for calculating corrected sums of squares and products". Returns
    that are NaN or infinite do not count, and start anew.
    """

    def __init__(self, learner: LearnerLike, n_envs: int) -> None:
        """Takes the discount of a learner's first update.

        Args:
            learner: The learner.
            n_envs: Number of environments.

        Raises:
            ValueError: Its hyperparameters have no discount.
        """
        hyperparams: Any = getattr(learner, "hyperparams", None)
        if not hasattr(hyperparams, "gamma"):
            raise ValueError(
                f"normalise_rewards needs a learner with a discount, but {type(learner).__name__} has "
                "no hyperparams.gamma."
            )
        self._gamma = float(values_at(hyperparams, 0).gamma)
        self._received = [0.0] * n_envs
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def observe(self, transitions: Mapping[str, PyTree]) -> None:
        """Takes the rewards of transitions, before anything is scaled.

        Args:
            transitions: One, or several of different environments with a leading axis.
        """
        rewards, ends = (np.atleast_1d(transitions[key]).tolist() for key in ("rewards", "ends"))
        environments = np.atleast_1d(transitions.get(ENVIRONMENTS, 0)).tolist()
        for reward, end, environment in zip(rewards, ends, environments, strict=True):
            now = self._received[environment] + reward
            is_finite = math.isfinite(now)
            self._received[environment] = self._gamma * now if is_finite and not end else 0.0
            if is_finite:
                self._add(now)

    def scaled(self, batch: Mapping[str, PyTree]) -> dict[str, PyTree]:
        """Transitions with scaled rewards, or as they are before any is observed."""
        return {**batch, "rewards": _scaled(batch["rewards"], self.variance)}

    @property
    def variance(self) -> np.float32:
        """The variance of the returns; 1 before there are any."""
        return np.float32(self._squares / self._count if self._count else 1.0)

    def forget(self, environments: list[int]) -> None:
        """Starts returns anew in environments whose episodes were given up."""
        for environment in environments:
            self._received[environment] = 0.0

    def state(self) -> dict[str, Any]:
        """Everything needed to continue from here, as JSON."""
        sums = {"count": self._count, "mean": self._mean, "squares": self._squares}
        return {"received": self._received, **sums}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continues from a state."""
        self._received = list(state["received"])
        self._count, self._mean, self._squares = (
            state[name] for name in ("count", "mean", "squares")
        )

    def _add(self, now: float) -> None:
        self._count += 1
        shift = now - self._mean
        self._mean += shift / self._count
        self._squares += shift * (now - self._mean)


@jax.jit
def _scaled(rewards: Float[Array, "..."], variance: Float[Array, ""]) -> Float[Array, "..."]:
    returns = ops.no_moments()._replace(variance=variance)
    return ops.scale_rewards(rewards, returns, MOST_REWARD)
