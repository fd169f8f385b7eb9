"""Fully connected layers against Flax, under all transformations; noisy ones against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxagents.networks import DiscreteCritic, DuelingCritic, Ensemble, NoisyDense, with_noise
from jaxagents.networks.dense import Dense, dot_general

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype(np.float32)
MANY = np.tile(X, (64, 1))
WIDE, NARROW = 64, 2
PARAMS, NARROW_PARAMS = (trees.variables(nn.Dense(n), X) for n in (WIDE, NARROW))
SEVERAL = jax.tree.map(lambda x: np.stack([x, 2.0 * x]), PARAMS)


def loss(layer):
    return lambda params, x: jnp.sin(layer.apply(params, x)).sum()


def gradients(layer):
    return jax.grad(loss(layer), (0, 1))


def descend(layer, x):
    def step(params, _):
        return jax.tree.map(
            lambda p, g: p - 0.1 * g, params, jax.grad(loss(layer))(params, x)
        ), None

    return jax.lax.scan(step, PARAMS, length=3)[0]


def mapped(layer, params, in_axes=0, out_axes=0):
    return jax.vmap(lambda x: layer.apply(params, x), in_axes, out_axes)


def of_vmapped(layer):
    return jax.grad(lambda params, x: jax.vmap(lambda x: loss(layer)(params, x))(x).sum())


CASES = {
    "rows along several axes, and one row": lambda layer: [
        layer.apply(PARAMS, x) for x in (X.reshape(1, 7, 1, 3), X[0])
    ],
    "gradients": lambda layer: [
        gradients(layer)(PARAMS, X),
        gradients(layer)(PARAMS, MANY[:56]),
        gradients(layer)(PARAMS, X.reshape(7, 1, 3, 1) * np.ones((1, 5, 1, 3), np.float32)),
        gradients(layer)(PARAMS, X[:0]),
    ],
    "gradients of a vmapped function, and of each row": lambda layer: (
        of_vmapped(layer)(PARAMS, X),
        jax.vmap(jax.grad(loss(layer)), (None, 0))(PARAMS, X),
    ),
    "second derivatives": lambda layer: jax.hessian(loss(layer))(PARAMS, X),
    "forward mode": lambda layer: jax.jvp(lambda p: layer.apply(p, X), (PARAMS,), (PARAMS,)),
    "several layers": lambda layer: [
        jax.vmap(lambda p: jax.grad(loss(layer))(p, X))(SEVERAL),
        jax.vmap(lambda p: mapped(layer, p, out_axes=1)(X[:, None]))(SEVERAL),
        jax.vmap(lambda p: jax.grad(loss(layer))(p, np.stack([X, -X])))(SEVERAL),
    ],
    "columns": lambda layer: mapped(layer, PARAMS, in_axes=1)(X.T),
    "a scan of each row": lambda layer: jax.vmap(lambda x: descend(layer, x))(X),
    "short floats": lambda layer: layer.apply(
        *jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), (PARAMS, X))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_computes_what_the_layer_of_flax_does(name):
    case = CASES[name]
    found, expected = (
        jax.jit(lambda layer=layer: case(layer(WIDE)))() for layer in (Dense, nn.Dense)
    )
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x.astype(float), y.astype(float), rtol=1e-4, atol=1e-4)
        assert x.dtype == y.dtype
    if name == "forward mode":
        trees.assert_close(case(Dense(WIDE)), found)  # eager


def test_gradients_of_few_columns():
    x = np.sin(np.arange(60.0, dtype=np.float32)).reshape(4, 5, 3)

    def every(layer):
        each = jax.vmap(jax.grad(loss(layer)), (None, 0))
        functions = gradients(layer), jax.hessian(loss(layer)), of_vmapped(layer), each
        return jax.jit(lambda params, x: [f(params, x) for f in functions])(NARROW_PARAMS, x)

    trees.assert_close(every(Dense(NARROW)), every(nn.Dense(NARROW)))


def products(function, *args):
    program = jax.jit(function).lower(*args).as_text()
    return [line for line in program.splitlines() if "dot_general" in line]


def test_programs_have_the_products_that_are_fast_on_a_cpu():
    forward, backward = products(of_vmapped(Dense(WIDE)), PARAMS, MANY[:56])
    assert "contracting_dims = [2] x [0]" in forward
    assert "(tensor<56x3xf32>, tensor<56x64xf32>)" in backward  # of all rows
    assert len(products(Dense(WIDE).apply, PARAMS, X)) == 0  # small
    assert len(products(Dense(WIDE).apply, PARAMS, MANY)) == 1
    short = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), (PARAMS, X))
    assert len(products(Dense(WIDE).apply, *short)) == 1  # sums of these would be rounded
    _, *backward = products(jax.grad(loss(Dense(NARROW))), NARROW_PARAMS, MANY)
    assert len(backward) == NARROW  # one with each column
    assert all("contracting_dims = [0] x [0]" in line for line in backward)


@pytest.mark.parametrize(
    ("dimensions", "options"),
    [
        ((((0,), (0,)), ((), ())), {}),
        ((((1,), (1,)), ((), ())), {"precision": "highest"}),
        ((((1,), (1,)), ((0,), (0,))), {"preferred_element_type": jnp.float32}),
    ],
)
def test_other_products_are_left_to_xla(dimensions, options):
    x = jnp.asarray(X)
    expected = jax.lax.dot_general(x, x, dimensions, **options)
    np.testing.assert_array_equal(dot_general(x, x, dimensions, **options), expected)


def test_over_several_devices():
    layer, x = Dense(5), MANY[:8]
    params = trees.variables(layer, x)
    gradient = jax.grad(loss(layer))
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    placed = jax.device_put(x, NamedSharding(mesh, P("data")))
    places = {"mesh": mesh, "in_specs": (P(), P("data")), "out_specs": P()}
    by_one = jax.jit(gradient)(params, x)
    summed = jax.shard_map(gradient, **places)  # over the places that share the parameters
    own = jax.shard_map(
        lambda params, x: jax.lax.psum(gradient(params, x), "data"), check_vma=False, **places
    )
    for by_several in map(jax.jit, (gradient, summed, own)):
        trees.assert_close(by_several(params, placed), by_one)


# Noisy layers.

NOISY = NoisyDense(3)
NOISY_PARAMS = jax.jit(NOISY.init)(KEY, X)["params"]
noisy = jax.jit(with_noise)


def noise_of(params, drawn):
    """The noise that was added, in units of sigma."""
    params, drawn = jax.device_get((params, drawn))
    return {
        name: (drawn[name] - params[name]) / params[f"{name}_sigma"] for name in ("kernel", "bias")
    }


def test_a_noisy_layer_starts_as_in_the_paper_and_is_dense_without_noise():
    shapes = {"kernel": (3, 3), "bias": (3,), "kernel_sigma": (3, 3), "bias_sigma": (3,)}
    assert jax.tree.map(jnp.shape, NOISY_PARAMS) == shapes
    for name in ("kernel_sigma", "bias_sigma"):
        np.testing.assert_allclose(NOISY_PARAMS[name], 0.5 / np.sqrt(3.0), rtol=1e-6)
    params = {**NOISY_PARAMS, "bias": np.float32([1.0, -2.0, 0.5])}
    expected = X @ np.asarray(params["kernel"]) + params["bias"]
    found = jax.jit(NOISY.apply)({"params": params}, X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    trees.assert_equal(noisy(NOISY_PARAMS, KEY, 0.0), NOISY_PARAMS)


def test_noise_has_a_number_for_each_input_and_output():
    several = jax.jit(jax.vmap(lambda key: with_noise(NOISY_PARAMS, key)))(
        jax.random.split(KEY, 4000)
    )
    drawn = noise_of(NOISY_PARAMS, several)
    kernel, bias = drawn["kernel"][0], drawn["bias"][0]
    ratios = kernel / bias  # of the inputs alone
    np.testing.assert_allclose(ratios, np.broadcast_to(ratios[:, :1], (3, 3)), rtol=1e-3)
    normal = np.sign(drawn["bias"]) * drawn["bias"] ** 2  # f takes roots, with the sign
    np.testing.assert_allclose(normal.mean(axis=0), 0.0, atol=0.06)
    np.testing.assert_allclose(normal.std(axis=0), 1.0, atol=0.06)


def test_gradients_of_sigma_are_those_of_the_mean_times_the_noise():
    def squares(params):
        return jnp.sum(NOISY.apply({"params": with_noise(params, KEY)}, jnp.asarray(X)) ** 2)

    found = jax.jit(jax.grad(squares))(NOISY_PARAMS)
    for name, eps in noise_of(NOISY_PARAMS, noisy(NOISY_PARAMS, KEY)).items():
        np.testing.assert_allclose(found[f"{name}_sigma"], found[name] * eps, rtol=1e-3, atol=1e-3)


def test_each_layer_and_each_member_has_noise_of_its_own():
    network = Ensemble(DiscreteCritic((4, 4), noisy=True, n_actions=4), 2)
    params = trees.variables(network, MANY[:, :3])["params"]
    given = {"network": params, "target": params}
    added = jax.tree.map(lambda x, y: np.asarray(x - y), noisy(given, KEY), given)
    biases = [x for path, x in flatten_dict(added).items() if path[-1] == "bias"]
    assert len({tuple(x[i]) for x in biases for i in range(2)}) == 2 * len(biases) == 12


@pytest.mark.parametrize("kind", [DiscreteCritic, DuelingCritic])
def test_a_critic_of_noisy_layers_is_the_same_network_without_noise(kind):
    fields = {"features": (8, 8), "n_actions": 3, "n_outputs": 2}
    plain, noisy = kind(**fields), kind(**fields, noisy=True)
    params = trees.variables(noisy, X)["params"]
    means = {
        tuple(name.replace("NoisyDense", "Dense") for name in path): x
        for path, x in flatten_dict(params).items()
        if not path[-1].endswith("_sigma")
    }
    assert with_noise(means, KEY) is means  # other layers are left alone
    expected = jax.jit(plain.apply)({"params": unflatten_dict(means)}, X)
    found = jax.jit(noisy.apply)({"params": params}, X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
