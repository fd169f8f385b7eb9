"""Returns and advantages of rollouts that may span several episodes.

Arrays are time first. Two flags end an episode. A *terminated* step has no future. A *truncated*
step has one that was cut off: it bootstraps from the value of its true successor, and nothing
carries over from the next episode.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

from jaxagents.core.arrays import beside

Scalar = float | Float[Array, ""]
StepFunction = Callable[[Any, Any], tuple[PyTree, PyTree]]


def steps_at_once() -> int:
    """How many steps of a loop over a few numbers to unroll on the default backend.

    On an accelerator, launching such a kernel takes longer than running it.
    """
    return 1 if jax.default_backend() == "cpu" else 16


def scan_backwards(
    step: StepFunction,
    inputs: PyTree,
    bootstrap: PyTree[Float[Array, "time ..."]],
    truncated: Bool[Array, "time ..."],
) -> PyTree[Float[Array, "time ..."]]:
    """Scans `step` from the last time step to the first, restarting at every truncation.

    Args:
        step: Maps the carry from time t+1 and the inputs at time t to the carry and the output at time
            t.
        inputs: Pytree whose leaves have a leading time axis.
        bootstrap: The carry to use after each time step if the episode is truncated or the rollout ends
            there, as an array or a pytree.
        truncated: Whether the episode is truncated after each time step.

    Returns:
        The outputs of `step`, time first.
    """

    def cut_then_step(accumulated: PyTree, at_t: PyTree) -> tuple[PyTree, PyTree]:
        inputs_t, bootstrap_t, truncated_t = at_t
        cut = jax.tree.map(partial(jnp.where, truncated_t), bootstrap_t, accumulated)
        return step(cut, inputs_t)

    last = jax.tree.map(operator.itemgetter(-1), bootstrap)
    steps = inputs, bootstrap, truncated
    return jax.lax.scan(cut_then_step, last, steps, reverse=True, unroll=steps_at_once())[1]


def gae_step(
    next_advantage: Float[Array, "*batch"],
    reward: Float[Array, "*batch"],
    value: Float[Array, "*batch"],
    next_value: Float[Array, "*batch"],
    terminated: Bool[Array, "*batch"],
    gamma: Scalar | Float[Array, "*batch"],
    gae_lambda: Scalar | Float[Array, "*batch"],
) -> Float[Array, "*batch"]:
    r"""One backward step of generalised advantage estimation.

    $$\hat A_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t) + \gamma \lambda (1 - d_t) \hat
    A_{t+1}$$

    Schulman et al., 2016, "High-dimensional continuous control using generalized advantage
    estimation", equation 16.

    Args:
        next_advantage: Advantage of the next step.
        reward: Reward of this step.
        value: Value of the observation acted on.
        next_value: Value of the true successor.
        terminated: Whether the successor is terminal.
        gamma: Discount factor.
        gae_lambda: Trace decay $\lambda$.

    Returns:
        The advantage of this step.
    """
    discount = gamma * (1.0 - terminated)
    return reward + discount * next_value - value + discount * gae_lambda * next_advantage


def generalised_advantages(
    rewards: Float[Array, "time *batch"],
    values: Float[Array, "time *batch"],
    next_values: Float[Array, "time *batch"],
    terminated: Bool[Array, "time *batch"],
    truncated: Bool[Array, "time *batch"],
    gamma: Scalar,
    gae_lambda: Scalar,
) -> Float[Array, "time *batch"]:
    """Generalised advantage estimates of a rollout (see [`gae_step`][jaxagents.ops.gae_step]).

    Args:
        rewards: Rewards.
        values: Values of the observations acted on.
        next_values: Values of the true successors, before any reset.
        terminated: Whether the successor is terminal.
        truncated: Whether the episode was truncated after the step.
        gamma: Discount factor.
        gae_lambda: Trace decay.

    Returns:
        The advantages.
    """

    def step(next_advantage: Array, at_t: tuple[Array, ...]) -> tuple[Array, Array]:
        advantage = gae_step(next_advantage, *at_t, gamma=gamma, gae_lambda=gae_lambda)
        return advantage, advantage

    inputs = (rewards, values, next_values, terminated)
    return scan_backwards(step, inputs, jnp.zeros_like(values), truncated)


def lambda_return_step(
    next_return: Float[Array, "*batch"],
    reward: Float[Array, "*batch"],
    discount: Float[Array, "*batch"],
    next_value: Float[Array, "*batch"],
    gae_lambda: Scalar | Float[Array, "*batch"],
) -> Float[Array, "*batch"]:
    r"""One backward step of the lambda-return.

    $$G_t^\lambda = r_t + \gamma_t \left((1 - \lambda) V(s_{t+1}) + \lambda G_{t+1}^\lambda\right)$$

    Sutton and Barto, 2018, "Reinforcement learning: an introduction", section 12.1.

    Args:
        next_return: Lambda-return of the next step.
        reward: Reward of this step.
        discount: Discount $\gamma_t$, zero where the successor is terminal.
        next_value: Value of the true successor.
        gae_lambda: Trace decay $\lambda$.

    Returns:
        The lambda-return of this step.
    """
    return reward + discount * ((1.0 - gae_lambda) * next_value + gae_lambda * next_return)


def lambda_returns(
    rewards: Float[Array, "time *batch"],
    next_values: Float[Array, "time *batch"],
    terminated: Bool[Array, "time *batch"],
    truncated: Bool[Array, "time *batch"],
    gamma: Scalar,
    gae_lambda: Scalar,
) -> Float[Array, "time *batch"]:
    """Lambda-returns of a rollout (see [`lambda_return_step`][jaxagents.ops.lambda_return_step]).

    With `gae_lambda=1` these are Monte Carlo returns, bootstrapped where an episode is truncated and at
    the end of the rollout.

    Args:
        rewards: Rewards.
        next_values: Values of the true successors, before any reset.
        terminated: Whether the successor is terminal.
        truncated: Whether the episode was truncated after the step.
        gamma: Discount factor.
        gae_lambda: Trace decay.

    Returns:
        The returns.
    """

    def step(next_return: Array, at_t: tuple[Array, ...]) -> tuple[Array, Array]:
        value = lambda_return_step(next_return, *at_t, gae_lambda=gae_lambda)
        return value, value

    inputs = (rewards, gamma * (1.0 - terminated), next_values)
    return scan_backwards(step, inputs, next_values, truncated)


def n_step_rewards(
    rewards: Float[Array, "*shape n"], goes_on: Bool[Array, "*shape n-1"], gamma: ArrayLike
) -> tuple[Float[Array, "*shape"], Int[Array, "*shape"], Float[Array, "*shape"]]:
    r"""Discounted sum of up to `n` rewards, stopping at the end of the episode.

    $$\sum_{k=0}^{m-1} \gamma^k r_{t+k}$$

    Sutton, 1988, "Learning to predict by the methods of temporal differences".

    Args:
        rewards: Rewards of `n` steps in order.
        goes_on: Whether the episode continues after each step but the last.
        gamma: Discount factor $\gamma$.

    Returns:
        The sum, the number of steps $m$, and $\gamma^m$, the discount of the successor's value.
    """
    n = rewards.shape[-1]
    m = 1 + jnp.cumprod(goes_on, axis=-1, dtype=jnp.int32).sum(axis=-1)
    powers = jnp.asarray(gamma, jnp.float32) ** jnp.arange(n + 1)
    steps, factors = beside(rewards, jnp.arange(n), powers[:-1])
    summed = jnp.where(steps < m[..., None], factors * rewards, 0.0).sum(axis=-1)
    return summed, m, powers[m]
