"""Normalisation of batches, and means of samples that weigh more or less."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def standardise(
    x: Float[Array, "samples ..."],
    eps: float = 1e-8,
    weights: Float[Array, "samples ..."] | None = None,
) -> Float[Array, "samples ..."]:
    r"""Shifts and scales `x` to zero mean and unit deviation over its first axis.

    $$\hat x_i = \frac{x_i - \bar x}{\sigma_x + \epsilon}$$

    Args:
        x: Samples along the first axis; every further axis (actors) is treated on its own.
        eps: Added to the standard deviation, so that constant samples give zeros.
        weights: 1 for each sample that counts and 0 for the others, shaped as `x`; `None` counts all.

    Returns:
        The standardised samples, shaped as `x`; zeros for those that do not count.
    """
    if weights is None:
        x = x - x[:1]  # the mean of constant samples need not be exact, unless they are zeros
        mean, deviation = x.mean(axis=0, keepdims=True), x.std(axis=0, keepdims=True)
        return (x - mean) / (deviation + eps)
    x = x - jnp.take_along_axis(x, weights.argmax(axis=0)[None], axis=0)
    x = x - weighted_mean(x, weights)[None]
    deviation = jnp.sqrt(weighted_mean(jnp.square(x), weights))[None]
    return jnp.where(weights > 0.0, x / (deviation + eps), 0.0)


def weighted_mean(
    x: Float[Array, "..."], weights: Float[Array, "..."], axis: int | tuple[int, ...] = 0
) -> Float[Array, "..."]:
    r"""The mean of the samples that count.

    $$\frac{\sum_i w_i x_i}{\max\left(\sum_i w_i, 1\right)}$$

    Args:
        x: Samples.
        weights: 1 for each sample that counts and 0 for the others, shaped as `x`.
        axis: Axes of samples.

    Returns:
        The mean along these axes; zero where no sample counts.
    """
    counted = jnp.where(weights > 0.0, weights * x, 0.0)
    return counted.sum(axis) / jnp.maximum(weights.sum(axis), 1.0)
