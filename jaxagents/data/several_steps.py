"""Rewards over several steps."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from jaxagents.core.arrays import beside

OF_THE_LAST = ("next_observations", "masks", "ends")
"""The keys that transitions over several steps take from the last of their rows."""


class SeveralSteps(NamedTuple):
    """The reward and the discount of a transition over several steps.

    Attributes:
        rewards: Sum of the discounted rewards.
        n_steps: Number of steps.
        discounts: Weight of the value of the successor.
    """

    rewards: Float[Array, "*shape"]
    n_steps: Int[Array, "*shape"]
    discounts: Float[Array, "*shape"]


def several_steps(
    rewards: Float[Array, "*shape n"], goes_on: Bool[Array, "*shape n-1"], gamma: ArrayLike
) -> SeveralSteps:
    r"""Sums rewards as far as an episode goes on.

    $$\sum_{k=0}^{m-1} \gamma^k r_{t+k}$$

    Sutton, 1988, "Learning to predict by the methods of temporal differences".

    Args:
        rewards: Rewards of `n` steps in order.
        goes_on: Whether the step after each but the last belongs to it.
        gamma: $\gamma$.

    Returns:
        The sum, the number of steps $m$, and $\gamma^m$.
    """
    n = rewards.shape[-1]
    m = 1 + jnp.cumprod(goes_on, axis=-1, dtype=jnp.int32).sum(axis=-1)
    powers = jnp.asarray(gamma, jnp.float32) ** jnp.arange(n + 1)
    steps, factors = beside(rewards, jnp.arange(n), powers[:-1])
    summed = jnp.where(steps < m[..., None], factors * rewards, 0.0).sum(axis=-1)
    return SeveralSteps(summed, m, powers[m])
