"""Actors that are still playing: their samples count, and those of actors that have left do not."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.agents.sequences import Sequence, samples
from jaxagents.agents.transitions import Transition
from jaxagents.core.hyperparameters import Traced
from jaxagents.core.observed import actor_mask
from jaxagents.learners.losses import Info

Weights = Float[Array, "..."] | None
"""1 for each actor that is still playing and 0 for one that has left; `None` if none leaves early."""


def playing(obs: PyTree) -> Weights:
    """Weights of actors.

    Args:
        obs: Observations, with any leading axes.

    Returns:
        The weights, with the same leading axes.
    """
    mask = actor_mask(obs)
    return None if mask is None else jnp.asarray(mask, jnp.float32)


def playing_in_minibatch(obs: PyTree) -> Weights:
    """Weights of actors in the observations that losses are given.

    Args:
        obs: Observations of a minibatch, samples or sequences.

    Returns:
        The weights, samples first.
    """
    if not isinstance(obs, Sequence):
        return playing(obs)
    return samples(playing(obs.obs))


def shares_of(weights: Weights) -> Weights:
    r"""Weights whose mean is 1, so that the mean of what they multiply is that of those that count.

    $$w_i \frac{N}{\max\left(\sum_j w_j, 1\right)}$$

    Args:
        weights: Weights of a minibatch.

    Returns:
        The weights.
    """
    if weights is None:
        return None
    return weights * (weights.size / jnp.maximum(weights.sum(), 1.0))


def weighed(losses_and_info: tuple[Array, Info], weights: Weights) -> tuple[Array, Info]:
    """Losses and what describes samples, multiplied by weights.

    Args:
        losses_and_info: Losses, and arrays to report.
        weights: Weights, samples first.

    Returns:
        Both. Whatever does not have a number for each actor is as it was.
    """
    if weights is None:
        return losses_and_info

    def of_actors(x: Array) -> Array:
        if x.shape[: weights.ndim] != weights.shape:
            return x
        by_actor = weights.reshape(*weights.shape, *[1] * (x.ndim - weights.ndim))
        return jnp.where(by_actor > 0.0, x * by_actor.astype(x.dtype), 0)

    return jax.tree.map(of_actors, losses_and_info)


def without_values_of_departed(
    traj: Transition, gae_lambda: Traced
) -> tuple[Transition, Traced | Float[Array, "time environments actors"]]:
    """A rollout in which values of actors that have left, which no critic learns, play no part.

    What such an actor is still rewarded, until its episode or the rollout ends, is summed up.

    Args:
        traj: The rollout with its values.
        gae_lambda: Weight of the trace.

    Returns:
        The rollout, with values of zero for actors that have left; and the weight of the trace, 1 where
        the successor has no value.
    """
    now, later = playing(traj.obs), playing(traj.next_obs)
    if now is None or later is None:
        return traj, gae_lambda
    stays: Bool[Array, "..."] = later > 0.0
    value, next_value = now * traj.value, later * traj.next_value
    return traj._replace(value=value, next_value=next_value), jnp.where(stays, gae_lambda, 1.0)
