"""Encoders of images: shapes, references, parameter counts, batch statistics, and what is refused."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from probes import Probe

from jaxagents import PPO
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalActor, StateCritic, WithEncoder
from jaxagents.networks.vision import (
    AtariEncoder,
    Encoder,
    ImpalaEncoder,
    ResNetV1,
    ResNetV2,
    ViT,
    encoders,
    make_encoder,
)
from jaxagents.networks.vision.resnet import Block, PreActivationBottleneck
from jaxagents.networks.vision.vit import TransformerLayer, sincos_positions
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def random_variables(encoder, images):
    """Variables none of which is zero; initialisers take long to compile."""
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


def n_parameters(name, *image_shape):
    return size(jax.eval_shape(make_encoder(name).init, KEY, jnp.zeros(image_shape)))


class Flatten(Encoder):
    """An encoder that only scales."""

    @property
    def smallest_side(self):
        return 2

    def encode(self, x, train):
        return x.reshape(x.shape[0], -1)


SMALL = {
    "atari": (AtariEncoder(), 36),
    "impala": (ImpalaEncoder(sections=(4, 8)), 8),
    "resnet": (ResNetV1(blocks=(1, 1)), 8),
    "bottlenecks": (ResNetV1(blocks=(1,), bottleneck=True), 8),
    "resnetv2": (ResNetV2(blocks=(1,), standardise=True), 8),
    "batch normalisation": (ResNetV2(blocks=(1,), norm="batch"), 8),
    "vit": (ViT(patch_size=4, features=16, n_layers=2, n_heads=2), 8),
    "vit with fixed positions": (ViT(4, 16, 1, 2, positions="sincos", scaling="signed"), 8),
}

PUBLISHED = {  # numbers of parameters, with the classifier of 1000 classes
    "resnet-18": 11_689_512,
    "resnet-34": 21_797_672,
    "resnet-50": 25_557_032,
    "resnet-101": 44_549_160,
    "resnet-152": 60_192_808,
    "resnetv2-50": 25_549_352,
    "vit-ti/16": 5_717_416,
    "vit-s/16": 22_050_664,
    "vit-b/16": 86_567_656,
    "vit-b/32": 88_224_232,
    "vit-l/16": 304_326_632,
}


@pytest.mark.parametrize(("encoder", "side"), SMALL.values(), ids=SMALL.keys())
def test_any_batch_axes_or_none(encoder, side):
    images = uint8_images(2, 3, side, side, 3)
    variables = random_variables(encoder, images)

    @jax.jit
    def outputs(variables):
        features = encoder.apply(variables, images)
        mapped = jax.vmap(functools.partial(encoder.apply, variables))(images[1])
        return features, encoder.apply(variables, images[1, 2]), mapped

    features, single, mapped = outputs(variables)
    assert features.shape[:2] == (2, 3)
    assert features.ndim == 3
    assert features.std() > 0.0
    np.testing.assert_allclose(single, features[1, 2], atol=1e-4)
    np.testing.assert_allclose(mapped, features[1], atol=1e-4)
    empty = np.zeros((3, 0, side, side, 3), np.uint8)
    expected = (3, 0, features.shape[-1])
    assert jax.eval_shape(encoder.apply, variables, empty).shape == expected


def test_every_encoder_of_the_registry_can_be_made():
    for name in encoders:
        assert make_encoder(name, scaling="signed").scaling == "signed"


def test_a_misspelt_name_is_answered_with_near_ones():
    with pytest.raises(ValueError, match=r"no encoder 'resnet18'. Did you mean 'resnet-18'"):
        make_encoder("resnet18")
    with pytest.raises(ValueError, match="There are: atari, impala,"):
        make_encoder("?")
    with pytest.raises(TypeError, match="depth"):
        make_encoder("impala", depth=3)


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
@pytest.mark.slow_except("resnet-18", "resnet-50", "resnetv2", "vit-ti/16")
def test_parameter_counts_are_the_published_ones(name, published):
    images = jnp.zeros((1, 224, 224, 3))
    features, variables = jax.eval_shape(make_encoder(name).init_with_output, KEY, images)
    n_classes = 1000
    head = n_classes * features.shape[-1] + n_classes
    assert size(variables["params"]) + head == published


def conv_parameters(size, n_in, n_out):
    return size * size * n_in * n_out + n_out


def test_parameter_counts_of_the_small_encoders():
    dqn = conv_parameters(8, 4, 32) + conv_parameters(4, 32, 64) + conv_parameters(3, 64, 64)
    assert n_parameters("atari", 84, 84, 4) == dqn
    for name, width, n_blocks in [
        ("impala", 1, 2),
        ("impala-small", 1, 1),
        ("impala-widest", 4, 2),
    ]:
        sections = [(3, 16 * width), (16 * width, 32 * width), (32 * width, 32 * width)]
        expected = sum(
            conv_parameters(3, n_in, n_out) + 2 * n_blocks * conv_parameters(3, n_out, n_out)
            for n_in, n_out in sections
        )
        assert n_parameters(name, 64, 64, 3) == expected


def test_feature_counts():
    for name, shape, n_features in [
        ("atari", (84, 84, 4), 7 * 7 * 64),
        ("impala", (64, 64, 3), 8 * 8 * 32),
        ("impala", (60, 33, 3), 8 * 5 * 32),
        ("impala-large", (64, 64, 3), 4 * 4 * 32),
        ("resnet-18", (64, 64, 3), 512),
        ("resnet-50", (64, 96, 3), 2048),
        ("resnetv2-26", (64, 64, 3), 2048),
        ("vit-s/8", (64, 32, 3), 384),
    ]:
        encoder = make_encoder(name)
        features = jax.eval_shape(encoder.init_with_output, KEY, jnp.zeros(shape))[0]
        assert features.shape == (n_features,)


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
    images = uint8_images(2, 4, 5, 3)
    expected = (np.asarray(images) / 255.0 - mean) / std
    given = {
        "uint8": images,
        "int32": images.astype(jnp.int32),
        "float32": images.astype(jnp.float32) / 255.0,
        "NumPy": np.asarray(images),
    }
    for kind, x in given.items():
        features = Flatten(scaling=scaling).apply({}, x)
        assert features.dtype == jnp.float32, kind
        np.testing.assert_allclose(features, expected.reshape(2, -1), atol=1e-5, err_msg=kind)


def layer(x, params, stride=1, padding=1):
    y = jax.lax.conv_general_dilated(
        x,
        params["kernel"],
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return y + jnp.reshape(params["bias"], (1, 1, 1, -1))


def test_atari_reference():
    images = uint8_images(2, 40, 36, 4)
    variables = random_variables(AtariEncoder(), images)

    @jax.jit
    def reference(params):
        x = images / 255.0
        for i, stride in enumerate((4, 2, 1)):
            x = jnp.maximum(layer(x, params[f"Conv_{i}"], stride, padding=0), 0.0)
        return x.reshape(2, -1)

    features = jax.jit(AtariEncoder().apply)(variables, images)
    np.testing.assert_allclose(features, reference(variables["params"]), rtol=1e-4, atol=1e-4)


def test_impala_reference():
    encoder, images = ImpalaEncoder(sections=(3, 4), width=2, n_blocks=1), uint8_images(2, 8, 6, 3)
    variables = random_variables(encoder, images)

    @jax.jit
    def reference(params):
        x = images / 255.0
        for i in (0, 3):
            x = nn.max_pool(layer(x, params[f"Conv_{i}"]), (3, 3), (2, 2), ((1, 1), (1, 1)))
            y = layer(jnp.maximum(x, 0.0), params[f"Conv_{i + 1}"])
            x = x + layer(jnp.maximum(y, 0.0), params[f"Conv_{i + 2}"])
        return jnp.maximum(x, 0.0).reshape(2, -1)

    features = jax.jit(encoder.apply)(variables, images)
    np.testing.assert_allclose(features, reference(variables["params"]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("bottleneck", "n_in"), [(False, 4), (True, 16)])
def test_fresh_blocks_are_identities_up_to_the_last_nonlinearity(bottleneck, n_in):
    x = jnp.asarray(RNG.normal(size=(2, 4, 4, n_in)), jnp.float32)
    y, _ = Block(4, 1, "group", bottleneck).init_with_output(KEY, x, False)
    np.testing.assert_allclose(y, jnp.maximum(x, 0.0), atol=1e-6)


def test_a_pre_activation_block_without_its_last_convolution_is_an_identity():
    x = jnp.asarray(RNG.normal(size=(2, 4, 4, 16)), jnp.float32)
    block = PreActivationBottleneck(4, 1, "group", False)
    params = block.init(KEY, x, False)["params"]
    assert "shortcut" not in params
    params["conv3"] = jax.tree.map(jnp.zeros_like, params["conv3"])
    np.testing.assert_array_equal(block.apply({"params": params}, x, False), x)


def test_patches_are_those_of_a_convolution():
    images = uint8_images(1, 6, 9, 3)
    encoder = ViT(patch_size=3, features=4, n_layers=0, n_heads=1)
    params = random_variables(encoder, images)["params"]
    kernel = params["patches"]["kernel"].reshape(3, 3, 3, 4)
    expected = layer(images / 255.0, {"kernel": kernel, "bias": 0.0}, stride=3, padding=0)
    patches = encoder.bind({"params": params})._patches(images / 255.0)
    tokens = patches @ params["patches"]["kernel"]
    np.testing.assert_allclose(tokens, expected, rtol=1e-4, atol=1e-5)


def test_a_transformer_sees_patches_and_their_positions():
    images = uint8_images(1, 8, 8, 3)
    mirrored = images[:, :, ::-1]
    permuted = jnp.concatenate([images[:, 4:], images[:, :4]], axis=1)
    encoder = ViT(patch_size=4, features=8, n_layers=1, n_heads=2)
    params = random_variables(encoder, images)["params"]
    without = {**params, "positions": jnp.zeros_like(params["positions"])}

    @jax.jit
    def encode(params, images):
        return encoder.apply({"params": params}, images)

    unplaced = encode(without, images)
    np.testing.assert_allclose(encode(without, permuted), unplaced, atol=1e-5)
    assert np.abs(encode(without, mirrored) - unplaced).max() > 1e-3
    assert np.abs(encode(params, permuted) - encode(params, images)).max() > 1e-3


def test_sines_and_cosines_of_positions():
    embeddings = sincos_positions(2, 3, 8)
    assert embeddings.shape == (6, 8)
    for row in range(2):
        for column in range(3):
            expected = [
                function(position * frequency)
                for position in (row, column)
                for function in (np.sin, np.cos)
                for frequency in (1.0, 0.01)
            ]
            np.testing.assert_allclose(embeddings[3 * row + column], expected, atol=1e-6)


# Batch normalisation.


def test_batch_statistics_follow_the_batches_in_training():
    encoder, images = ResNetV1(blocks=(1,), norm="batch"), uint8_images(4, 8, 8, 3)
    variables = random_variables(encoder, images)
    state = TrainState.create(
        encoder,
        variables["params"],
        optax.sgd(0.1),
        extra_variables={"batch_stats": variables["batch_stats"]},
    )
    stem = layer(images / 255.0, {**state.params["stem"], "bias": 0.0}, 2, padding=3)

    @jax.jit
    def train_step(state):
        def loss(params):
            features, updates = state(images, params=params, train=True, mutable=["batch_stats"])
            return jnp.square(features).mean(), updates

        state, updates = state.apply_loss_fn(loss_fn=loss, has_aux=True)
        return state.replace(extra_variables=updates)

    trained = train_step(state)
    before, after = (s.extra_variables["batch_stats"]["stem_norm"] for s in (state, trained))
    mean, var = stem.mean((0, 1, 2)), stem.var((0, 1, 2))
    np.testing.assert_allclose(after["mean"], 0.9 * before["mean"] + 0.1 * mean, atol=1e-5)
    np.testing.assert_allclose(after["var"], 0.9 * before["var"] + 0.1 * var, rtol=1e-4)
    apply = jax.jit(TrainState.__call__)
    assert np.abs(apply(trained, images) - apply(state, images)).max() > 1e-4
    np.testing.assert_allclose(apply(state, images)[0], apply(state, images[0]), atol=1e-5)


class Picture(Probe):
    """Observes an image that is black or white."""

    def observe(self, state):
        return jnp.full((4, 4, 3), jnp.where(state.sign > 0, 255, 0), jnp.uint8)


@pytest.mark.slow
def test_in_the_networks_of_an_agent():
    encoder = make_encoder("impala", sections=(4,), n_blocks=1)
    config = AgentConfig(
        n_steps=1,
        batch_size=4,
        minibatch_size=2,
        rollout_length=4,
        n_evals=1,
        actor_network=WithEncoder(encoder, CategoricalActor(2, features=(4,))),
        critic_network=WithEncoder(encoder, StateCritic(features=(4,))),
    )
    agent, hyperparams = PPO(Picture(), None, config), HyperParameters()
    start = agent.start(KEY, hyperparams)
    end, _ = agent.train(KEY, hyperparams, progress=False)
    for network in ("actor_training", "critic_training"):
        before, after = (getattr(runner, network).params["encoder"] for runner in (start, end))
        changes = jax.tree.map(lambda x, y: np.abs(x - y).max(), before, after)
        assert all(0.0 < change < 1.0 for change in jax.tree.leaves(changes)), network


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


def test_the_base_is_abstract():
    with pytest.raises(NotImplementedError):
        Encoder().apply({}, jnp.zeros((4, 4, 3)))


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
