"""Values in units of the returns that critics are fitted to, by running statistics."""

import math

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents import ops
from jaxagents.agents.playing import Weights
from jaxagents.agents.transitions import Transition

_REMEMBERED = 100
"""Rollouts. Returns grow while an agent learns, so that those of long ago are to be forgotten."""


def no_targets(critic: nn.Module, actors_shape: tuple[int, ...], some_leave: bool) -> ops.Moments:
    """Moments of returns before the first.

    Args:
        critic: The critic. Actors that share all its parameters share the moments.
        actors_shape: `()` for one actor, `(n_actors,)` for several.
        some_leave: Whether actors may leave before the others.

    Returns:
        The moments (of each actor).
    """
    shape = () if _shares_params(critic) else actors_shape
    return ops.no_moments(shape, shape if some_leave else ())


def observe_targets(
    targets: Float[Array, "..."], weights: Weights, moments: ops.Moments
) -> ops.Moments:
    """Adds the returns of a rollout to the moments.

    Each rollout weighs as much as every other until there are 100 of them, and 1% from then on.

    Args:
        targets: The targets of the rollout, with leading axes of samples.
        weights: Weights of actors, with the same axes.
        moments: Moments of the targets of all earlier rollouts.

    Returns:
        The moments.
    """
    n_axes = targets.ndim - moments.mean.ndim
    merged = ops.merge_moments(moments, ops.moments_of(targets, n_axes, weights))
    most = min((_REMEMBERED - 1) * math.prod(targets.shape[:n_axes]), ops.MOST_SAMPLES)
    return merged._replace(count=jnp.minimum(merged.count, most))


def with_true_values(traj: Transition, moments: ops.Moments) -> Transition:
    """A rollout whose values are no longer in the critic's units."""
    values = ops.denormalise(traj.value, moments), ops.denormalise(traj.next_value, moments)
    return traj._replace(value=values[0], next_value=values[1])


def in_units_of_critic(traj: Transition, moments: ops.Moments, after: ops.Moments) -> Transition:
    """A rollout in the critic's units.

    Args:
        traj: The rollout, with true values and targets.
        moments: Moments of the targets of earlier rollouts.
        after: Those with the targets of this one.

    Returns:
        The rollout with the values that the critic gave, and with targets as it is to give them.
    """
    value = ops.normalise(traj.value, moments, jnp.inf)
    return traj._replace(value=value, target=ops.normalise(traj.target, after, jnp.inf))


def _shares_params(network: nn.Module | None) -> bool:
    """Whether a network, or one inside of it, has the same parameters for all actors."""
    if network is None or getattr(network, "shared_params", False):
        return network is not None
    return _shares_params(getattr(network, "network", None))
