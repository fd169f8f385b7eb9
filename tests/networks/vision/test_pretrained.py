"""Weights in files, and what does not fit."""

import re
import sys

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization

from jaxagents.core.extras import pip_install
from jaxagents.networks.vision import (
    ResNetV1,
    from_torch_resnet,
    load_pretrained,
    save_pretrained,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
VARIABLES = {
    "params": {"a": {"kernel": jnp.arange(6.0).reshape(2, 3)}, "b": jnp.array([0.5])},
    "batch_stats": {"a": {"mean": jnp.array([1.0, 2.0])}},
}
every_format = pytest.mark.parametrize("name", ["weights.safetensors", "weights.msgpack"])


def assert_equal(loaded, expected):
    assert jax.tree.structure(loaded) == jax.tree.structure(expected)
    for array, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(expected), strict=True):
        assert isinstance(array, jax.Array)
        assert array.dtype == other.dtype
        np.testing.assert_array_equal(array, other)


@every_format
def test_weights_that_are_saved_are_loaded_in_the_types_of_the_network(tmp_path, name):
    path = tmp_path / name
    save_pretrained(flax.core.freeze(VARIABLES), path)
    zeros = jax.tree.map(jnp.zeros_like, VARIABLES)
    for like in (zeros, flax.core.freeze(zeros)):
        assert_equal(load_pretrained(like, path), VARIABLES)
    assert_equal(load_pretrained(jax.eval_shape(lambda: zeros), str(path)), VARIABLES)
    with pytest.raises(FileExistsError):
        save_pretrained(VARIABLES, path)
    short = jax.tree.map(lambda x: x.astype(jnp.bfloat16), VARIABLES)
    save_pretrained(short, tmp_path / f"short.{name}")
    assert_equal(load_pretrained(VARIABLES, tmp_path / f"short.{name}"), VARIABLES)


@every_format
def test_arrays_that_lie_otherwise_in_memory(tmp_path, name):
    """As the transposed weights of another library do."""
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    variables = {"transposed": rows.T, "reversed": rows[::-1], "columns": rows[:, 1:]}
    save_pretrained(variables, tmp_path / name)
    expected = jax.tree.map(jnp.asarray, variables)
    assert_equal(load_pretrained(expected, tmp_path / name), expected)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (
            {"params": {"a": {"bias": 0.0, "kernel": 0.0}}},
            r"it lacks \['params/a/bias'\], and has \['batch_stats/a/mean', 'params/b'\], which the n",
        ),
        (
            {f"layer{i}": 0.0 for i in range(9)},
            r"it lacks \['layer0', 'layer1', 'layer2', 'layer3', 'layer4'\], and has",
        ),
        (
            {**VARIABLES, "params": {**VARIABLES["params"], "b": jnp.zeros((1, 2))}},
            r"weights.* does not fit: 'params/b' has the shape \(1,\), but the network \(1, 2\)",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, expected, message):
    save_pretrained(VARIABLES, tmp_path / "weights.msgpack")
    with pytest.raises(ValueError, match=message):
        load_pretrained(expected, tmp_path / "weights.msgpack")


@every_format
def test_files_that_cannot_be_read_are_named(tmp_path, name):
    save_pretrained(VARIABLES, tmp_path / name)
    for damaged in ((tmp_path / name).read_bytes()[:-3], b"garbage", b""):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"{name} cannot be read as arrays in \w+: "):
            load_pretrained(VARIABLES, tmp_path / name)


@pytest.mark.parametrize("content", [np.zeros(3), {"a": {"kernel": 0.5}}], ids=str)
def test_files_of_other_things_than_arrays_are_named(tmp_path, content):
    path = tmp_path / "x.msgpack"
    path.write_bytes(serialization.msgpack_serialize(content))
    with pytest.raises(ValueError, match=r"x.msgpack (cannot be read as|does not fit)"):
        load_pretrained(VARIABLES, path)


