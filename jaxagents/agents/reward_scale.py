"""Rewards in units of the standard deviation of returns, by running statistics."""

from jaxtyping import Array, Bool, Float

from jaxagents import ops, sharding
from jaxagents.core.hyperparameters import Traced

MOST_REWARD = 10.0
"""Standard deviations to which normalised rewards are clipped."""


def observe_rewards(
    rewards: Float[Array, "time environments *actors"],
    over: Bool[Array, "time environments"],
    received: Float[Array, "environments *actors"],
    returns: ops.Moments,
    gamma: Traced,
    replicated: bool,
    playing: Float[Array, "time environments *actors"] | None = None,
) -> tuple[Float[Array, "environments *actors"], ops.Moments]:
    """Adds the rewards of a rollout to the statistics.

    Args:
        rewards: True rewards.
        over: Whether episodes end, terminated or truncated, after the steps.
        received: Discounted rewards of the episodes before the rollout.
        returns: Moments of such returns at all earlier steps.
        gamma: Discount.
        replicated: Whether each device of a mesh adds up all of them, which gives the same sums on any
            number of devices.
        playing: 1 for each actor that is still playing at a step and 0 for one that has left; `None` if
            no actor leaves early.

    Returns:
        Both, after the rollout.
    """
    so_far, received = ops.running_returns(rewards, over, received, gamma)
    if replicated:
        so_far, playing = sharding.in_one_order((sharding.whole(so_far), playing))
    n_axes = so_far.ndim - returns.mean.ndim
    return received, ops.merge_moments(returns, ops.moments_of(so_far, n_axes, playing))
