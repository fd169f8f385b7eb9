"""The default encoder of observations: structures, types, batch axes and its networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents.networks import (
    ObservationEncoder,
    PatchConv,
    Torso,
    ValueCritic,
    WithEncoder,
    ensemblize,
    observation_encoder,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def uniform(*shape):
    return jnp.asarray(RNG.uniform(size=shape), jnp.float32)


UINT8_IMAGE = jnp.asarray(RNG.integers(256, size=(4, 5, 3)), jnp.uint8)
OBSERVATIONS = {  # with the number of features of each
    "scalar": (uniform(), 1),
    "matrix": (uniform(4, 3), 12),
    "integer vector": (jnp.arange(5), 5),
    "boolean vector": (jnp.arange(5) > 2, 5),
    "float image": (uniform(4, 5, 3), 4 * 5 * 16),
    "uint8 image": (UINT8_IMAGE, 4 * 5 * 16),
    "boolean image": (UINT8_IMAGE > 100, 4 * 5 * 16),
    "dict": (
        {
            "camera": UINT8_IMAGE,
            "grid": uniform(2, 3, 1),
            "speed": uniform(4),
            "gear": jnp.array(2),
        },
        4 * 5 * 16 + 2 * 3 * 16 + 4 + 1,
    ),
    "tuple": ((uniform(2), (jnp.arange(3), uniform(2, 2))), 2 + 3 + 4),
}
every_observation = pytest.mark.parametrize(
    ("obs", "n_features"), OBSERVATIONS.values(), ids=OBSERVATIONS.keys()
)
every_batch = pytest.mark.parametrize("batch_shape", [(), (5,), (5, 4)], ids=str)


def batch_of(obs, batch_shape):
    """Observations that differ, with the first one as it is given."""

    def stacked(x):
        n = int(np.prod(batch_shape))
        x, factors = np.asarray(x)[None], np.arange(n, 0, -1).reshape(n, *[1] * x.ndim)
        return (x * factors / n if x.dtype != bool else x ^ (factors < n)).astype(x.dtype)

    return jax.tree.map(lambda x: stacked(x).reshape((*batch_shape, *x.shape)), obs)


@every_batch
@every_observation
def test_every_observation_becomes_a_vector(obs, n_features, batch_shape):
    encoder = observation_encoder(obs)
    variables, apply = trees.variables(encoder, obs), jax.jit(encoder.apply)
    batch = batch_of(obs, batch_shape)
    features = apply(variables, batch)
    assert features.shape == (*batch_shape, n_features)
    assert features.dtype == jnp.float32
    flat = jax.tree.map(lambda x, one: x.reshape(-1, *one.shape), batch, obs)
    alone = [
        apply(variables, jax.tree.map(lambda x: x[i], flat))  # noqa: B023
        for i in range(int(np.prod(batch_shape)))
    ]
    np.testing.assert_allclose(
        features.reshape(-1, n_features), np.stack(alone), rtol=1e-4, atol=1e-6
    )


@every_observation
def test_shapes_and_types_are_enough(obs, n_features):
    shapes = jax.eval_shape(lambda: obs)
    assert observation_encoder(shapes) == observation_encoder(obs)
    assert hash(observation_encoder(shapes)) == hash(observation_encoder(obs))
    features, _ = jax.eval_shape(observation_encoder(shapes).init_with_output, KEY, obs)
    assert features.shape == (n_features,)


@pytest.mark.parametrize("vector", [uniform(5), np.zeros(5), jax.ShapeDtypeStruct((5,), "float32")])
def test_vectors_of_real_numbers_need_no_encoder(vector):
    assert observation_encoder(vector) is None
    assert observation_encoder({"state": vector}) == ObservationEncoder((1,))
    assert observation_encoder((vector, vector)) == ObservationEncoder((1, 1))


def test_parts_are_in_the_order_of_the_leaves():
    obs = {"b": uniform(2), "a": (jnp.array([True, False]), uniform(2, 2)), "c": jnp.array(7)}
    encoder = observation_encoder(obs)
    assert encoder.ndims == (1, 2, 1, 0)
    expected = np.concatenate([[1.0, 0.0], obs["a"][1].ravel(), obs["b"], [7.0]])
    np.testing.assert_array_equal(encoder.apply({}, obs), expected)


@every_batch
def test_integers_become_one_hot(batch_shape):
    encoder = observation_encoder(jnp.array(0), n_categories=6)
    obs = jnp.asarray(RNG.integers(6, size=batch_shape))
    features = encoder.apply({}, obs)
    assert features.dtype == jnp.float32
    np.testing.assert_array_equal(features, np.eye(6)[obs])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("channels", [(7,), (7, 6), ()], ids=str)
def test_images_are_convolved_and_rectified(channels, padding):
    encoder = ObservationEncoder((3, 1), channels=channels, padding=padding)
    image = jnp.asarray(RNG.integers(256, size=(6, 5, 3)), jnp.uint8)
    obs = {"image": image, "state": uniform(2)}
    variables = trees.variables(encoder, obs)
    x = image / np.float32(255.0)
    for i, n_channels in enumerate(channels):
        params = {"params": variables["params"][f"PatchConv_{i}"]}
        x = nn.relu(PatchConv(n_channels, padding=padding).apply(params, x))
    expected = np.concatenate([x.ravel(), obs["state"]])
    np.testing.assert_allclose(encoder.apply(variables, obs), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["uint8 image", "boolean image"])
def test_images_are_scaled_as_in_a_torso(kind):
    image, _ = OBSERVATIONS[kind]
    full_range = 255.0 if image.dtype == jnp.uint8 else 1.0
    as_float = image.astype(jnp.float32) / full_range
    for network in (ObservationEncoder((3,)), Torso((8,))):
        variables = trees.variables(network, image)
        np.testing.assert_allclose(
            network.apply(variables, image),
            network.apply(variables, as_float),
            rtol=1e-4,
            atol=1e-5,
        )


def test_an_encoder_is_shared_by_an_ensemble_and_trained_through_it():
    obs = batch_of(OBSERVATIONS["dict"][0], (5,))
    network = WithEncoder(
        observation_encoder(OBSERVATIONS["dict"][0]), ensemblize(ValueCritic, 2)((8,))
    )
    variables = trees.variables(network, obs)
    assert jax.eval_shape(network.apply, variables, obs).shape == (2, 5)
    gradient_of = jax.jit(jax.grad(lambda v, obs: network.apply(v, obs).sum()))
    gradient = jax.tree.map(np.asarray, gradient_of(variables, obs)["params"]["encoder"])
    assert all(leaf.any() for leaf in jax.tree.leaves(gradient))


def test_observations_of_another_structure_are_refused():
    encoder = observation_encoder((uniform(2), uniform(3)))
    with pytest.raises(ValueError, match=r"observations of 2 arrays, got one of 1: \(\(2,\),\)"):
        encoder.init(KEY, (uniform(2),))


def test_entries_that_networks_do_not_see_are_not_encoded():
    obs = {"observation": {"x": uniform(2), "y": uniform(3)}, "action_mask": np.ones(4, bool)}
    assert observation_encoder(obs) == observation_encoder(obs["observation"])
    assert observation_encoder({**obs, "observation": uniform(2)}) is None
