"""Torsos, heads, the default encoder of observations, and the lift to several actors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents.networks import (
    MLP,
    CategoricalActor,
    Dense,
    GaussianActor,
    JointActor,
    MultiCategoricalActor,
    ObservationEncoder,
    PatchConv,
    PerActor,
    StateCritic,
    Torso,
    ValueCritic,
    WithEncoder,
    ensemblize,
    observation_encoder,
)

KEY = jax.random.key(0)
N_ACTORS = 3
RNG = np.random.default_rng(0)


def uniform(*shape):
    return RNG.uniform(size=shape).astype(np.float32)


IMAGE = RNG.integers(256, size=(4, 5, 3)).astype(np.uint8)
OBSERVATIONS = {  # with the number of features of the default encoder
    "scalar": (uniform(), 1),
    "matrix": (uniform(4, 3), 12),
    "boolean vector": (np.arange(5) > 2, 5),
    "dict": (
        {"camera": IMAGE, "grid": uniform(2, 3, 1), "speed": uniform(4), "gear": np.array(2)},
        4 * 5 * 16 + 2 * 3 * 16 + 4 + 1,
    ),
    "tuple": ((uniform(2), (np.arange(3), uniform(2, 2))), 2 + 3 + 4),
}


def applied(network, *inputs):
    """The output of a network, and its variables."""
    inputs = jax.tree.map(jnp.asarray, inputs)
    variables = trees.variables(network, *inputs)
    return jax.jit(network.apply)(variables, *inputs), variables


def batch_of(obs, n):
    """Observations that differ."""

    def stacked(x):
        x, factors = np.asarray(x)[None], np.arange(n, 0, -1).reshape(n, *[1] * np.ndim(x))
        return (x * factors / n if x.dtype != bool else x ^ (factors < n)).astype(x.dtype)

    return jax.tree.map(stacked, obs)


def at(i, tree):
    return jax.tree.map(lambda x: np.asarray(x)[i], tree)


def parameter_shapes(network, *inputs):
    variables = jax.eval_shape(network.init, KEY, *jax.tree.map(jnp.asarray, inputs))
    return jax.tree.map(jnp.shape, variables["params"])


# Torsos and encoders.


def test_mlp_is_a_chain_of_activated_affine_maps():
    x = uniform(2, 3, 5)
    found, variables = applied(MLP((8, 7), nn.relu), x)
    for layer in variables["params"].values():
        x = np.maximum(x @ layer["kernel"] + layer["bias"], 0.0)
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["scalar", "boolean vector", "dict", "tuple"])
def test_every_observation_becomes_a_vector(name):
    obs, n_features = OBSERVATIONS[name]
    torso, encoder, batch = Torso((7,), jnp.sin), observation_encoder(obs), batch_of(obs, 4)
    of_torso = trees.variables(torso, jax.tree.map(jnp.asarray, obs))
    variables = trees.variables(encoder, jax.tree.map(jnp.asarray, batch))

    @jax.jit
    def outputs(of_torso, variables, batch):
        alone = jax.vmap(encoder.apply, (None, 0))(variables, batch)
        together = encoder.apply(variables, batch)
        return jax.vmap(torso.apply, (None, 0))(of_torso, batch), alone, together

    features, alone, together = outputs(of_torso, variables, batch)
    assert features.shape == (4, 7)
    assert (features[0] != features[1]).any()
    assert together.shape == (4, n_features)
    assert features.dtype == together.dtype == jnp.float32
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    folded = jax.tree.map(lambda x: jnp.asarray(x.reshape(2, 2, *x.shape[1:])), batch)
    assert jax.eval_shape(encoder.apply, variables, folded).shape == (2, 2, n_features)
    of_shapes = observation_encoder(jax.eval_shape(lambda: jax.tree.map(jnp.asarray, obs)))
    assert of_shapes == encoder
    assert hash(of_shapes) == hash(encoder)


def test_torso_flattens_what_is_no_image_and_convolves_images():
    obs, network = jnp.asarray(OBSERVATIONS["matrix"][0]), Torso((8,))
    found, variables = applied(network, obs)
    shapes = jax.tree.map(jnp.shape, variables["params"])
    assert shapes == {"MLP_0": {"Dense_0": {"bias": (8,), "kernel": (12, 8)}}}
    np.testing.assert_allclose(found, jax.jit(network.apply)(variables, obs.ravel()), rtol=1e-6)
    shapes = parameter_shapes(network, OBSERVATIONS["dict"][0])
    assert shapes["PatchConv_0"]["Dense_0"]["kernel"] == (3 * 3 * 3, 16)
    assert shapes["PatchConv_1"]["Dense_0"]["kernel"] == (3 * 3 * 16, 32)
    assert shapes["MLP_0"]["Dense_0"]["kernel"] == (2 * 3 * 32 + 1 + 1 * 2 * 32 + 4, 8)


@pytest.mark.parametrize(
    ("shape", "kernel_size", "stride", "padding"),
    [
        ((8, 6, 3), (3, 3), 1, "VALID"),
        ((2, 9, 10, 2), (5, 3), 3, "SAME"),
    ],
)
def test_patch_conv_is_a_convolution(shape, kernel_size, stride, padding):
    x = uniform(*shape)
    found, variables = applied(PatchConv(4, kernel_size, stride, padding), x)
    dense = variables["params"]["Dense_0"]
    kernel = dense["kernel"].reshape(*kernel_size, shape[-1], 4)
    reference = nn.Conv(4, kernel_size, strides=stride, padding=padding)
    expected = jax.jit(reference.apply)({"params": {**dense, "kernel": kernel}}, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=r'2 x 5 pixels hold no whole patch of 3 x 3.*"SAME"'):
        parameter_shapes(PatchConv(4, padding="VALID"), uniform(2, 5, 1))


def test_integer_observations_become_one_hot():
    network = Torso((8,), n_categories=6)
    found, variables = applied(network, np.array(2))
    assert variables["params"]["MLP_0"]["Dense_0"]["kernel"].shape == (6, 8)
    one_hot = jnp.asarray(np.eye(6, dtype=np.float32)[2])
    np.testing.assert_array_equal(found, jax.jit(Torso((8,)).apply)(variables, one_hot))
    of_two = parameter_shapes(network, np.array([2, 0]))
    assert of_two["MLP_0"]["Dense_0"]["kernel"] == (12, 8)
    encoder, obs = observation_encoder(jnp.array(0), n_categories=6), np.array([[0, 3], [5, 1]])
    features = encoder.apply({}, jnp.asarray(obs))
    assert features.dtype == jnp.float32
    np.testing.assert_array_equal(features, np.eye(6)[obs])


def test_vectors_of_real_numbers_need_no_encoder_and_entries_beside_are_left_out():
    for vector in (uniform(5), np.zeros(5), jax.ShapeDtypeStruct((5,), "float32")):
        assert observation_encoder(vector) is None
        assert observation_encoder((vector, vector)) == ObservationEncoder((1, 1))
    obs = {"observation": {"x": uniform(2)}, "action_mask": np.ones(4, bool)}
    assert observation_encoder(obs) == observation_encoder(obs["observation"])


def test_parts_are_in_the_order_of_the_leaves():
    obs = {"b": uniform(2), "a": (np.array([True, False]), uniform(2, 2)), "c": np.array(7)}
    encoder = observation_encoder(obs)
    assert encoder.ndims == (1, 2, 1, 0)
    expected = np.concatenate([[1.0, 0.0], obs["a"][1].ravel(), obs["b"], [7.0]])
    np.testing.assert_array_equal(encoder.apply({}, obs), expected)
    with pytest.raises(ValueError, match="argument 2 is longer"):
        encoder.init(KEY, (uniform(2),))


@pytest.mark.parametrize(("channels", "padding"), [((7, 6), "VALID"), ((), "SAME")])
def test_images_are_scaled_convolved_and_rectified(channels, padding):
    encoder = ObservationEncoder((3, 1), channels=channels, padding=padding)
    obs = {"image": RNG.integers(256, size=(6, 5, 3)).astype(np.uint8), "state": uniform(2)}
    found, variables = applied(encoder, obs)

    @jax.jit
    def convolved(params, x):
        for i, n_channels in enumerate(channels):
            of_layer = {"params": params[f"PatchConv_{i}"]}
            x = nn.relu(PatchConv(n_channels, padding=padding).apply(of_layer, x))
        return x.ravel()

    pixels = convolved(variables.get("params", {}), obs["image"] / np.float32(255.0))
    expected = np.concatenate([pixels, obs["state"]])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_torso_scales_bytes_and_takes_flags_as_numbers():
    image = RNG.integers(256, size=(6, 5, 3)).astype(np.uint8)
    variables = trees.variables(Torso((8,)), image)
    apply = jax.jit(Torso((8,)).apply)
    for kind, as_float in ((image, image / np.float32(255.0)), (image > 9, np.float32(image > 9))):
        expected = apply(variables, as_float)
        np.testing.assert_allclose(apply(variables, kind), expected, rtol=1e-4, atol=1e-4)


def test_an_encoder_is_shared_by_an_ensemble_and_trained_through_it():
    obs, _ = OBSERVATIONS["dict"]
    network = WithEncoder(observation_encoder(obs), ensemblize(ValueCritic, 2)((8,)))
    batch = jax.tree.map(jnp.asarray, batch_of(obs, 5))

    def total(variables):
        values = network.apply(variables, batch)
        return values.sum(), values

    variables = trees.variables(network, batch)
    gradient, values = jax.jit(jax.grad(total, has_aux=True))(variables)
    assert values.shape == (2, 5)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(gradient["params"]["encoder"]))


# Heads.


@pytest.mark.parametrize(
    ("network", "shapes", "gain"),
    [
        (CategoricalActor(4, (20,)), (4,), 0.01),
        (GaussianActor((2, 3), (20,), initial_log_std=-0.5), ((2, 3), (2, 3)), 0.01),
        (StateCritic((20,), n_values=2), (2,), 1.0),
    ],
)
def test_heads_have_their_shapes_and_orthogonal_weights(network, shapes, gain):
    obs = uniform(5)
    output, variables = jax.jit(network.init_with_output)(KEY, obs)
    assert jax.tree.map(jnp.shape, output) == shapes
    if isinstance(network, GaussianActor):
        np.testing.assert_array_equal(output[1], -0.5)
        np.testing.assert_array_equal(variables["params"]["log_std"], -0.5)
    kernel = np.asarray(variables["params"]["Dense_0"]["kernel"])
    np.testing.assert_allclose(kernel.T @ kernel, gain**2 * np.eye(kernel.shape[1]), atol=1e-5)
    hidden = np.asarray(variables["params"]["Torso_0"]["MLP_0"]["Dense_0"]["kernel"])
    np.testing.assert_allclose(hidden @ hidden.T, 2.0 * np.eye(5), atol=1e-5)
    by_relu = jax.jit(network.clone(activation=nn.relu).apply)(variables, obs)
    assert (jax.tree.leaves(output)[0] != jax.tree.leaves(by_relu)[0]).all()
    several = MultiCategoricalActor((2, 3), (20,))
    shapes = jax.eval_shape(several.init_with_output, KEY, jnp.asarray(obs))[0]
    assert jax.tree.map(jnp.shape, shapes) == ((2,), (3,))
    of_six = parameter_shapes(network.clone(n_categories=6), np.array(2))
    assert of_six["Torso_0"]["MLP_0"]["Dense_0"]["kernel"] == (6, 20)


def test_a_joint_actor_has_the_outputs_of_its_parts():
    parts = CategoricalActor(3, ()), GaussianActor((1,), ())
    obs = uniform(5)
    for given, names in ((parts, (0, 1)), ({"a": parts[0], "b": parts[1]}, ("a", "b"))):
        network = JointActor(given, (8,))
        assert hash(network) == hash(JointActor(given, (8,)))
        output, variables = applied(network, obs)
        params = variables["params"]
        x = jax.jit(Torso((8,)).apply)({"params": params["Torso_0"]}, obs)
        for name, part in zip(names, parts, strict=True):
            alone = jax.jit(part.apply)({"params": params[f"actors_{name}"]}, x)
            trees.assert_close(output[name], alone)


# Several actors.


@pytest.mark.parametrize("shared", [False, True])
def test_every_actor_runs_the_single_network(shared):
    network = GaussianActor((2,), (8,))
    per_actor, obs = PerActor(network, N_ACTORS, shared_params=shared), uniform(N_ACTORS, 5)
    outputs, variables = applied(per_actor, obs)
    params, apply = variables["params"]["actors"], jax.jit(network.apply)
    for actor in range(N_ACTORS):
        own_params = params if shared else at(actor, params)
        assert jax.tree.map(jnp.shape, own_params) == parameter_shapes(network, uniform(5))
        alone = apply({"params": own_params}, at(actor, obs))
        trees.assert_close(at(actor, outputs), alone)
    if not shared:
        network = PerActor(Dense(2), N_ACTORS)
        first, second, third = jax.jit(network.init)(KEY, obs)["params"]["actors"]["kernel"]
        assert (first != second).all()
        assert (first != third).all()
    obs, _ = OBSERVATIONS["dict"]
    obs = jax.tree.map(jnp.asarray, batch_of(obs, N_ACTORS))
    of_dicts = jax.eval_shape(lambda: per_actor.init_with_output(KEY, obs)[0])
    assert all(x.shape[0] == N_ACTORS for x in jax.tree.leaves(of_dicts))
