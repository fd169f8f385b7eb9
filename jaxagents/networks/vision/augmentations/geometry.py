"""Crops and flips."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxagents.core.numbers import not_negative
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
def random_crop(key: RandomKey, images: Images, *, padding: int = 4) -> Images:
    """Shifts images by up to `padding` pixels, and repeats the pixels at the border.

    Kostrikov et al., 2021, "Image augmentation is all you need" (DrQ).

    Args:
        key: Random key.
        images: Images.
        padding: Largest shift in each direction; 0 changes nothing.

    Returns:
        The shifted images.

    Raises:
        TypeError: `padding` is not an integer.
        ValueError: It is negative.
    """
    padding = not_negative("padding", padding)
    n, height, width, channels = images.shape
    corners = jax.random.randint(key, (n, 2), 0, 2 * padding + 1)
    # Rows of bytes rather than of pixels: XLA copies long rows much faster.
    x = jnp.pad(images, [(0, 0), (0, 0), (padding, padding), (0, 0)], mode="edge")
    x = x.reshape(n, height, (width + 2 * padding) * channels)
    x = jnp.pad(x, [(0, 0), (padding, padding), (0, 0)], mode="edge")

    def crop(x: Array, corner: Array) -> Array:
        return jax.lax.dynamic_slice(
            x, (corner[0], corner[1] * channels), (height, width * channels)
        )

    return jax.vmap(crop)(x, corners).reshape(images.shape)


@augmentation
def random_resized_crop(
    key: RandomKey,
    images: Images,
    *,
    scale: tuple[float, float] = (0.5, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Images:
    """Enlarges a random part of each image to the image's size, with linear interpolation.

    Szegedy et al., 2015, "Going deeper with convolutions", section 6.

    Args:
        key: Random key.
        images: Images.
        scale: Smallest and largest share of an image's area; (1, 1) changes nothing if the ratio does
            not either.
        ratio: Smallest and largest ratio of the part's width to its height, relative to that of the
            image, drawn uniformly in logarithms. What would not fit into the image is cut off.

    Returns:
        The enlarged parts.

    Raises:
        ValueError: The bounds are out of order, a share is over 1, or a number is not positive.
    """
    check_pair("scale", scale, 0.0, 1.0)
    check_pair("ratio", ratio, 0.0, np.inf)
    if scale[0] == 0.0 or ratio[0] == 0.0:
        raise ValueError(f"scale and ratio must be above 0, got {scale} and {ratio}.")
    n, height, width, _ = images.shape
    area_key, ratio_key, corner_key = jax.random.split(key, 3)
    area = jax.random.uniform(area_key, (n, 1), minval=scale[0], maxval=scale[1])
    log_low, log_high = map(float, np.log(ratio))
    log_ratio = jax.random.uniform(ratio_key, (n, 1), minval=log_low, maxval=log_high)
    shares = jnp.sqrt(area * jnp.exp(log_ratio * jnp.array([[-1.0, 1.0]])))
    zoom = 1.0 / jnp.minimum(shares, 1.0)
    size = jnp.array([[height, width]], jnp.float32)
    shift = -jax.random.uniform(corner_key, (n, 2)) * (zoom - 1.0) * size

    def enlarge(image: Array, zoom: Array, shift: Array) -> Array:
        return jax.image.scale_and_translate(image, image.shape, (0, 1), zoom, shift, "linear")

    return like(images, jax.vmap(enlarge)(floats(images), zoom, shift))


@augmentation
def random_flip(key: RandomKey, images: Images, *, probability: float = 0.5) -> Images:
    """Swaps left and right.

    Args:
        key: Random key.
        images: Images.
        probability: Share of images that are changed.

    Returns:
        The images, some of them flipped.

    Raises:
        ValueError: `probability` is not in 0..1.
    """
    return for_some(key, probability, images[:, :, ::-1], images)
