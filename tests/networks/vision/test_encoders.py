"""Encoders of images: shapes, references, parameter counts, batch statistics, and refusals."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxagents.networks.vision import (
    AtariEncoder,
    Encoder,
    ImpalaEncoder,
    ResNetV1,
    ResNetV2,
    ViT,
    make_encoder,
)
from jaxagents.networks.vision.resnet import Block, PreActivationBottleneck
from jaxagents.networks.vision.vit import TransformerLayer, sincos_positions

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def random_variables(encoder, images):
    """Random variables without zeros; initialisers take long to compile."""
    shapes = jax.eval_shape(encoder.init, KEY, images)

    def draw(path, leaf):
        if path[0].key == "batch_stats":
            return jnp.asarray(RNG.uniform(0.5, 1.5, leaf.shape), leaf.dtype)
        scale = 1.0 / np.sqrt(np.prod(leaf.shape[:-1]))
        return jnp.asarray(scale * RNG.normal(size=leaf.shape), leaf.dtype)

    return jax.tree.map_with_path(draw, shapes)


def uint8_images(*shape):
    return jnp.asarray(RNG.integers(256, size=shape), jnp.uint8)


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


class Flatten(Encoder):
    """An encoder that only scales."""

    @property
    def smallest_side(self):
        return 2

    def encode(self, x, train):
        return x.reshape(x.shape[0], -1)


def test_any_batch_axes_or_none():
    encoder = ViT(4, 16, 1, 2, positions="sincos", scaling="signed")
    images = uint8_images(2, 3, 8, 8, 3)
    variables = random_variables(encoder, images)
    apply = jax.jit(encoder.apply)
    features = apply(variables, images)
    assert features.shape == (2, 3, 16)
    assert features.std() > 0.0
    np.testing.assert_allclose(apply(variables, images[1, 2]), features[1, 2], atol=1e-4)
    for each in (encoder, AtariEncoder(), ResNetV2((1,))):
        side = 8 if each is encoder else each.smallest_side
        shape = (3, 0, side, side, 3)
        empty, _ = jax.eval_shape(each.init_with_output, KEY, jnp.zeros(shape, jnp.uint8))
        assert empty.shape[:2] == (3, 0)


FULL, SMALL = (224, 224, 3), (64, 64, 3)
SIZES = [
    ("atari", (84, 84, 4), 7 * 7 * 64, 77_984),
    ("impala", (60, 33, 3), 8 * 5 * 32, 97_600),
    ("impala-small", SMALL, 8 * 8 * 32, 55_968),
    ("impala-widest", SMALL, 8 * 8 * 128, 1_551_616),
    # The published numbers, without the classifier of 1000 classes.
    ("resnet-18", FULL, 512, 11_689_512 - 513_000),
    ("resnetv2-50", FULL, 2048, 25_549_352 - 2_049_000),
    ("vit-ti/16", FULL, 192, 5_717_416 - 193_000),
]
DEEP = [  # take long to trace
    ("resnet-50", FULL, 2048, 25_557_032 - 2_049_000),
    ("resnet-34", FULL, 512, 21_797_672 - 513_000),
    ("resnet-101", FULL, 2048, 44_549_160 - 2_049_000),
    ("resnet-152", FULL, 2048, 60_192_808 - 2_049_000),
    ("vit-s/16", FULL, 384, 22_050_664 - 385_000),
    ("vit-b/32", FULL, 768, 88_224_232 - 769_000),
    ("vit-l/16", FULL, 1024, 304_326_632 - 1_025_000),
]


@pytest.mark.parametrize(
    ("name", "shape", "n_features", "n_parameters"),
    [*SIZES, *(pytest.param(*deep, marks=pytest.mark.slow) for deep in DEEP)],
)
def test_numbers_of_features_and_parameters(name, shape, n_features, n_parameters):
    encoder = make_encoder(name)
    features, variables = jax.eval_shape(encoder.init_with_output, KEY, jnp.zeros(shape))
    assert features.shape == (n_features,)
    assert size(variables["params"]) == n_parameters


# Against references.


@pytest.mark.parametrize(
    ("scaling", "mean", "std"),
    [
        ("unit", 0.0, 1.0),
        ("signed", 0.5, 0.5),
        ("imagenet", np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])),
    ],
)
def test_scaling(scaling, mean, std):
    images = np.asarray(uint8_images(2, 4, 5, 3))
    expected = ((images / 255.0 - mean) / std).reshape(2, -1)
    for x in (images, images.astype(np.int32), jnp.asarray(images / 255.0, jnp.float32)):
        features = Flatten(scaling=scaling).apply({}, x)
        assert features.dtype == jnp.float32
        np.testing.assert_allclose(features, expected, atol=1e-5)


def layer(x, params, stride=1, padding=1):
    y = jax.lax.conv_general_dilated(
        x,
        params["kernel"],
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return y + jnp.reshape(params["bias"], (1, 1, 1, -1))


def atari(x, params):
    for i, stride in enumerate((4, 2, 1)):
        x = jnp.maximum(layer(x, params[f"Conv_{i}"], stride, padding=0), 0.0)
    return x


def impala(x, params):
    for i in (0, 3):
        x = nn.max_pool(layer(x, params[f"Conv_{i}"]), (3, 3), (2, 2), ((1, 1), (1, 1)))
        y = layer(jnp.maximum(x, 0.0), params[f"Conv_{i + 1}"])
        x = x + layer(jnp.maximum(y, 0.0), params[f"Conv_{i + 2}"])
    return jnp.maximum(x, 0.0)


@pytest.mark.parametrize(
    ("encoder", "shape", "reference"),
    [
        (AtariEncoder(), (40, 36, 4), atari),
        (ImpalaEncoder(sections=(3, 4), width=2, n_blocks=1), (8, 6, 3), impala),
    ],
)
def test_encoders_against_references(encoder, shape, reference):
    images = uint8_images(2, *shape)
    variables = random_variables(encoder, images)
    features = jax.jit(encoder.apply)(variables, images)
    expected = jax.jit(reference)(images / np.float32(255.0), variables["params"]).reshape(2, -1)
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-4)


def test_fresh_blocks_are_identities_up_to_the_last_nonlinearity():
    x, block = jnp.asarray(RNG.normal(size=(2, 4, 4, 4)), jnp.float32), Block(4, 1, "group")
    y, _ = jax.jit(lambda x: block.init_with_output(KEY, x, False))(x)
    np.testing.assert_allclose(y, jnp.maximum(x, 0.0), atol=1e-6)


def test_a_pre_activation_block_without_its_last_convolution_is_an_identity():
    x = jnp.asarray(RNG.normal(size=(2, 4, 4, 16)), jnp.float32)
    block = PreActivationBottleneck(4, 1, "group", False)
    params = jax.eval_shape(lambda: block.init(KEY, x, False))["params"]
    params = jax.tree.map(lambda x: np.ones(x.shape, x.dtype), params)
    params["conv3"] = jax.tree.map(np.zeros_like, params["conv3"])
    found = jax.jit(lambda params: block.apply({"params": params}, x, False))(params)
    np.testing.assert_array_equal(found, x)


def test_patches_are_those_of_a_convolution():
    images = uint8_images(1, 6, 9, 3) / np.float32(255.0)
    encoder = ViT(patch_size=3, features=4, n_layers=0, n_heads=1)
    params = random_variables(encoder, images)["params"]
    kernel = params["patches"]["kernel"].reshape(3, 3, 3, 4)
    expected = layer(images, {"kernel": kernel, "bias": 0.0}, stride=3, padding=0)
    tokens = encoder.bind({"params": params})._patches(images) @ params["patches"]["kernel"]
    np.testing.assert_allclose(tokens, expected, rtol=1e-4, atol=1e-5)


def test_a_transformer_sees_the_positions_of_patches():
    images = uint8_images(1, 8, 8, 3)
    permuted = jnp.concatenate([images[:, 4:], images[:, :4]], axis=1)
    encoder = ViT(patch_size=4, features=8, n_layers=1, n_heads=2)
    params = random_variables(encoder, images)["params"]
    without = {**params, "positions": jnp.zeros_like(params["positions"])}
    encode = jax.jit(lambda params, images: encoder.apply({"params": params}, images))
    np.testing.assert_allclose(encode(without, permuted), encode(without, images), atol=1e-5)
    assert np.abs(encode(params, permuted) - encode(params, images)).max() > 1e-3


def test_sines_and_cosines_of_positions():
    embeddings = sincos_positions(2, 3, 8)
    positions = np.indices((2, 3)).reshape(2, 6).T[:, :, None, None]
    waves = np.stack([f(positions * np.array([1.0, 0.01])) for f in (np.sin, np.cos)], axis=2)
    np.testing.assert_allclose(embeddings, waves.reshape(6, 8), atol=1e-6)


# Batch normalisation.


def test_batch_statistics_follow_the_batches_in_training():
    encoder, images = ResNetV1(blocks=(), norm="batch"), uint8_images(4, 8, 8, 3)
    variables = random_variables(encoder, images)
    stem = layer(images / 255.0, {**variables["params"]["stem"], "bias": 0.0}, 2, padding=3)
    train = jax.jit(lambda v: encoder.apply(v, images, train=True, mutable=["batch_stats"]))
    features, trained = train(variables)
    before, after = (v["batch_stats"]["stem_norm"] for v in (variables, trained))
    mean, var = stem.mean((0, 1, 2)), stem.var((0, 1, 2))
    np.testing.assert_allclose(after["mean"], 0.9 * before["mean"] + 0.1 * mean, atol=1e-5)
    np.testing.assert_allclose(after["var"], 0.9 * before["var"] + 0.1 * var, rtol=1e-4)
    apply = jax.jit(encoder.apply)
    still = apply(variables, images)
    assert np.abs(features - still).max() > 1e-4
    np.testing.assert_allclose(still[0], apply(variables, images[0]), atol=1e-5)


# What is refused.


@pytest.mark.parametrize(
    ("encoder", "shape", "message"),
    [
        (ImpalaEncoder(), (64, 64), r"takes images of shape .*, got \(64, 64\)"),
        (ImpalaEncoder(), (7, 64, 3), r"at least 8 x 8 pixels, got the shape \(7, 64, 3\)"),
        (AtariEncoder(), (4, 84, 84), "AtariEncoder takes images of at least 36 x 36"),
        (ResNetV1(), (2, 31, 64, 3), "at least 32 x 32"),
        (ResNetV2(), (2, 64, 16, 3), "at least 32 x 32"),
        (ViT(), (8, 8, 3), "at least 16 x 16"),
        (ViT(), (64, 40, 3), "must be multiples of patch_size=16, got 64 x 40"),
        (Flatten(scaling="imagenet"), (4, 4, 1), "is for 3 channels"),
        (ViT(features=6, n_heads=2, positions="sincos"), (16, 16, 3), "multiple of 4, got 6"),
    ],
)
def test_images_that_do_not_fit_are_refused(encoder, shape, message):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(encoder.init, KEY, jnp.zeros(shape))


def test_a_transformer_layer_is_that_of_the_paper():
    x = RNG.normal(size=(2, 5, 8)).astype(np.float32)
    layer = TransformerLayer(n_heads=2)
    variables = random_variables(layer, x)
    params = jax.tree.map(np.float64, variables["params"])

    def normalised(x, name):
        deviations = x - x.mean(-1, keepdims=True)
        scale = np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return deviations / scale * params[name]["scale"] + params[name]["bias"]

    def dense(x, layer):
        return x @ layer["kernel"] + layer["bias"]

    def of_heads(x, layer):
        return np.einsum("btf,fhd->bhtd", x, layer["kernel"]) + layer["bias"][:, None]

    def attention(x, layers):
        query, key, value = (of_heads(x, layers[name]) for name in ("query", "key", "value"))
        weights = np.exp(query @ key.swapaxes(-1, -2) / np.sqrt(4))
        heads = weights / weights.sum(-1, keepdims=True) @ value
        return np.einsum("bhtd,hdf->btf", heads, layers["out"]["kernel"]) + layers["out"]["bias"]

    def gelu(x):
        return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / np.sqrt(2)))

    y = x + attention(normalised(x, "attention_norm"), params["attention"])
    hidden = gelu(dense(normalised(y, "mlp_norm"), params["mlp1"]))
    expected = y + dense(hidden, params["mlp2"])
    np.testing.assert_allclose(jax.jit(layer.apply)(variables, x), expected, rtol=1e-4, atol=1e-4)
