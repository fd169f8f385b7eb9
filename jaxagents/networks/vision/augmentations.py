"""Random image augmentations.

Images and results are `uint8`, or floats in 0..1, shaped `(*batch, height, width, channels)` with any
number of batch axes. Each image in a batch is changed differently. The same key gives the same changes,
so you can use it for both observations and next observations.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped

from jaxagents.core.arrays import as_key
from jaxagents.core.names import check_known
from jaxagents.core.numbers import not_negative

P = ParamSpec("P")
RandomKey = Key[Array, ""]
AnyImages = Shaped[Array | np.ndarray, "..."]
Images = Shaped[Array, "batch height width channels"]
Planes = Float[Array, "colours batch height width"]
_LUMA = (0.299, 0.587, 0.114)
augmentations: dict[str, Callable[..., Array]] = {}


def augment(key: RandomKey, images: AnyImages, steps: Mapping[str, Mapping[str, Any]]) -> Array:
    """Applies several augmentations in sequence.

    ```python
    steps = {"random_crop": {"padding": 4}, "colour_jitter": {"hue": 0.05}}
    images = augment(key, images, steps)
    ```

    Args:
        key: Random key.
        images: Images.
        steps: Options of each augmentation by name.

    Returns:
        The augmented images.

    Raises:
        ValueError: An augmentation does not exist.
        TypeError: An augmentation does not have the given option, or `key` is not a random key.
    """
    key, images = as_key(key), jnp.asarray(images)
    for i, (name, options) in enumerate(steps.items()):
        check_known("augmentation", name, augmentations)
        images = augmentations[name](jax.random.fold_in(key, i), images, **options)
    return images


def _augmentation(
    function: Callable[Concatenate[Array, Array, P], Array],
) -> Callable[Concatenate[Array, AnyImages, P], Array]:
    """Lifts a function of one batch axis to any number of them, compiles it and registers it."""
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    change: Callable[..., Array] = function

    @functools.partial(jax.jit, static_argnames=list(defaults))
    def compiled(key: Array, images: Array, **kwargs: Any) -> Array:
        changed = change(key, images.reshape(-1, *images.shape[-3:]), **kwargs)
        return changed.reshape(*images.shape[:-3], *changed.shape[1:])

    @functools.wraps(function)
    def lifted(key: Array, images: AnyImages, *args: P.args, **kwargs: P.kwargs) -> Array:
        if images.ndim < 3:
            raise ValueError(
                f"Images must be (*batch, height, width, channels), got {images.shape}."
            )
        if images.dtype != np.uint8 and not jnp.issubdtype(images.dtype, jnp.floating):
            raise TypeError(f"Images must be uint8 or floats in 0..1, got {images.dtype}.")
        options = {name: _like_default(x, defaults.get(name)) for name, x in kwargs.items()}
        return compiled(as_key(key), images, *args, **options)

    augmentations[function.__name__] = lifted
    return lifted


@_augmentation
def random_crop(key: RandomKey, images: Images, *, padding: int = 4) -> Images:
    """Shifts images by up to `padding` pixels, repeating the pixels at the border.

    Kostrikov et al., 2021, "Image augmentation is all you need" (DrQ).

    Args:
        key: Random key.
        images: Images.
        padding: Largest shift in each direction; 0 changes nothing.

    Returns:
        The shifted images.

    Raises:
        TypeError: `padding` is not an integer.
        ValueError: `padding` is negative.
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


