"""Batch axes, pixel types and checks of all augmentations."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, Shaped

from jaxagents.core.keys import as_key

P = ParamSpec("P")
RandomKey = Key[Array, ""]
AnyImages = Shaped[Array | np.ndarray, "..."]
Images = Shaped[Array, "batch height width channels"]


def augmentation(
    function: Callable[Concatenate[Array, Array, P], Array],
) -> Callable[Concatenate[Array, AnyImages, P], Array]:
    """Lifts a function of one batch of images to any batch axes or none, and compiles it."""
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

    return lifted


def _like_default(option: Any, default: Any) -> Any:
    """An option with integers as floats, and lists as tuples, where the default has those."""
    if isinstance(default, tuple):
        return tuple(map(float, option))
    return float(option) if isinstance(default, float) else option


def floats(images: Array) -> Array:
    """Images in 0..1."""
    scale = 1.0 / 255.0 if images.dtype == jnp.uint8 else 1.0
    return images.astype(jnp.float32) * scale


def like(images: Array, x: Array) -> Array:
    """Values in 0..1 in the type of the images."""
    is_uint8 = images.dtype == jnp.uint8
    return jnp.round(x * 255.0).astype(jnp.uint8) if is_uint8 else x.astype(images.dtype)


def for_some(key: Array, probability: float, changed: Array, images: Array) -> Array:
    """The images, each replaced by its changed one with a probability."""
    check("probability", probability, 0.0, 1.0)
    chosen = jax.random.bernoulli(key, probability, (images.shape[0], 1, 1, 1))
    return jnp.where(chosen, changed, images)


def check(name: str, value: int | float, low: int | float, high: int | float) -> None:
    """Refuses an option that is out of bounds."""
    if not low <= value <= high:
        bounds = f"in {low:g}..{high:g}" if high < np.inf else f"at least {low:g}"
        raise ValueError(f"{name} must be {bounds}, got {value}.")


def check_pair(name: str, pair: tuple[float, float], low: float, high: float) -> None:
    """Refuses an option whose two numbers are out of bounds or order."""
    if not low <= pair[0] <= pair[1] <= high:
        bounds = f"in {low:g}..{high:g}" if high < np.inf else f"of at least {low:g}"
        raise ValueError(f"{name} must be two numbers {bounds} in ascending order, got {pair}.")
