"""Convolutions, poolings and normalisations against XLA and Flax."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents.networks.vision import Conv, GroupNorm, convolve, max_pool

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def xla_convolve(x, kernel, stride, padding):
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def both(transform, *args):
    """The outputs of a transformation of our convolution and of XLA's."""
    return [jax.jit(transform(function))(*args) for function in (convolve, xla_convolve)]


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
def test_convolutions_and_their_derivatives_are_those_of_xla(case):
    height, width, size, stride, padding, features = case
    x, kernel = normal(2, height, width, 3), normal(size, size, 3, features)
    weights = normal(*jax.eval_shape(lambda: xla_convolve(x, kernel, stride, padding)).shape)

    def outputs(function):
        def weighted_sum(x, kernel):
            y = function(x, kernel, stride, padding)
            return (y * weights).sum(), y

        return jax.grad(weighted_sum, argnums=(0, 1), has_aux=True)

    (ours, y), (expected, reference) = both(outputs, x, kernel)
    assert y.shape == reference.shape
    trees.assert_close((ours, y), (expected, reference))


def test_convolutions_can_be_vmapped_and_differentiated_twice_and_forth():
    xs, kernels = normal(2, 1, 4, 4, 2), normal(2, 3, 3, 2, 3)

    def derivatives(function):
        def norm_of_gradient(x, kernel):
            inner = jax.grad(lambda k: jnp.sum(function(x, k, 1, 1) ** 2))
            return jnp.sum(inner(kernel) ** 2)

        def of_one(x, kernel):
            tangent = jax.jvp(lambda *p: function(*p, 2, 1), (x, kernel), (-x, kernel))
            return jax.grad(norm_of_gradient, argnums=1)(x, kernel), tangent

        return jax.vmap(of_one)

    for ours, expected in zip(*map(jax.tree.leaves, both(derivatives, xs, kernels)), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_the_gradient_of_a_kernel_is_that_of_all_parts_of_many_images():
    xs, kernel = jnp.asarray(normal(130, 4, 4, 2)), normal(3, 3, 2, 3)
    gradient = lambda f: jax.grad(lambda k: jnp.sum(f(xs, k, 1, 1) ** 2))  # noqa: E731
    np.testing.assert_allclose(*both(gradient, kernel), rtol=1e-4, atol=1e-2)


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


def test_a_layer_is_the_convolution_of_flax_also_with_standardised_weights():
    x, kernel = jnp.asarray(normal(2, 6, 6, 3)), normal(3, 3, 3, 5)
    for stride, bias, standardise in ((2, normal(5), False), (1, None, True)):
        params = {"kernel": kernel} if bias is None else {"kernel": kernel, "bias": bias}
        layer = Conv(5, 3, stride, use_bias=bias is not None, standardise=standardise)
        assert set(jax.eval_shape(layer.init, KEY, x)["params"]) == set(params)
        flat = kernel.reshape(-1, 5)
        scaled = (flat - flat.mean(0)) / flat.std(0) if standardise else flat
        reference = nn.Conv(5, (3, 3), (stride, stride), padding=1, use_bias=bias is not None)
        expected = {"params": {**params, "kernel": scaled.reshape(kernel.shape)}}
        found = jax.jit(layer.apply)({"params": params}, x)
        np.testing.assert_allclose(found, jax.jit(reference.apply)(expected, x), atol=1e-4)


@pytest.mark.parametrize(("height", "width"), [(8, 5), (1, 1)])
def test_maxima_and_their_gradients_are_those_of_flax(height, width):
    x = normal(2, height, width, 3)

    def reference(x):
        return nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))

    def outputs(function):
        return jax.jit(jax.grad(lambda x: (jnp.sum(function(x) ** 2), function(x)), has_aux=True))(
            x
        )

    trees.assert_close(outputs(max_pool), outputs(reference))


@pytest.mark.parametrize(("n_groups", "channels", "used"), [(4, 6, 3), (32, 5, 5)])
def test_group_normalisation_is_that_of_flax_and_finite_for_constants(n_groups, channels, used):
    x = 3.0 * normal(3, 4, 5, channels) + 1.0
    x[2] = 1000.0
    layer, reference = GroupNorm(n_groups), nn.GroupNorm(used, epsilon=1e-5)
    variables = {"params": {"scale": normal(channels), "bias": normal(channels)}}

    def outputs(layer):
        def total(x):
            y = layer.apply(variables, x)
            return y.sum(), y

        return jax.jit(jax.grad(total, has_aux=True))(x)

    (gradient, y), (_, expected) = outputs(layer), outputs(reference)
    np.testing.assert_allclose(y[:2], expected[:2], atol=1e-4)
    np.testing.assert_allclose(
        y[2], np.broadcast_to(variables["params"]["bias"], (4, 5, channels)), atol=1e-2
    )
    assert np.isfinite(gradient).all()
    fresh = jax.jit(layer.init)(KEY, x)["params"]
    np.testing.assert_array_equal(fresh["scale"], np.ones(channels))
    np.testing.assert_array_equal(fresh["bias"], np.zeros(channels))
