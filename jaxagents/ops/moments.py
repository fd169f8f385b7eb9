"""Means and variances, running statistics, and normalisation."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Num

from jaxagents.core.arrays import beside
from jaxagents.ops.returns import steps_at_once

MOST_SAMPLES = 2**30 - 1
"""The largest count. Once it is reached, each batch is weighted as if this were the total."""
_EPSILON = 1e-8
"""Added to variances, so that constants normalise to zero."""


def weighted_mean(
    x: Float[Array, "..."], weights: Float[Array, "..."], axis: int | tuple[int, ...] = 0
) -> Float[Array, "..."]:
    r"""The mean of the samples with weight 1.

    $$\frac{\sum_i w_i x_i}{\max\left(\sum_i w_i, 1\right)}$$

    Args:
        x: Samples.
        weights: 1 for each sample that counts and 0 for the others, shaped like `x`.
        axis: Axes to average over.

    Returns:
        The mean along these axes; zero where no sample counts.
    """
    counted = jnp.where(weights > 0.0, weights * x, 0.0)
    return counted.sum(axis) / jnp.maximum(weights.sum(axis), 1.0)


def standardise(
    x: Float[Array, "samples ..."],
    eps: float = 1e-8,
    weights: Float[Array, "samples ..."] | None = None,
) -> Float[Array, "samples ..."]:
    r"""Shifts and scales `x` to zero mean and unit standard deviation over its first axis.

    $$\hat x_i = \frac{x_i - \bar x}{\sigma_x + \epsilon}$$

    Args:
        x: Samples along the first axis; other axes (actors) are standardised separately.
        eps: Added to the standard deviation, so that constant samples give zeros.
        weights: 1 for each sample that counts and 0 for the others, shaped like `x`; `None` counts all.

    Returns:
        The standardised samples, shaped like `x`; zero for samples that do not count. If only one
        counts for an actor, it is unchanged, because nothing would be learned from a zero.
    """
    if weights is None:
        x = x - x[:1]  # the mean of constants may be rounded, unless they are zeros
        mean, deviation = x.mean(axis=0, keepdims=True), x.std(axis=0, keepdims=True)
        return (x - mean) / (deviation + eps)
    shifted = x - jnp.take_along_axis(x, weights.argmax(axis=0)[None], axis=0)
    shifted = shifted - weighted_mean(shifted, weights)[None]
    deviation = jnp.sqrt(weighted_mean(jnp.square(shifted), weights))[None]
    is_alone = (weights > 0.0).sum(axis=0) == 1
    return jnp.where(weights > 0.0, jnp.where(is_alone, x, shifted / (deviation + eps)), 0.0)


class Moments(NamedTuple):
    """Mean and variance of samples.

    Attributes:
        mean: Mean of each component.
        variance: Population variance of each component.
        count: Number of samples, at most 2^30 - 1; per actor, in a shape that broadcasts to a sample,
            if some actors have fewer than others.
    """

    mean: Float[Array | np.ndarray, "*shape"]
    variance: Float[Array | np.ndarray, "*shape"]
    count: Int[Array | np.ndarray, "..."]


def no_moments(shape: tuple[int, ...] = (), counts: tuple[int, ...] = ()) -> Moments:
    """Moments of no samples; normalising with them changes nothing.

    Args:
        shape: Shape of one sample.
        counts: Shape of the counts.

    Returns:
        Means of zero and variances of one.
    """
    zeros = jnp.zeros(shape, jnp.float32)
    return Moments(zeros, jnp.ones(shape, jnp.float32), jnp.zeros(counts, jnp.int32))


def moments_of(
    samples: Float[Array, "samples ..."],
    n_axes: int = 1,
    weights: Float[Array, "samples ..."] | None = None,
) -> Moments:
    r"""Moments of samples along the first axes, in single precision.

    $$\bar x = m + \frac 1 n \sum_i (x_i - m), \qquad
    \sigma^2 = \frac 1 n \sum_i (x_i - m)^2 - (\bar x - m)^2$$

    where $m$ is the rounded mean, so that a mean far from zero costs no precision: Chan et al., 1983,
    "Algorithms for computing the sample variance", the corrected two-pass algorithm. Samples with NaN
    or infinity do not count.

    Args:
        samples: Samples along the first axes.
        n_axes: Number of sample axes.
        weights: 1 for each sample that counts and 0 for the others, in a shape that broadcasts to the
            samples, with the same first axes; `None` counts all.

    Returns:
        Their moments, or `no_moments` where none counts.
    """
    axes = tuple(range(n_axes))
    samples = samples.astype(jnp.float32)
    # Whether samples are finite, in the shape of their weights.
    shape = samples.shape[:n_axes] + (1,) * (samples.ndim - n_axes)
    shape = shape if weights is None else weights.shape
    inside = tuple(axis for axis, size in enumerate(shape) if size == 1)
    are_finite = jnp.isfinite(samples).all(inside, keepdims=True)
    counted = are_finite.astype(jnp.float32) if weights is None else weights * are_finite
    each, counts = jnp.broadcast_to(counted, samples.shape), counted.sum(axes)
    if weights is not None:
        # Sums round alike on any number of devices if the weights are laid out like the samples.
        samples, each = lax.optimization_barrier((samples, each))
        return _moments(samples, lambda x: weighted_mean(x, each, axes), axes, counts)
    of_finite = _moments(samples, lambda x: weighted_mean(x, each, axes), axes, counts.reshape(()))
    n_samples = jnp.asarray(min(math.prod(samples.shape[:n_axes]), MOST_SAMPLES), jnp.int32)
    of_all = _moments(samples, lambda x: x.mean(axes), axes, n_samples)
    return jax.tree.map(partial(jnp.where, are_finite.all()), of_all, of_finite)


def _moments(
    samples: Float[Array, "samples ..."],
    mean: Callable[[Array], Array],
    axes: tuple[int, ...],
    counts: Num[Array, "..."],
) -> Moments:
    """Moments of samples, given a function that averages over `axes` and the sample counts."""
    rounded = mean(samples)
    differences = samples - jnp.expand_dims(rounded, axes)
    correction = mean(differences)
    variance = mean(jnp.square(differences)) - jnp.square(correction)
    variance = jnp.where(counts > 0, jnp.maximum(variance, 0.0), 1.0)
    count = jnp.minimum(counts, MOST_SAMPLES).astype(jnp.int32)
    return Moments(rounded + correction, variance, count)


def merge_moments(moments: Moments, others: Moments) -> Moments:
    r"""Combines the moments of two sets of samples.

    $$\bar x = \bar x_a + w \delta, \qquad
    \sigma^2 = \sigma_a^2 + w (\sigma_b^2 - \sigma_a^2) + w (1 - w) \delta^2,$$

    $$w = \frac{n_b}{n_a + n_b}, \qquad \delta = \bar x_b - \bar x_a$$

    Chan et al., 1979, "Updating formulae and a pairwise algorithm for computing sample variances",
    for variances instead of sums of squares, which would grow without bound.

    Args:
        moments: Moments of many samples ($a$), or of none yet.
        others: Moments of new samples ($b$).

    Returns:
        The moments, with counts of at most `MOST_SAMPLES`.
    """
    count = moments.count + others.count
    weight = others.count.astype(jnp.float32) / jnp.maximum(count, 1).astype(jnp.float32)
    shift = others.mean - moments.mean
    spread = weight * (others.variance - moments.variance)
    variance = moments.variance + spread + weight * (1.0 - weight) * jnp.square(shift)
    is_first = moments.count == 0
    return Moments(
        mean=jnp.where(is_first, others.mean, moments.mean + weight * shift),
        variance=jnp.where(is_first, others.variance, jnp.maximum(variance, 0.0)),
        count=jnp.minimum(count, MOST_SAMPLES),
    )


def normalise(x: Float[Array, "*shape"], moments: Moments, clip: float) -> Float[Array, "*shape"]:
    r"""Shifts and scales values to zero mean and unit variance, and clips them.

    $$\operatorname{clip}\left(\frac{x - \bar x}{\sqrt{\sigma^2 + \epsilon}}, -c, c\right)$$

    Args:
        x: Values, sample axes first.
        moments: Mean $\bar x$ and variance $\sigma^2$.
        clip: Largest absolute value $c$.

    Returns:
        The normalised values, in single precision.
    """
    mean, variance = beside(x, moments.mean, moments.variance)
    differences = x.astype(jnp.float32) - mean
    return jnp.clip(differences * lax.rsqrt(variance + _EPSILON), -clip, clip)


def denormalise(x: Float[Array, "*shape"], moments: Moments) -> Float[Array, "*shape"]:
    r"""Undoes [`normalise`][jaxagents.ops.normalise], except for the clipping.

    $$x \sqrt{\sigma^2 + \epsilon} + \bar x$$

    Args:
        x: Normalised values, sample axes first.
        moments: Mean $\bar x$ and variance $\sigma^2$.

    Returns:
        The values on their original scale.
    """
    mean, variance = beside(x, moments.mean, moments.variance)
    return x * jnp.sqrt(variance + _EPSILON) + mean


def scale_rewards(
    rewards: Float[Array, "*shape"], returns: Moments, clip: float
) -> Float[Array, "*shape"]:
    r"""Divides rewards by the standard deviation of returns, and clips them.

    $$\operatorname{clip}\left(\frac{r}{\sqrt{\sigma_R^2 + \epsilon}}, -c, c\right)$$

    with the returns of [`running_returns`][jaxagents.ops.running_returns]. Engstrom et al., 2020,
    "Implementation matters in deep policy gradients", section 2. Rewards are not shifted, as that
    would change the optimal policy.

    Args:
        rewards: Rewards.
        returns: Moments of the returns.
        clip: Largest absolute value $c$.

    Returns:
        The scaled rewards.
    """
    (variance,) = beside(rewards, returns.variance)
    return jnp.clip(rewards * lax.rsqrt(variance + _EPSILON), -clip, clip)


def running_returns(
    rewards: Float[Array, "time *batch"],
    over: Bool[Array, "time ..."],
    before: Float[Array, "*batch"],
    gamma: float | Float[Array, ""],
) -> tuple[Float[Array, "time *batch"], Float[Array, "*batch"]]:
    r"""Discounted sums of rewards so far in each episode.

    $$R_t = \gamma (1 - d_{t-1}) R_{t-1} + r_t$$

    where $d_t = 1$ if the episode ends after step $t$. The sum also restarts after a NaN or infinite
    return.

    Args:
        rewards: Rewards.
        over: Whether the episode ends after each step, terminated or truncated; shaped like the leading
            axes of the rewards.
        before: The discounted return carried into the first step.
        gamma: Discount factor.

    Returns:
        The returns $R_t$, and the discounted return carried into the next step.
    """
    over = over.reshape(*over.shape, *[1] * (rewards.ndim - over.ndim))

    def step(carried: Array, at_t: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, over = at_t
        now = carried + reward
        return jnp.where(over | ~jnp.isfinite(now), 0.0, gamma * now), now

    last, returns = lax.scan(step, before, (rewards, over), unroll=steps_at_once())
    return returns, last