@_augmentation
def random_resized_crop(
    key: RandomKey,
    images: Images,
    *,
    scale: tuple[float, float] = (0.5, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Images:
    """Crops a random part of each image and resizes it to the image's size, with linear interpolation.

    Szegedy et al., 2015, "Going deeper with convolutions", section 6.

    Args:
        key: Random key.
        images: Images.
        scale: Smallest and largest fraction of an image's area; with (1, 1) here and for `ratio`,
            nothing changes.
        ratio: Smallest and largest aspect ratio (width to height) of the part relative to the image's;
            drawn log-uniformly. A part that does not fit into the image is cropped.

    Returns:
        The resized parts.

    Raises:
        ValueError: Bounds are out of order, a fraction exceeds 1, or a number is not positive.
    """
    _check("scale", scale, 0.0, 1.0)
    _check("ratio", ratio, 0.0, np.inf)
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

    return _like(images, jax.vmap(enlarge)(_floats(images), zoom, shift))


@_augmentation
def random_flip(key: RandomKey, images: Images, *, probability: float = 0.5) -> Images:
    """Flips images horizontally.

    Args:
        key: Random key.
        images: Images.
        probability: Probability that an image is flipped.

    Returns:
        The images, some of them flipped.

    Raises:
        ValueError: `probability` is not in 0..1.
    """
    return _for_some(key, probability, images[:, :, ::-1], images)


@_augmentation
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

    With a factor $f$ drawn from $[\max(0, 1 - s), 1 + s]$ for a strength $s$, an image $x$ becomes
    $f x + (1 - f) y$, where $y$ is black for the brightness, the mean luminance of the image for the
    contrast, and each pixel's luminance for the saturation. The hue is rotated by a fraction of the
    circle drawn from $[-s, s]$. The result is clipped to the range of pixels.

    Chen et al., 2020, "A simple framework for contrastive learning of visual representations"
    (SimCLR), appendix A; the defaults are from Grill et al., 2020, "Bootstrap your own latent".

    Args:
        key: Random key.
        images: Images with three channels: red, green and blue.
        brightness: Strength for the brightness; if all strengths are 0, nothing changes.
        contrast: Strength for the contrast.
        saturation: Strength for the saturation.
        hue: Strength for the hue, at most 0.5.
        probability: Probability that an image is changed.

    Returns:
        The images with changed colours.

    Raises:
        ValueError: A strength is negative, the hue's is larger than 0.5, `probability` is not in 0..1,
            or the images do not have three channels.
    """
    settings = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    for name, setting in settings.items():
        _check(name, setting, 0.0, np.inf)
    _check("hue", hue, 0.0, 0.5)
    if not any((brightness, contrast, saturation, hue)):
        return images
    n = images.shape[0]
    factor_key, hue_key, choice_key = jax.random.split(key, 3)
    strengths = jnp.array(list(settings.values()))[:, None, None, None, None]
    low = jnp.maximum(1.0 - strengths, 0.0)
    factors = jax.random.uniform(factor_key, (3, 1, n, 1, 1), minval=low, maxval=1.0 + strengths)
    turn = jax.random.uniform(hue_key, (n, 1, 1), minval=-hue, maxval=hue)

    # Colours first, so that each operation runs over long rows. Without barriers XLA would recompute
    # every operation for each later one.
    draws = (jnp.moveaxis(images, -1, 0), factors, turn)
    x, factors, turn = jax.lax.optimization_barrier(draws)
    x = _floats(x) * factors[0]
    mean = jax.lax.optimization_barrier(_luminance(x).mean((2, 3), keepdims=True))
    x = factors[1] * x + (1.0 - factors[1]) * mean
    x = jax.lax.optimization_barrier(factors[2] * x + (1.0 - factors[2]) * _luminance(x))
    if hue:
        x = _turn_hue(x, turn)
    x = jax.lax.optimization_barrier(_like(images, jnp.clip(x, 0.0, 1.0)))
    return _for_some(choice_key, probability, jnp.moveaxis(x, 0, -1), images)


@_augmentation
def solarize(
    key: RandomKey, images: Images, *, threshold: float = 0.5, probability: float = 0.2
) -> Images:
    """Inverts bright pixel values.

    Args:
        key: Random key.
        images: Images.
        threshold: Fraction of the full range; values at or above it are inverted.
        probability: Probability that an image is changed.

    Returns:
        The images, some of them solarized.

    Raises:
        ValueError: `threshold` or `probability` is not in 0..1.
    """
    _check("threshold", threshold, 0.0, 1.0)
    x = _floats(images)
    x = jnp.where(x < threshold, x, 1.0 - x)
    return _for_some(key, probability, _like(images, x), images)


@_augmentation
def grayscale(key: RandomKey, images: Images, *, probability: float = 0.2) -> Images:
    """Replaces all three colours with the luminance (ITU-R BT.601).

    Args:
        key: Random key.
        images: Images with three channels: red, green and blue.
        probability: Probability that an image is changed.

    Returns:
        The images, some of them in grayscale.

    Raises:
        ValueError: `probability` is not in 0..1, or the images do not have three channels.
    """
    gray = jnp.moveaxis(_luminance(jnp.moveaxis(_floats(images), -1, 0)), 0, -1)
    gray = jnp.broadcast_to(_like(images, gray), images.shape)
    return _for_some(key, probability, gray, images)


@_augmentation
def gaussian_blur(
    key: RandomKey,
    images: Images,
    *,
    sigma: tuple[float, float] = (0.1, 2.0),
    kernel_size: int | None = None,
    probability: float = 1.0,
) -> Images:
    """Blurs images with a Gaussian kernel, reflecting them at the border.

    Args:
        key: Random key.
        images: Images.
        sigma: Smallest and largest standard deviation of the kernel in pixels; (0, 0) changes nothing.
        kernel_size: Height and width of the kernel, an odd number; by default about a tenth of the
            images' smaller side, and at least 3. If that side is a single pixel, images are left
            unchanged.
        probability: Probability that an image is changed.

    Returns:
        The blurred images.

    Raises:
        ValueError: Bounds are out of order or negative, `kernel_size` is even or too large for the
            images, or `probability` is not in 0..1.
    """
    _check("sigma", sigma, 0.0, np.inf)
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
    x = _floats(images).reshape(n, height, width * channels)
    x = jnp.pad(x, [(0, 0), border, (0, 0)], mode="reflect")
    x = x.reshape(n, 1, (height + size - 1) * width * channels)
    x = blur(x, height * width * channels, width * channels)
    x = jax.lax.optimization_barrier(x.reshape(n, height, width, channels))
    x = jnp.pad(x, [(0, 0), (0, 0), border, (0, 0)], mode="reflect")
    x = x.reshape(n, height, (width + size - 1) * channels)
    x = blur(jax.lax.optimization_barrier(x), width * channels, channels).reshape(images.shape)
    return _for_some(choice_key, probability, _like(images, x), images)


def _luminance(x: Planes) -> Float[Array, "1 batch height width"]:
    if len(x) != 3:
        raise ValueError(
            f"The images must have 3 channels, got the shape {(*x.shape[1:], len(x))}."
        )
    return _LUMA[0] * x[:1] + _LUMA[1] * x[1:2] + _LUMA[2] * x[2:]


def _turn_hue(x: Planes, turn: Float[Array, "batch 1 1"]) -> Planes:
    """Rotates the hue by fractions of a circle, at constant saturation and value."""
    red, green, blue = x
    value = jnp.maximum(jnp.maximum(red, green), blue)  # ten times as fast as x.max(0) on CPU
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


def _like_default(option: Any, default: Any) -> Any:
    """Converts an option to float or to a tuple of floats if its default is one."""
    if isinstance(default, tuple):
        return tuple(map(float, option))
    return float(option) if isinstance(default, float) else option


def _floats(images: Array) -> Array:
    """Converts images to floats in 0..1."""
    scale = 1.0 / 255.0 if images.dtype == jnp.uint8 else 1.0
    return images.astype(jnp.float32) * scale


def _like(images: Array, x: Array) -> Array:
    """Converts values in 0..1 to the dtype of the images."""
    is_uint8 = images.dtype == jnp.uint8
    return jnp.round(x * 255.0).astype(jnp.uint8) if is_uint8 else x.astype(images.dtype)


def _for_some(key: Array, probability: float, changed: Array, images: Array) -> Array:
    """Replaces each image by its changed version with the given probability."""
    _check("probability", probability, 0.0, 1.0)
    chosen = jax.random.bernoulli(key, probability, (images.shape[0], 1, 1, 1))
    return jnp.where(chosen, changed, images)


def _check(name: str, option: float | tuple[float, float], low: float, high: float) -> None:
    """Raises if an option is out of bounds, or if its two numbers are not in order."""
    is_pair = isinstance(option, tuple)
    if not low <= np.min(option) <= np.max(option) <= high or (is_pair and option[0] > option[1]):
        bounds = f"in {low:g}..{high:g}" if high < np.inf else f"at least {low:g}"
        needed = f"{bounds}, as two numbers in ascending order" if is_pair else bounds
        raise ValueError(f"{name} must be {needed}, got {option}.")
