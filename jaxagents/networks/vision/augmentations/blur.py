"""Blurring."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxagents.networks.vision.augmentations.lifting import (
    Images,
    RandomKey,
    augmentation,
    check_pair,
    floats,
    for_some,
    like,
)


@augmentation
def gaussian_blur(
    key: RandomKey,
    images: Images,
    *,
    sigma: tuple[float, float] = (0.1, 2.0),
    kernel_size: int | None = None,
    probability: float = 1.0,
) -> Images:
    """Blurs images, which are continued by reflection at the border.

    Args:
        key: Random key.
        images: Images.
        sigma: Smallest and largest standard deviation of the kernel in pixels; (0, 0) changes nothing.
        kernel_size: Height and width of the kernel, an odd number; by default about a tenth of the
            images' smaller side, and at least 3, unless that side is a single pixel, where images stay
            as they are.
        probability: Share of images that are changed.

    Returns:
        The blurred images.

    Raises:
        ValueError: The bounds are out of order or negative, `kernel_size` is even or too large for the
            images, or `probability` is not in 0..1.
    """
    check_pair("sigma", sigma, 0.0, np.inf)
    n, height, width, channels = images.shape
    smaller = min(height, width)
    default_border = min(max(smaller // 20, 1), smaller - 1)
    size = 2 * default_border + 1 if kernel_size is None else kernel_size
    if size % 2 == 0 or not 0 <= size // 2 < smaller:
        raise ValueError(
            f"kernel_size must be odd, and less than twice the sides of {height} x {width} images, got "
            f"{size}."
        )
    sigma_key, choice_key = jax.random.split(key)
    deviation = jax.random.uniform(sigma_key, (n, 1), minval=sigma[0], maxval=sigma[1])
    distance = jnp.arange(size)[None] - size // 2
    weights = jnp.exp(-0.5 * jnp.square(distance / jnp.maximum(deviation, 1e-6)))
    weights = (weights / weights.sum(-1, keepdims=True)).T[:, :, None, None]

    def blur(x: Array, length: int, step: int) -> Array:
        terms = [w * x[:, :, i * step : i * step + length] for i, w in enumerate(weights)]
        return functools.reduce(jnp.add, terms)

    border = (size // 2, size // 2)
    x = floats(images).reshape(n, height, width * channels)
    x = jnp.pad(x, [(0, 0), border, (0, 0)], mode="reflect")
    x = x.reshape(n, 1, (height + size - 1) * width * channels)
    x = blur(x, height * width * channels, width * channels)
    x = jax.lax.optimization_barrier(x.reshape(n, height, width, channels))
    x = jnp.pad(x, [(0, 0), (0, 0), border, (0, 0)], mode="reflect")
    x = x.reshape(n, height, (width + size - 1) * channels)
    x = blur(jax.lax.optimization_barrier(x), width * channels, channels).reshape(images.shape)
    return for_some(choice_key, probability, like(images, x), images)
