"""Augmentations against NumPy, settings that change nothing, and reproducibility."""

import colorsys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents.networks.vision import augment
from jaxagents.networks.vision.augmentations import (
    augmentations,
    colour_jitter,
    gaussian_blur,
    grayscale,
    random_crop,
    random_flip,
    random_resized_crop,
    solarize,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
LUMA = np.array([0.299, 0.587, 0.114])
NO_JITTER = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
IDENTITIES = [
    (random_resized_crop, {"scale": [1, 1], "ratio": [1, 1]}),
    (colour_jitter, NO_JITTER),
    (gaussian_blur, {"sigma": [0, 0]}),
]
every_augmentation = pytest.mark.parametrize("name", augmentations)


def uint8_images(*shape):
    return RNG.integers(256, size=shape).astype(np.uint8)


def float_images(*shape):
    return RNG.uniform(size=shape).astype(np.float32)


# In common.


@every_augmentation
def test_images_of_every_shape_and_type_are_changed_as_the_key_says(name):
    function = augmentations[name]
    same = np.tile(uint8_images(1, 8, 8, 3), (30, 1, 1, 1))
    images = np.concatenate([uint8_images(2, 8, 8, 3), same])
    changed = np.asarray(function(KEY, images))
    assert changed.dtype == np.uint8
    assert changed.shape == images.shape
    assert len(np.unique(changed[2:].reshape(30, -1), axis=0)) > 1
    assert (np.asarray(function(jax.random.key(1), images)) != changed).any()
    if function in (random_flip, grayscale, solarize):
        folded = images.reshape(4, 8, 8, 8, 3) / np.float32(255.0)
        in_floats = function(KEY, folded).reshape(images.shape)
        np.testing.assert_allclose(in_floats * 255.0, changed, atol=0.6)
    for shape, dtype in (((4, 8, 8, 8, 3), jnp.bfloat16), ((2, 0, 8, 6, 3), jnp.uint8)):
        other = jax.ShapeDtypeStruct(shape, dtype)
        assert jax.eval_shape(function, KEY, other) == other


def test_settings_that_change_nothing_change_nothing_at_all():
    images = float_images(8, 6, 3)
    for function, options in IDENTITIES:
        np.testing.assert_array_equal(function(KEY, images, **options), images)


# Each by itself.


def test_crops_are_shifts_of_the_padded_image():
    padding, n = 2, 300
    images = uint8_images(n, 5, 6, 3)
    cropped = np.asarray(random_crop(KEY, images, padding=padding))
    padded = np.pad(images, [(0, 0), (padding, padding), (padding, padding), (0, 0)], mode="edge")
    shifts = [(i, j) for i in range(5) for j in range(5)]
    candidates = np.stack([padded[:, i : i + 5, j : j + 6] for i, j in shifts])
    matches = (candidates == cropped).all((2, 3, 4))
    np.testing.assert_array_equal(matches.sum(0), 1)
    expected = n / len(shifts)
    chi_square = np.sum((matches.sum(1) - expected) ** 2 / expected)
    assert chi_square < 51.2  # the 99.9% quantile of 24 degrees of freedom


def test_resized_crops_are_parts_in_the_size_of_the_image():
    """Pixels hold their own positions, so that the position of the part can be read off."""
    n, height, width = 200, 20, 30
    images = np.moveaxis(np.indices((height, width), np.float32), 0, -1)
    images = np.broadcast_to(images, (n, height, width, 2))
    scale, ratio = (0.3, 0.6), (0.8, 1.5)
    parts = np.asarray(random_resized_crop(KEY, images, scale=scale, ratio=ratio))
    shares = []
    for axis, length in ((0, height), (1, width)):
        positions = parts[..., axis].mean(2 - axis)
        middle = length // 2
        steps = positions[:, middle + 1] - positions[:, middle]
        first = positions[:, middle] - middle * steps
        expected = first[:, None] + np.arange(length) * steps[:, None]
        np.testing.assert_allclose(positions, np.clip(expected, 0, length - 1), atol=1e-3)
        start = first + 0.5 - 0.5 * steps
        assert start.min() > -1e-2
        assert (start + length * steps).max() < length + 1e-2
        assert start.std() > 1.0
        shares.append(steps)
    area, aspect = shares[0] * shares[1], shares[1] / shares[0]
    for found, (low, high), slack in ((area, scale, 0.05), (aspect, ratio, 0.1)):
        assert low - 1e-3 < found.min() < low + slack
        assert high - slack < found.max() < high + 1e-3


@pytest.mark.parametrize("setting", ["brightness", "contrast", "saturation"])
def test_jitter_moves_pixels_from_a_centre(setting):
    images = 0.2 + 0.2 * float_images(64, 4, 4, 3)
    luminance = (images @ LUMA)[..., None]
    centre = {
        "brightness": np.zeros_like(luminance),
        "contrast": luminance.mean((1, 2), keepdims=True),
        "saturation": luminance,
    }[setting]
    changed = np.asarray(colour_jitter(KEY, images, **(NO_JITTER | {setting: 1.5})))
    differences = images - centre
    red, of_red = (changed - centre)[..., :1], differences[..., :1]
    factors = np.median(red / of_red, axis=(1, 2, 3), keepdims=True)
    expected = np.clip(centre + factors * differences, 0.0, 1.0)
    np.testing.assert_allclose(changed, expected, atol=1e-3)
    assert 0.0 <= factors.min() < 0.2
    assert 2.2 < factors.max() <= 2.5 + 1e-3
    extreme = {"brightness": 3.0, "contrast": 3.0, "saturation": 3.0, "hue": 0.5}
    changed = colour_jitter(KEY, images[:16], **extreme)
    assert (changed.min(), changed.max()) == (0.0, 1.0)


def test_hue():
    images = float_images(64, 3, 3, 3)
    images[:, 0, 0] = [1.0, 0.0, 0.0]
    images[:, 1, 1] = 0.5
    changed = np.asarray(colour_jitter(KEY, images, **(NO_JITTER | {"hue": 0.3})))
    turns = np.array([colorsys.rgb_to_hsv(*image[0, 0])[0] for image in changed])
    turns = (turns + 0.5) % 1.0 - 0.5
    assert -0.3 - 1e-5 <= turns.min() < -0.27
    assert 0.27 < turns.max() <= 0.3 + 1e-5
    for image, turned, turn in zip(images[:9], changed, turns, strict=False):
        for pixel, other in zip(image.reshape(-1, 3), turned.reshape(-1, 3), strict=True):
            hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
            expected = colorsys.hsv_to_rgb((hue + turn) % 1.0, saturation, value)
            np.testing.assert_allclose(other, expected, atol=1e-4)


def test_blur():
    images, sigma, kernel_size = float_images(2, 6, 5, 3), 1.5, 7
    blurred = gaussian_blur(KEY, images, sigma=(sigma, sigma), kernel_size=kernel_size)
    distance = np.arange(kernel_size) - kernel_size // 2
    kernel = np.exp(-(distance**2) / (2.0 * sigma**2))
    kernel = np.outer(kernel, kernel) / kernel.sum() ** 2
    border = kernel_size // 2
    padded = np.pad(images, [(0, 0), (border, border), (border, border), (0, 0)], mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape, axis=(1, 2))
    np.testing.assert_allclose(blurred, np.einsum("bhwcij,ij->bhwc", windows, kernel), atol=1e-5)


def test_the_blur_of_a_point_shows_the_drawn_deviations():
    points = np.zeros((300, 21, 21, 1), np.float32)
    points[:, 10, 10] = 1.0
    blurred = np.asarray(gaussian_blur(KEY, points, sigma=(0.5, 2.0), kernel_size=19))
    deviations = np.sqrt((blurred[..., 0].sum(1) * (np.arange(21) - 10) ** 2).sum(-1))
    assert 0.45 < deviations.min() < 0.55
    assert 1.9 < deviations.max() < 2.05


def test_the_kernel_is_a_tenth_of_the_image_by_default_and_none_for_a_single_row():
    points = np.zeros((1, 64, 84, 1), np.float32)
    points[:, 32, 42] = 1.0
    reached = np.asarray(gaussian_blur(KEY, points, sigma=(3.0, 3.0)))[0, ..., 0] > 0.0
    assert reached.any(1).sum() == reached.any(0).sum() == 7
    images = uint8_images(2, 1, 9, 3)
    np.testing.assert_array_equal(gaussian_blur(KEY, images), images)


@pytest.mark.parametrize(
    ("function", "reference", "tolerance"),
    [
        (random_flip, lambda x: x[:, :, ::-1], 0.0),
        (solarize, lambda x: np.where(x < 0.5 * 255, x, 255 - x), 0.0),
        (grayscale, lambda x: np.broadcast_to((x @ LUMA)[..., None], x.shape), 0.501),
    ],
)
def test_a_share_of_images_is_changed(function, reference, tolerance):
    images = uint8_images(400, 3, 4, 3)
    changed = np.asarray(function(KEY, images, probability=1.0))
    np.testing.assert_allclose(changed, reference(images), atol=tolerance)
    some = np.asarray(function(KEY, images, probability=0.25))
    is_changed = (some == changed).all((1, 2, 3))
    np.testing.assert_array_equal(some[~is_changed], images[~is_changed])
    assert abs(is_changed.mean() - 0.25) < 0.07


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (random_crop, {"padding": -1}, "padding must be an integer of 0 or more, got -1"),
        (random_flip, {"probability": 1.5}, r"probability must be in 0..1, got 1.5"),
        (random_resized_crop, {"scale": (0.9, 0.5)}, "scale must be in 0..1, as two numbers in"),
        (random_resized_crop, {"scale": (0.5, 1.5)}, "scale must be in 0..1, as two numbers in"),
        (random_resized_crop, {"ratio": (0.0, 1.0)}, r"ratio must be above 0, got .* \(0.0, 1.0\)"),
        (colour_jitter, {"brightness": -0.1}, "brightness must be at least 0"),
        (colour_jitter, {"hue": 0.6}, r"hue must be in 0..0.5, got 0.6"),
        (gaussian_blur, {"sigma": (-1.0, 1.0)}, "sigma must be at least 0, as two numbers"),
        (gaussian_blur, {"kernel_size": 4}, "kernel_size must be odd, .* got 4"),
        (gaussian_blur, {"kernel_size": 17}, "less than twice the sides of 8 x 8 images"),
        (solarize, {"threshold": 2.0}, r"threshold must be in 0..1"),
    ],
)
def test_options_out_of_bounds_are_refused(function, options, message):
    with pytest.raises(ValueError, match=message):
        function(KEY, uint8_images(8, 8, 3), **options)


