"""Advantages of a rollout, and the returns that the critic is fitted to."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from jaxagents import ops
from jaxagents.agents.transitions import AdvantageInput, ReturnInput, Transition
from jaxagents.core.describe import name_of
from jaxagents.core.hyperparameters import Traced

BackwardStep = Callable[[Any, Any], tuple[Any, Any]]
"""Maps the accumulated value of the following step, and this step, to what is carried and collected."""


def with_targets(
    traj: Transition,
    gamma: Traced,
    gae_lambda: Traced,
    *,
    advantages: BackwardStep,
    returns: BackwardStep,
) -> Transition:
    """A rollout with its advantages and targets.

    Args:
        traj: The rollout with its values, shaped `(time, environments, ...)`.
        gamma: Discount.
        gae_lambda: Weight of the trace.
        advantages: One backward step of the advantages.
        returns: One backward step of the returns.

    Returns:
        The rollout.

    Raises:
        TypeError: A step gives something else than two arrays.
        ValueError: It gives arrays of other shapes, or rewards are shaped otherwise than values.
    """
    value, next_value = traj.value, traj.next_value
    reward = _of_values(traj.reward, value.shape)
    terminated, truncated = (
        jnp.broadcast_to(_append_axes(flag, value.ndim), value.shape)
        for flag in (traj.terminated, traj.truncated)
    )
    gamma, gae_lambda = (jnp.broadcast_to(x, value.shape) for x in (gamma, gae_lambda))

    def step(
        after: tuple[Array, Array], inputs: tuple[AdvantageInput, ReturnInput]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        advantage, advantage_out = _backward(advantages, after[0], inputs[0])
        target, target_out = _backward(returns, after[1], inputs[1])
        return (advantage, target), (advantage_out, target_out)

    inputs = (
        AdvantageInput(reward, value, next_value, terminated, gamma, gae_lambda),
        ReturnInput(reward, gamma * (1.0 - terminated), next_value, gae_lambda),
    )
    bootstrap = (jnp.zeros_like(value), next_value)
    advantage, target = ops.scan_backwards(step, inputs, bootstrap, truncated)
    return traj._replace(advantage=advantage, target=target)


def _of_values(reward: Array, shape: tuple[int, ...]) -> Array:
    """Rewards of all actors, each its own or the same."""
    of_all = (*shape[:2], *[1] * (len(shape) - 2))
    if jnp.shape(reward) not in (shape, of_all):
        raise ValueError(
            "The rewards of a rollout must be shaped as its values, (time, environments, *actors) of "
            f"{shape}, got shape {jnp.shape(reward)}."
        )
    return jnp.broadcast_to(reward, shape)


def _backward(step: BackwardStep, after: Array, inputs: Any) -> tuple[Array, Array]:
    name, output = name_of(step), step(after, inputs)
    expected = "what the step before is given, and the output of this step"
    if not isinstance(output, tuple) or len(output) != 2:
        raise TypeError(f"{name} must return two arrays, {expected}, got {output!r}.")
    shapes = [jnp.shape(x) for x in output]
    if shapes != [after.shape] * 2:
        raise ValueError(
            f"{name} must return two arrays of shape {after.shape}, {expected}, got shapes {shapes}."
        )
    first, second = (jnp.asarray(x, after.dtype) for x in output)  # counts and flags as numbers
    return first, second


def _append_axes(x: Array, ndim: int) -> Array:
    return x.reshape(*x.shape, *[1] * (ndim - x.ndim))
