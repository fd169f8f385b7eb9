"""Fully connected layers against those of Flax, under all transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxagents.networks.dense import Dense, dot_general

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (7, 3))
WIDE, NARROW = 64, 2
PARAMS = nn.Dense(WIDE).init(jax.random.key(1), X)
NARROW_PARAMS = nn.Dense(NARROW).init(jax.random.key(1), X)
SEVERAL = jax.tree.map(lambda x: jnp.stack([x, 2.0 * x]), PARAMS)


def loss(layer):
    return lambda params, x: jnp.sin(layer.apply(params, x)).sum()


def descend(layer, x):
    def step(params, _):
        gradients = jax.grad(loss(layer))(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), None

    return jax.lax.scan(step, PARAMS, length=3)[0]


def vmapped(layer, params, in_axes=0, out_axes=0):
    return jax.vmap(lambda x: layer.apply(params, x), in_axes, out_axes)


CASES = {
    "rows": lambda layer: layer.apply(PARAMS, X),
    "one row": lambda layer: layer.apply(PARAMS, X[0]),
    "several axes": lambda layer: layer.apply(PARAMS, X.reshape(1, 7, 1, 3)),
    "gradients": lambda layer: jax.grad(loss(layer), (0, 1))(PARAMS, X),
    "gradients of a vmapped function": lambda layer: jax.grad(
        lambda params: jax.vmap(lambda x: loss(layer)(params, x))(X).sum()
    )(PARAMS),
    "gradients of each row": lambda layer: jax.vmap(jax.grad(loss(layer)), (None, 0))(PARAMS, X),
    "second derivatives": lambda layer: jax.hessian(loss(layer))(PARAMS, X),
    "forward mode": lambda layer: jax.jvp(lambda p: layer.apply(p, X), (PARAMS,), (PARAMS,)),
    "several layers": lambda layer: jax.vmap(lambda p: jax.grad(loss(layer))(p, X))(SEVERAL),
    "several layers and rows": lambda layer: jax.vmap(
        lambda p: vmapped(layer, p, out_axes=1)(X[:, None])
    )(SEVERAL),
    "gradients of several layers with rows along several axes": lambda layer: jax.vmap(
        lambda p: jax.grad(loss(layer))(p, jnp.stack([X, -X]))
    )(SEVERAL),
    "columns": lambda layer: vmapped(layer, PARAMS, in_axes=1)(X.T),
    "a scan of each row": lambda layer: jax.vmap(lambda x: descend(layer, x))(X),
    "many rows": lambda layer: jax.grad(loss(layer), (0, 1))(PARAMS, jnp.tile(X, (8, 1))),
    "gradients of rows along several axes": lambda layer: jax.grad(loss(layer), (0, 1))(
        PARAMS, X.reshape(7, 1, 3, 1) * jnp.ones((1, 5, 1, 3))
    ),
    "no rows": lambda layer: jax.grad(loss(layer))(PARAMS, X[:0]),
    "short floats": lambda layer: layer.apply(
        *jax.tree.map(lambda x: x.astype(jnp.bfloat16), (PARAMS, X))
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("compiled", [False, True])
def test_computes_what_the_layer_of_flax_does(case, compiled):
    found = jax.jit(lambda: case(Dense(WIDE)))() if compiled else case(Dense(WIDE))
    expected = jax.jit(lambda: case(nn.Dense(WIDE)))()
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(
            x.astype(float), y.astype(float), rtol=1e-5, atol=1e-5
        ),
        found,
        expected,
    )
    assert jax.tree.map(jnp.result_type, found) == jax.tree.map(jnp.result_type, expected)


def test_the_gradient_of_a_vmapped_function_is_one_ordinary_product():
    rows = jnp.tile(X, (8, 1))
    gradient = jax.grad(lambda params: jax.vmap(lambda x: loss(Dense(WIDE))(params, x))(rows).sum())
    program = jax.jit(gradient).lower(PARAMS).as_text()
    products = [line for line in program.splitlines() if "dot_general" in line]
    assert len(products) == 2
    forward, backward = products
    assert "contracting_dims = [2] x [0]" in forward
    assert "contracting_dims = [1] x [0]" in backward


@pytest.mark.parametrize(
    "transformation",
    [
        lambda f: jax.grad(f),
        lambda f: jax.hessian(f),
        lambda f: jax.grad(lambda params, x: jax.vmap(lambda x: f(params, x))(x).sum()),
        lambda f: jax.vmap(jax.grad(f), (None, 0)),
    ],
    ids=["gradient", "second derivatives", "of a vmapped function", "of each row"],
)
@pytest.mark.parametrize("shape", [(20, 3), (4, 5, 3)])
def test_gradients_of_few_columns(transformation, shape):
    x = jnp.sin(jnp.arange(60.0)).reshape(shape)
    found, expected = (
        jax.jit(transformation(loss(layer)))(NARROW_PARAMS, x)
        for layer in (Dense(NARROW), nn.Dense(NARROW))
    )
    trees.assert_close(found, expected)


def test_only_large_products_call_a_library():
    def products(params, x):
        return jax.jit(Dense(WIDE).apply).lower(params, x).as_text().count("dot_general")

    assert products(PARAMS, X) == 0
    assert products(PARAMS, jnp.tile(X, (8, 1))) == 1
    short = jax.tree.map(lambda x: x.astype(jnp.bfloat16), (PARAMS, X))
    assert products(*short) == 1  # sums of these would be rounded


def test_the_gradient_of_few_columns_is_a_product_with_each():
    rows = jnp.tile(X, (64, 1))
    program = jax.jit(jax.grad(loss(Dense(NARROW)))).lower(NARROW_PARAMS, rows).as_text()
    _, *backward = [line for line in program.splitlines() if "dot_general" in line]
    assert len(backward) == NARROW
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
    found = dot_general(X, X, dimensions, **options)
    np.testing.assert_array_equal(found, jax.lax.dot_general(X, X, dimensions, **options))


def test_over_several_devices():
    layer, x = Dense(5), np.asarray(jnp.tile(X, (8, 1)))[:8]
    params = layer.init(jax.random.key(1), x)
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
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4),
            by_several(params, placed),
            by_one,
        )
