"""Random changes of images.

Images are `uint8`, or floats in 0..1, of shape `(*batch, height, width, channels)` with any number of
batch axes or none, and so are the results. Every image of a batch is changed in its own way. The same
key makes the same changes, so that it can be given for observations and for those that follow them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxagents.core.keys import as_key
from jaxagents.core.nearest import unknown
from jaxagents.networks.vision.augmentations.blur import gaussian_blur
from jaxagents.networks.vision.augmentations.colours import colour_jitter, grayscale, solarize
from jaxagents.networks.vision.augmentations.geometry import (
    random_crop,
    random_flip,
    random_resized_crop,
)
from jaxagents.networks.vision.augmentations.lifting import AnyImages, RandomKey

__all__ = [
    "augment",
    "augmentations",
    "colour_jitter",
    "gaussian_blur",
    "grayscale",
    "random_crop",
    "random_flip",
    "random_resized_crop",
    "solarize",
]

augmentations: dict[str, Callable[..., Array]] = {
    "random_crop": random_crop,
    "random_resized_crop": random_resized_crop,
    "random_flip": random_flip,
    "colour_jitter": colour_jitter,
    "gaussian_blur": gaussian_blur,
    "solarize": solarize,
    "grayscale": grayscale,
}


def augment(key: RandomKey, images: AnyImages, steps: Mapping[str, Mapping[str, Any]]) -> Array:
    """Applies several augmentations, one after another.

    ```python
    steps = {"random_crop": {"padding": 4}, "colour_jitter": {"hue": 0.05}}
    images = augment(key, images, steps)
    ```

    Args:
        key: Random key.
        images: Images.
        steps: Options of each augmentation by its name.

    Returns:
        The changed images.

    Raises:
        ValueError: There is no augmentation of a name.
        TypeError: An augmentation has no such option, or `key` is no random key.
    """
    for name in steps:
        if name not in augmentations:
            raise ValueError(unknown("augmentation", name, augmentations))
    key, images = as_key(key), jnp.asarray(images)
    for i, (name, options) in enumerate(steps.items()):
        images = augmentations[name](jax.random.fold_in(key, i), images, **options)
    return images
