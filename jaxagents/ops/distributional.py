"""Distributions of returns: their projection on a grid, and the regression of their quantiles."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxagents.core.arrays import atleast_nd

Scalar = float | Float[Array, ""]


def categorical_projection(
    support: Float[Array, "n"],
    atoms: Float[Array, "*batch atoms"],
    probs: Float[Array, "*batch atoms"],
) -> Float[Array, "*batch n"]:
    r"""The distribution on a fixed support that is nearest to one on other atoms.

    The probability of every atom is shared by its two neighbours in the support, in proportion to its
    nearness; atoms beyond the support count as its ends.

    $$(\Phi Z)_i = \sum_j \left[1 - \frac{|[z_j]_{x_1}^{x_n} - x_i|}{\Delta x}\right]_0^1 p_j$$

    Bellemare et al., 2017, "A distributional perspective on reinforcement learning", equation 7 and
    algorithm 1.

    Args:
        support: Two or more equally spaced returns $x$, in increasing order.
        atoms: Returns $z$, such as the support shifted by a reward.
        probs: Their probabilities $p$.

    Returns:
        The probabilities of the support.
    """
    last = support.shape[0] - 1
    positions = jnp.clip((atoms - support[0]) * last / (support[-1] - support[0]), 0.0, last)
    distances = jnp.abs(positions[..., None] - atleast_nd(jnp.arange(last + 1), atoms.ndim + 1))
    nearness = jnp.maximum(1.0 - distances, 0.0)
    return jnp.einsum("...j,...ji->...i", probs, nearness, precision="highest")


def quantile_midpoints(n: int) -> Float[Array, "n"]:
    r"""The quantiles that represent a distribution best, $\hat\tau_i = (2 i - 1) / 2 n$.

    Dabney et al., 2018, "Distributional reinforcement learning with quantile regression", lemma 2.

    Args:
        n: Number of quantiles.

    Returns:
        The probability below each of them.
    """
    return (jnp.arange(n, dtype=jnp.float32) + 0.5) / n


def quantile_huber_loss(
    quantiles: Float[Array, "*batch n"], targets: Float[Array, "*batch m"], kappa: Scalar
) -> Float[Array, "*batch"]:
    r"""The asymmetric Huber loss, whose minimum for a small $\kappa$ is at quantiles of the targets.

    $$L = \sum_i \frac{1}{m} \sum_j |\hat\tau_i - 1(u_{ij} < 0)| \, H_\kappa(u_{ij}),
    \quad u_{ij} = y_j - \theta_i$$

    $$H_\kappa(u) = \begin{cases}
    \frac{1}{2} u^2 & |u| \le \kappa \\ \kappa \, (|u| - \frac{1}{2} \kappa) & |u| > \kappa
    \end{cases}$$

    Dabney et al., 2018, "Distributional reinforcement learning with quantile regression", equations 9
    and 10 and algorithm 1.

    Args:
        quantiles: Estimates $\theta$ at the [midpoints][jaxagents.ops.quantile_midpoints] $\hat\tau$.
        targets: Samples $y$ of what is estimated.
        kappa: Error $\kappa$ from which the loss is linear; 0 gives the loss of quantile regression,
            with $H_0(u) = |u|$.

    Returns:
        The loss of each sample.
    """
    error = targets[..., None, :] - quantiles[..., :, None]
    size = jnp.abs(error)
    quadratic = jnp.minimum(size, kappa)
    huber = jnp.where(kappa > 0.0, quadratic * (size - 0.5 * quadratic), size)
    midpoints = quantile_midpoints(quantiles.shape[-1])[:, None]
    weights = jnp.where(error < 0.0, 1.0 - midpoints, midpoints)
    return (weights * huber).mean(axis=-1).sum(axis=-1)