def test_other_arrays_augmentations_and_options_are_refused():
    for function in (colour_jitter, grayscale):
        with pytest.raises(ValueError, match=r"must have 3 channels, got the shape \(1, 8, 8, 4\)"):
            function(KEY, uint8_images(8, 8, 4))
    with pytest.raises(ValueError, match=r"\*batch, height, width, channels\), got \(8, 8"):
        random_flip(KEY, uint8_images(8, 8))
    with pytest.raises(TypeError, match=r"must be uint8 or floats in 0..1, got int32"):
        random_flip(KEY, np.zeros((8, 8, 3), np.int32))
    with pytest.raises(ValueError, match=r"'color_jitter'. Did you mean 'colour_jitter'"):
        augment(KEY, uint8_images(8, 8, 3), {"color_jitter": {}})
    with pytest.raises(TypeError, match="pad"):
        augment(KEY, uint8_images(8, 8, 3), {"random_crop": {"pad": 4}})


# Several.


def test_augmentations_follow_each_other_and_draw_independently():
    images = float_images(3, 4, 4, 3)
    always = {"random_flip": {"probability": 1.0}, "solarize": {"probability": 1, "threshold": 0.0}}
    np.testing.assert_array_equal(augment(KEY, images, always), 1.0 - images[:, :, ::-1])
    np.testing.assert_array_equal(augment(KEY, images, {}), images)
    images = np.broadcast_to(np.arange(9, dtype=np.float32).reshape(3, 3, 1) / 9.0, (200, 3, 3, 1))
    changed = np.asarray(
        augment(KEY, images, {"random_flip": {}, "solarize": {"probability": 0.5}})
    )
    assert len(np.unique(changed.reshape(200, -1), axis=0)) == 4
