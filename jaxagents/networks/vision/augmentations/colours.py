"""Changes of colours."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxagents.networks.vision.augmentations.lifting import (
    Images,
    RandomKey,
    augmentation,
    check,
    floats,
    for_some,
    like,
)

Planes = Float[Array, "colours batch height width"]
_LUMA = (0.299, 0.587, 0.114)


@augmentation
def colour_jitter(
    key: RandomKey,
    images: Images,
    *,
    brightness: float = 0.4,
    contrast: float = 0.4,
    saturation: float = 0.2,
    hue: float = 0.1,
    probability: float = 1.0,
) -> Images:
    r"""Changes brightness, contrast, saturation and hue, in this order.

    With a factor $f$ drawn from $[\max(0, 1 - s), 1 + s]$ for a setting $s$, an image $x$ becomes
    $f x + (1 - f) y$, where $y$ is black for the brightness, the mean luminance of the image for the
    contrast, and each pixel's luminance for the saturation. The hue is turned by a share of the circle
    drawn from $[-s, s]$. The result is clipped to the range of pixels.

    Chen et al., 2020, "A simple framework for contrastive learning of visual representations"
    (SimCLR), appendix A; the default settings are those of Grill et al., 2020, "Bootstrap your own
    latent".

    Args:
        key: Random key.
        images: Images with three channels: red, green and blue.
        brightness: Setting of the brightness; where all settings are 0, nothing changes.
        contrast: Setting of the contrast.
        saturation: Setting of the saturation.
        hue: Setting of the hue, at most 0.5.
        probability: Share of images that are changed.

    Returns:
        The images in other colours.

    Raises:
        ValueError: A setting is negative, the hue's larger than 0.5, `probability` not in 0..1, or the
            images have not three channels.
    """
    settings = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    for name, setting in settings.items():
        check(name, setting, 0.0, np.inf)
    check("hue", hue, 0.0, 0.5)
    _check_colours(images)
    if not any((brightness, contrast, saturation, hue)):
        return images
    n = images.shape[0]
    factor_key, hue_key, choice_key = jax.random.split(key, 3)
    strengths = jnp.array(list(settings.values()))[:, None, None, None, None]
    low = jnp.maximum(1.0 - strengths, 0.0)
    factors = jax.random.uniform(factor_key, (3, 1, n, 1, 1), minval=low, maxval=1.0 + strengths)
    turn = jax.random.uniform(hue_key, (n, 1, 1), minval=-hue, maxval=hue)

    # Colours first, so that each operation runs over long rows. Without barriers XLA would compute
    # every operation anew for each that follows.
    draws = (jnp.moveaxis(images, -1, 0), factors, turn)
    x, factors, turn = jax.lax.optimization_barrier(draws)
    x = floats(x) * factors[0]
    mean = jax.lax.optimization_barrier(_luminance(x).mean((2, 3), keepdims=True))
    x = factors[1] * x + (1.0 - factors[1]) * mean
    x = jax.lax.optimization_barrier(factors[2] * x + (1.0 - factors[2]) * _luminance(x))
    if hue:
        x = _turn_hue(x, turn)
    x = jax.lax.optimization_barrier(like(images, jnp.clip(x, 0.0, 1.0)))
    return for_some(choice_key, probability, jnp.moveaxis(x, 0, -1), images)


@augmentation
def solarize(
    key: RandomKey, images: Images, *, threshold: float = 0.5, probability: float = 0.2
) -> Images:
    """Inverts the bright values.

    Args:
        key: Random key.
        images: Images.
        threshold: Share of the full range from which on values are inverted.
        probability: Share of images that are changed.

    Returns:
        The images, some of them solarized.

    Raises:
        ValueError: `threshold` or `probability` is not in 0..1.
    """
    check("threshold", threshold, 0.0, 1.0)
    x = floats(images)
    x = jnp.where(x < threshold, x, 1.0 - x)
    return for_some(key, probability, like(images, x), images)


@augmentation
def grayscale(key: RandomKey, images: Images, *, probability: float = 0.2) -> Images:
    """Replaces all three colours by the luminance, as ITU-R BT.601 defines it.

    Args:
        key: Random key.
        images: Images with three channels: red, green and blue.
        probability: Share of images that are changed.

    Returns:
        The images, some of them without colour.

    Raises:
        ValueError: `probability` is not in 0..1, or the images have not three channels.
    """
    _check_colours(images)
    gray = jnp.moveaxis(_luminance(jnp.moveaxis(floats(images), -1, 0)), 0, -1)
    gray = jnp.broadcast_to(like(images, gray), images.shape)
    return for_some(key, probability, gray, images)


def _luminance(x: Planes) -> Float[Array, "1 batch height width"]:
    return _LUMA[0] * x[:1] + _LUMA[1] * x[1:2] + _LUMA[2] * x[2:]


def _turn_hue(x: Planes, turn: Float[Array, "batch 1 1"]) -> Planes:
    """Turns the hue by shares of a circle, at constant saturation and value."""
    red, green, blue = x
    value = jnp.maximum(jnp.maximum(red, green), blue)  # ten times as fast as x.max(0) on a CPU
    chroma = value - jnp.minimum(jnp.minimum(red, green), blue)
    scale = 1.0 / jnp.where(chroma > 0.0, chroma, 1.0)
    from_green, from_blue = 2.0 + (blue - red) * scale, 4.0 + (red - green) * scale
    sixth = jnp.where(value == green, from_green, from_blue)
    sixth = jnp.where(value == red, (green - blue) * scale, sixth) + 6.0 * turn

    def colour(centre: float) -> Array:
        distance = sixth - centre
        distance = jnp.abs(distance - 6.0 * jnp.floor(distance / 6.0 + 0.5))
        return value - chroma * (1.0 - jnp.clip(2.0 - distance, 0.0, 1.0))

    return jnp.stack([colour(0.0), colour(2.0), colour(4.0)])


def _check_colours(images: Array) -> None:
    if images.shape[-1] != 3:
        raise ValueError(f"The images must have 3 channels, got the shape {images.shape}.")
