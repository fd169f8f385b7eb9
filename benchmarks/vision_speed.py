"""Measures encoders of images and augmentations, these also beside dm-pix where that is installed.

Run it with the machine left alone: `python benchmarks/vision_speed.py`.
"""

import argparse
import functools
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import peers
from flax import linen as nn

from jaxagents.networks.vision import augmentations, make_encoder

KEY = jax.random.key(0)


class FlaxImpala(nn.Module):
    """The encoder `impala`, of the layers of Flax."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Encodes a batch."""
        x = images.astype(jnp.float32) / 255.0
        for features in (16, 32, 32):
            x = nn.Conv(features, (3, 3))(x)
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            for _ in range(2):
                y = nn.Conv(features, (3, 3))(nn.relu(x))
                x = x + nn.Conv(features, (3, 3))(nn.relu(y))
        return nn.relu(x).reshape(len(x), -1)


ENCODERS = {
    "atari": (make_encoder("atari"), 84),
    "impala": (make_encoder("impala"), 64),
    "the same, of Flax's layers": (FlaxImpala(), 64),
    "resnet-18": (make_encoder("resnet-18"), 64),
    "resnetv2-26": (make_encoder("resnetv2-26"), 64),
    "vit-ti/16": (make_encoder("vit-ti/16"), 64),
}
"""Encoders, with the height and width of their images."""


def main() -> None:
    """Measures everything and prints a page of Markdown."""
    args = parse_args()
    encoder_rows = [
        [name, f"{side} x {side}", *encoder_times(encoder, side, args)]
        for name, (encoder, side) in ENCODERS.items()
    ]
    images = random_images(args.images, args.side)
    parts = [
        "# Speed of encoders and augmentations",
        f"Measured by `benchmarks/vision_speed.py` {peers.machine()}. Medians of {args.repeats} calls "
        f"on the {jax.default_backend()}.",
        f"Milliseconds for {args.batch_size} images with 3 channels; the gradient is that of the "
        "parameters, alone and as one of several in a compiled loop:",
        peers.table(["Encoder", "Images", "Features", "Gradient", "In a loop"], encoder_rows),
        f"Thousands of images a second, {args.images} of {args.side} x {args.side} x 3 bytes in a call "
        "(dm-pix takes floats, here of 32 bits, and one image, here under `jax.vmap`):",
        peers.table(
            ["Augmentation", "jaxagents", "dm-pix"],
            (augmentation_row(name, images, args.repeats) for name in augmentations.augmentations),
        ),
    ]
    peers.write("\n\n".join(parts), args.markdown)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32, help="images that are encoded")
    parser.add_argument("--images", type=int, default=256, help="images that are augmented")
    parser.add_argument("--side", type=int, default=64, help="height and width of these")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="also write to this file")
    return parser.parse_args()


def random_images(n: int, side: int) -> jax.Array:
    """Images of bytes."""
    return jax.random.randint(KEY, (n, side, side, 3), 0, 256).astype(jnp.uint8)


def median_seconds(function: Callable[..., Any], *args: Any, repeats: int) -> float:
    """Median time of a call, after one that compiles."""
    jax.block_until_ready(function(*args))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def encoder_times(
    encoder: nn.Module, side: int, args: argparse.Namespace, n_steps: int = 3
) -> list[str]:
    """Milliseconds of the features and of the gradient, alone and in a loop."""
    images = random_images(args.batch_size, side)
    variables = jax.jit(encoder.init)(KEY, images)

    def gradient(variables: Any) -> Any:
        return jax.grad(lambda v: jnp.square(encoder.apply(v, images)).mean())(variables)

    def descend(variables: Any, _: None) -> tuple[Any, None]:
        return jax.tree.map(lambda x, g: x - 1e-4 * g, variables, gradient(variables)), None

    @jax.jit
    def loop(variables: Any) -> Any:
        return jax.lax.scan(descend, variables, length=n_steps)[0]

    seconds = functools.partial(median_seconds, repeats=args.repeats)
    features = seconds(jax.jit(encoder.apply), variables, images)
    alone = seconds(jax.jit(gradient), variables)
    in_loop = seconds(loop, variables) / n_steps
    return [f"{1e3 * s:.1f}" for s in (features, alone, in_loop)]


def augmentation_row(name: str, images: jax.Array, repeats: int) -> list[str]:
    """The speeds of an augmentation."""
    ours = functools.partial(augmentations.augmentations[name], KEY)
    seconds = median_seconds(ours, images, repeats=repeats)
    peer = dm_pix_augmentations(images.shape[1]).get(name)
    row = [name, f"{1e-3 * len(images) / seconds:,.1f}"]
    if peer is None:
        return [*row, "-"]
    keys = jax.random.split(KEY, len(images))
    floats = images.astype(jnp.float32) / 255.0
    seconds = median_seconds(jax.jit(jax.vmap(peer)), keys, floats, repeats=repeats)
    return [*row, f"{1e-3 * len(images) / seconds:,.1f}"]


def dm_pix_augmentations(side: int) -> dict[str, Callable[[jax.Array, jax.Array], jax.Array]]:
    """What dm-pix has of the same kind, as functions of a key and one image."""
    if importlib.util.find_spec("dm_pix") is None:
        return {}
    import dm_pix as pix

    def crop(key: jax.Array, image: jax.Array) -> jax.Array:
        return pix.random_crop(key, jnp.pad(image, [(4, 4), (4, 4), (0, 0)], "edge"), image.shape)

    def jitter(key: jax.Array, image: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 4)
        image = pix.random_brightness(keys[0], image, max_delta=0.4)
        image = pix.random_contrast(keys[1], image, lower=0.6, upper=1.4)
        image = pix.random_saturation(keys[2], image, lower=0.8, upper=1.2)
        return pix.random_hue(keys[3], image, max_delta=0.1)

    def blur(key: jax.Array, image: jax.Array) -> jax.Array:
        sigma = jax.random.uniform(key, minval=0.1, maxval=2.0)
        return pix.gaussian_blur(image, sigma, kernel_size=max(side // 20, 1) * 2 + 1)

    return {
        "random_crop": crop,
        "random_flip": pix.random_flip_left_right,
        "colour_jitter": jitter,
        "gaussian_blur": blur,
        "solarize": lambda key, image: pix.solarize(image, 0.5),
        "grayscale": lambda key, image: pix.rgb_to_grayscale(image, keep_dims=True),
    }


if __name__ == "__main__":
    main()
