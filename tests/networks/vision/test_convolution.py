"""Convolutions, poolings and normalisations against those of XLA and Flax."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxagents.networks.vision import Conv, GroupNorm, convolve, max_pool

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)


def normal(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def xla_convolve(x, kernel, stride, padding):
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


CASES = {  # height, width, kernel size, stride, padding, features
    "pairs of columns": (8, 6, 3, 1, 1, 4),
    "an odd number of columns": (6, 7, 3, 1, 1, 4),
    "many features": (5, 6, 3, 1, 0, 20),
    "even kernel": (7, 6, 2, 1, 1, 4),
    "stride": (7, 8, 3, 2, 1, 4),
    "stride that leaves pixels over": (12, 12, 8, 3, 0, 4),
    "image smaller than the kernel": (2, 2, 3, 1, 1, 20),
    "gradient smaller than the kernel": (4, 3, 3, 2, 1, 4),
    "border wider than the kernel": (4, 4, 2, 1, 2, 4),
    "single pixels": (5, 6, 1, 2, 0, 4),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_convolutions_and_their_gradients_are_those_of_xla(case):
    height, width, size, stride, padding, features = case
    x, kernel = normal(2, height, width, 3), normal(size, size, 3, features)
    weights = normal(*jax.eval_shape(lambda: xla_convolve(x, kernel, stride, padding)).shape)

    def output_and_gradients(function):
        def weighted_sum(x, kernel):
            y = function(x, kernel, stride, padding)
            return (y * weights).sum(), y

        return jax.jit(jax.grad(weighted_sum, argnums=(0, 1), has_aux=True))(x, kernel)

    ours, reference = map(output_and_gradients, (convolve, xla_convolve))
    for array, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(reference), strict=True):
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-4)


def test_convolutions_can_be_vmapped_and_differentiated_twice():
    xs, kernels = normal(2, 1, 4, 4, 2), normal(2, 3, 3, 2, 3)

    def gradients(function):
        def norm_of_gradient(x, kernel):
            inner = jax.grad(lambda k: jnp.sum(function(x, k, 1, 1) ** 2))
            return jnp.sum(inner(kernel) ** 2)

        return jax.jit(jax.vmap(jax.grad(norm_of_gradient, argnums=1)))(xs, kernels)

    ours, expected = gradients(convolve), gradients(xla_convolve)
    np.testing.assert_allclose(ours, expected, rtol=1e-3)


def test_the_gradient_of_a_kernel_is_that_of_all_parts_of_many_images():
    xs, kernel = normal(130, 4, 4, 2), normal(3, 3, 2, 3)

    def gradient(function):
        return jax.jit(jax.grad(lambda k: jnp.sum(function(xs, k, 1, 1) ** 2)))(kernel)

    np.testing.assert_allclose(gradient(convolve), gradient(xla_convolve), rtol=1e-4, atol=1e-2)


def test_tangents_are_those_of_xla():
    primals, tangents = ((normal(2, 5, 6, 3), normal(3, 3, 3, 4)) for _ in range(2))

    def derivative(function):
        return jax.jit(lambda *xs: jax.jvp(lambda *p: function(*p, 2, 1), xs, tangents))(*primals)

    for array, expected in zip(derivative(convolve), derivative(xla_convolve), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_the_gradient_of_a_kernel_is_one_convolution_of_all_samples(platform):
    """One for each sample is a loop on a GPU, and takes half as long again on a CPU."""
    xs, kernel = normal(7, 6, 6, 3), normal(3, 3, 3, 4)

    def loss(kernel, x):
        return jnp.sum(convolve(x[None], kernel, 2, 1) ** 2)

    def gradient(kernel, xs):
        return jax.grad(lambda k: jax.vmap(loss, (None, 0))(k, xs).mean())(kernel)

    program = jax.jit(gradient).trace(kernel, xs).lower(lowering_platforms=(platform,)).as_text()
    assert program.count("stablehlo.convolution") == 2
    assert re.findall(r"_group_count = (\d+)", program) == ["1"] * 4


def test_a_layer_is_the_convolution_of_flax():
    x = normal(2, 6, 6, 3)
    layer, reference = Conv(5, 3, stride=2), nn.Conv(5, (3, 3), (2, 2), padding=1)
    variables = layer.init(KEY, x)
    variables["params"]["bias"] = normal(5)
    np.testing.assert_allclose(layer.apply(variables, x), reference.apply(variables, x), atol=1e-5)
    assert "bias" not in Conv(5, use_bias=False).init(KEY, x)["params"]


def test_standardised_weights():
    x, layer = normal(2, 6, 6, 3), Conv(5, use_bias=False, standardise=True)
    kernel = layer.init(KEY, x)["params"]["kernel"]
    flat = np.asarray(kernel).reshape(-1, 5)
    standardised = ((flat - flat.mean(0)) / flat.std(0)).reshape(kernel.shape)
    y = layer.apply({"params": {"kernel": kernel}}, x)
    np.testing.assert_allclose(y, xla_convolve(x, standardised, 1, 1), atol=1e-4)


@pytest.mark.parametrize(("height", "width"), [(8, 6), (5, 7), (1, 1)])
def test_maxima_and_their_gradients_are_those_of_flax(height, width):
    x = normal(2, height, width, 3)

    def reference(x):
        return nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))

    np.testing.assert_array_equal(max_pool(x), reference(x))
    ours, expected = (jax.grad(lambda x, f=f: jnp.sum(f(x) ** 2))(x) for f in (max_pool, reference))
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize(("n_groups", "channels", "used"), [(2, 6, 2), (4, 6, 3), (32, 5, 5)])
def test_group_normalisation_is_that_of_flax(n_groups, channels, used):
    x = 3.0 * normal(2, 4, 5, channels) + 1.0
    variables = {"params": {"scale": normal(channels), "bias": normal(channels)}}
    reference = nn.GroupNorm(used, epsilon=1e-5)
    np.testing.assert_allclose(
        GroupNorm(n_groups).apply(variables, x), reference.apply(variables, x), atol=1e-5
    )
    fresh = GroupNorm(n_groups).init(KEY, x)["params"]
    np.testing.assert_array_equal(fresh["scale"], np.ones(channels))
    np.testing.assert_array_equal(fresh["bias"], np.zeros(channels))


def test_group_normalisation_of_constant_images_is_finite():
    x = jnp.full((1, 2, 2, 4), 1000.0)
    y, variables = GroupNorm(2).init_with_output(KEY, x)
    np.testing.assert_allclose(y, 0.0, atol=1e-3)
    gradient = jax.grad(lambda x: GroupNorm(2).apply(variables, x).sum())(x)
    assert np.isfinite(gradient).all()