def test_files_that_are_not_there_or_of_another_format(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_pretrained(VARIABLES, tmp_path / "none.msgpack")
    for use in (load_pretrained, save_pretrained):
        with pytest.raises(
            ValueError, match=r"must end in .safetensors or .msgpack, got .*weights.npz"
        ):
            use(VARIABLES, tmp_path / "weights.npz")
    assert not list(tmp_path.iterdir())


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.flax", None)
    with pytest.raises(ImportError, match=re.escape(pip_install("vision"))):
        save_pretrained(VARIABLES, tmp_path / "weights.safetensors")
    save_pretrained(VARIABLES, tmp_path / "weights.msgpack")


# Residual networks of PyTorch: the reference is written with PyTorch's names and order of axes.


STEM = {"conv1": (64, 3, 7, 7), "bn1": (64,)}


def torch_layers(prefix, n_in, n_out, sizes, shortcut):
    """Shapes of the layers of a block: convolutions, normalisations and the shortcut."""
    channels = [n_in] + [n_out // 4] * (len(sizes) - 1) + [n_out] if len(sizes) == 3 else None
    channels = channels or [n_in, n_out, n_out]
    layers = {}
    for i, size in enumerate(sizes):
        layers[f"{prefix}conv{i + 1}"] = (channels[i + 1], channels[i], size, size)
        layers[f"{prefix}bn{i + 1}"] = (channels[i + 1],)
    if shortcut:
        layers[f"{prefix}downsample.0"] = (n_out, n_in, 1, 1)
        layers[f"{prefix}downsample.1"] = (n_out,)
    return layers


def torch_tensors(layers):
    tensors = {}
    for name, shape in layers.items():
        tensors[f"{name}.weight"] = RNG.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        if len(shape) == 1:
            for leaf in ("bias", "running_mean"):
                tensors[f"{name}.{leaf}"] = RNG.normal(size=shape)
            tensors[f"{name}.running_var"] = RNG.uniform(0.5, 2.0, size=shape)
            tensors[f"{name}.num_batches_tracked"] = np.array(7)
    return {name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()}


def torch_conv(x, tensors, name, stride=1):
    kernel = tensors[f"{name}.weight"]
    padding = kernel.shape[-1] // 2
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), [(padding, padding)] * 2)


def torch_norm(x, tensors, name):
    scale, bias, mean, var = (
        tensors[f"{name}.{leaf}"][None, :, None, None]
        for leaf in ("weight", "bias", "running_mean", "running_var")
    )
    return scale * (x - mean) / np.sqrt(var + 1e-5) + bias


def torch_block(x, tensors, prefix, n_convs, stride):
    y = x
    strided = n_convs - 1  # the first of two convolutions, or the second of three
    for i in range(1, n_convs + 1):
        y = torch_conv(y, tensors, f"{prefix}conv{i}", stride if i == strided else 1)
        y = torch_norm(y, tensors, f"{prefix}bn{i}")
        y = jnp.maximum(y, 0.0) if i < n_convs else y
    if f"{prefix}downsample.0.weight" in tensors:
        x = torch_conv(x, tensors, f"{prefix}downsample.0", stride)
        x = torch_norm(x, tensors, f"{prefix}downsample.1")
    return jnp.maximum(x + y, 0.0)


@pytest.mark.parametrize("bottleneck", [False, True])
def test_residual_networks_of_pytorch(bottleneck):
    sizes, widths = ((1, 3, 1), (256, 512)) if bottleneck else ((3, 3), (64, 128))
    layers = STEM | torch_layers("layer1.0.", 64, widths[0], sizes, shortcut=bottleneck)
    layers |= torch_layers("layer1.1.", widths[0], widths[0], sizes, shortcut=False)
    layers |= torch_layers("layer2.0.", widths[0], widths[1], sizes, shortcut=True)
    if bottleneck:
        layers["layer2.0.conv1"] = (128, 256, 1, 1)
    tensors = torch_tensors(layers)
    images = jnp.asarray(RNG.uniform(size=(2, 16, 8, 3)), jnp.float32)

    @jax.jit
    def reference(images):
        x = torch_conv(jnp.moveaxis(images, -1, 1), tensors, "conv1", stride=2)
        x = jnp.maximum(torch_norm(x, tensors, "bn1"), 0.0)
        padding = ((0, 0), (0, 0), (1, 1), (1, 1))
        window = ((1, 1, 3, 3), (1, 1, 2, 2))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *window, padding)
        for block, stride in (("layer1.0.", 1), ("layer1.1.", 1), ("layer2.0.", 2)):
            x = torch_block(x, tensors, block, len(sizes), stride)
        return x.mean((2, 3))

    encoder = ResNetV1(blocks=(2, 1), bottleneck=bottleneck, norm="batch")
    fresh = jax.eval_shape(encoder.init, KEY, images)
    classifier = {"fc.weight": np.zeros(3), "fc.bias": np.zeros(3)}
    variables = from_torch_resnet(fresh, {**tensors, **classifier})
    assert jax.tree.map(jnp.shape, variables) == jax.tree.map(jnp.shape, fresh)
    features = jax.jit(encoder.apply)(variables, images)
    np.testing.assert_allclose(features, reference(images), rtol=1e-3, atol=1e-3)


def test_weights_of_another_network_are_refused():
    shapes = jax.eval_shape(ResNetV1(blocks=(1,)).init, KEY, jnp.zeros((8, 8, 3)))
    for layers, message in (
        (STEM, r"does not fit: it lacks .*, and has \['batch_stats/stem_norm/"),
        (
            {"blocks.0.attn.qkv": (3,)},
            "'blocks.0.attn.qkv.weight' is not an array of a residual net",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            from_torch_resnet(shapes, torch_tensors(layers))
