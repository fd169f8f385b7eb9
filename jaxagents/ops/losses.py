"""Policy and value losses, per sample."""

import functools

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxagents.ops.moments import weighted_mean

Scalar = float | Float[Array, ""]

_SMALLEST_DEVIATION = 1e-6
"""Relative to the mean; returns that deviate less count as constant."""


def policy_gradient(
    log_prob: Float[Array, "*batch"], advantage: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    r"""The objective whose gradient is the policy gradient.

    $$L_t = \log \pi(a_t | s_t) \, A_t$$

    Williams, 1992, "Simple statistical gradient-following algorithms for connectionist
    reinforcement learning".

    Args:
        log_prob: Log-probability of the actions taken.
        advantage: Advantage of these actions.

    Returns:
        The objective of each sample, to be maximised.
    """
    return log_prob * advantage


def clipped_surrogate(
    log_prob: Float[Array, "*batch"],
    log_prob_old: Float[Array, "*batch"],
    advantage: Float[Array, "*batch"],
    eps_clip: Scalar,
) -> Float[Array, "*batch"]:
    r"""The clipped surrogate objective of PPO.

    $$L_t = \min\left(\rho_t A_t,\ \operatorname{clip}(\rho_t, 1 - \epsilon, 1 + \epsilon)
    A_t\right), \quad \rho_t = \frac{\pi(a_t | s_t)}{\pi_\text{old}(a_t | s_t)}$$

    Schulman et al., 2017, "Proximal policy optimization algorithms", equation 7.

    Args:
        log_prob: Log-probability of the actions under the policy in training.
        log_prob_old: Log-probability of the actions under the policy that took them.
        advantage: Advantage of the actions.
        eps_clip: Clip range $\epsilon$: largest deviation of the ratio from 1 that is rewarded.

    Returns:
        The objective of each sample, to be maximised.
    """
    ratio = jnp.exp(log_prob - log_prob_old)
    clipped_ratio = jnp.clip(ratio, 1.0 - eps_clip, 1.0 + eps_clip)
    return jnp.minimum(ratio * advantage, clipped_ratio * advantage)


def is_clipped(
    log_prob: Float[Array, "*batch"], log_prob_old: Float[Array, "*batch"], eps_clip: Scalar
) -> Bool[Array, "*batch"]:
    r"""Whether the probability ratio lies beyond the clip range, $|\rho_t - 1| > \epsilon$.

    Its mean is the clip fraction.

    Args:
        log_prob: Log-probability of the actions under the policy in training.
        log_prob_old: Log-probability of the actions under the policy that took them.
        eps_clip: Clip range $\epsilon$: largest deviation of the ratio from 1 that is rewarded.

    Returns:
        Whether each sample is clipped.
    """
    return jnp.abs(jnp.expm1(log_prob - log_prob_old)) > eps_clip


def approximate_kl(
    log_prob: Float[Array, "*batch"], log_prob_old: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    r"""A non-negative, unbiased estimate of the KL divergence of the old policy from the new one.

    $$k_t = (\rho_t - 1) - \log \rho_t, \quad
    \mathbb{E}_{\pi_\text{old}}[k_t] = \mathrm{KL}(\pi_\text{old} \| \pi)$$

    Schulman, 2020, "Approximating KL divergence" (estimator k3).

    Args:
        log_prob: Log-probability of the actions under the policy in training.
        log_prob_old: Log-probability of the actions under the policy that took them.

    Returns:
        The estimate of each sample, in nats.
    """
    log_ratio = log_prob - log_prob_old
    return jnp.expm1(log_ratio) - log_ratio


def value_loss(
    value: Float[Array, "*batch"], target: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    r"""The squared error of a value estimate, $(V(s_t) - G_t)^2$.

    Args:
        value: Estimated values.
        target: Target returns.

    Returns:
        The loss of each sample.
    """
    return jnp.square(value - target)


def clipped_value_loss(
    value: Float[Array, "*batch"],
    value_old: Float[Array, "*batch"],
    target: Float[Array, "*batch"],
    eps_clip: Scalar,
) -> Float[Array, "*batch"]:
    r"""The squared error of a value estimate, with no reward for moving far from the old estimate.

    $$\max\left((V - G)^2,\ (V_\text{old} + \operatorname{clip}(V - V_\text{old}, -\epsilon,
    \epsilon) - G)^2\right)$$

    Engstrom et al., 2020, "Implementation matters in deep policy gradients", section 3.

    Args:
        value: Estimated values.
        value_old: Values estimated when the data were collected.
        target: Target returns.
        eps_clip: Largest change $\epsilon$ of the value that is rewarded, in units of return.

    Returns:
        The loss of each sample.
    """
    clipped_value = value_old + jnp.clip(value - value_old, -eps_clip, eps_clip)
    return jnp.maximum(value_loss(value, target), value_loss(clipped_value, target))


def explained_variance(
    value: Float[Array, "time environments ..."],
    target: Float[Array, "time environments ..."],
    weights: Float[Array, "time environments ..."] | None = None,
) -> Float[Array, "..."]:
    r"""The fraction of the variance of returns that values explain.

    $$1 - \frac{\operatorname{Var}(G - V)}{\operatorname{Var}(G)}$$

    Args:
        value: Values $V$ of a rollout.
        target: Returns $G$.
        weights: 1 for each sample that counts and 0 for the others; `None` counts all.

    Returns:
        The fraction (per actor): 1 for perfect values, 0 for constant ones, negative for worse ones; 0
        where returns vary by less than a millionth of their mean, which may be rounding.
    """
    samples = jnp.stack([target - value, target])
    average = functools.partial(jnp.mean, axis=(1, 2))
    if weights is not None:
        weights = jnp.broadcast_to(weights, samples.shape)
        average = functools.partial(weighted_mean, weights=weights, axis=(1, 2))
    mean = average(samples)
    unexplained, variance = average(jnp.square(samples - mean[:, None, None]))
    varies = variance > jnp.square(_SMALLEST_DEVIATION * mean[1])
    return jnp.where(varies, 1.0 - unexplained / jnp.where(varies, variance, 1.0), 0.0)
