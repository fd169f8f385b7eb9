"""Shapes, observations of every structure, and the lift to several actors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents.networks import (
    MLP,
    CategoricalActor,
    GaussianActor,
    PatchConv,
    PerActor,
    StateCritic,
    Torso,
)

KEY = jax.random.key(0)
N_ACTORS = 3
RNG = np.random.default_rng(0)


def uniform(*shape):
    return jnp.asarray(RNG.uniform(size=shape), jnp.float32)


OBSERVATIONS = {
    "scalar": uniform(),
    "vector": uniform(5),
    "matrix": uniform(4, 3),
    "integer vector": jnp.arange(5),
    "boolean vector": jnp.arange(5) > 2,
    "float image": uniform(8, 6, 3),
    "uint8 image": jnp.asarray(RNG.integers(256, size=(8, 6, 3)), jnp.uint8),
    "dict": {"camera": uniform(8, 6, 1), "speed": uniform(4), "gear": jnp.array(2)},
    "tuple": (uniform(2), uniform(3)),
}
every_observation = pytest.mark.parametrize("obs", OBSERVATIONS.values(), ids=OBSERVATIONS.keys())
NETWORKS = [CategoricalActor(4, (8,)), GaussianActor((2,), (8,)), StateCritic((8,))]
every_network = pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n).__name__)


def shapes_of(tree):
    return jax.tree.map(jnp.shape, tree)


def stacked(observations):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *observations)


def altered(obs, i):
    """Another observation of the same structure."""

    def other(x):
        x = np.asarray(x)
        return ~x if x.dtype == bool else (x * (i + 1)).astype(x.dtype)

    return jax.tree.map(other, obs)


def parameter_shapes(network, obs):
    return shapes_of(jax.eval_shape(network.init, KEY, obs)["params"])


def assert_close(x, y):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), x, y)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)], ids=str)
def test_mlp_is_a_chain_of_activated_affine_maps(batch):
    network = MLP((8, 7), nn.relu)
    x = uniform(*batch, 5)
    params = trees.variables(network, x)
    expected = np.asarray(x)
    for name in ("Dense_0", "Dense_1"):
        layer = params["params"][name]
        expected = np.maximum(
            expected @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"]), 0.0
        )
    np.testing.assert_allclose(network.apply(params, x), expected, rtol=1e-4, atol=1e-5)


def test_mlp_is_orthogonal_with_gain_root_two():
    kernel = jax.jit(MLP((8,)).init)(KEY, uniform(20))["params"]["Dense_0"]["kernel"]
    np.testing.assert_allclose(kernel.T @ kernel, 2.0 * np.eye(8), atol=1e-5)


@every_observation
def test_torso_encodes_every_observation(obs):
    network = Torso((8, 7), jnp.sin)
    params = trees.variables(network, obs)
    apply = jax.jit(network.apply)
    features = apply(params, obs)
    assert features.shape == (7,)
    assert features.dtype == jnp.float32
    assert (features != apply(params, altered(obs, 1))).any()


def test_torso_flattens_what_is_no_image():
    obs = OBSERVATIONS["matrix"]
    network = Torso((8,))
    params = trees.variables(network, obs)
    assert shapes_of(params["params"]) == {"MLP_0": {"Dense_0": {"bias": (8,), "kernel": (12, 8)}}}
    np.testing.assert_array_equal(network.apply(params, obs), network.apply(params, obs.ravel()))


def test_torso_convolves_images():
    shapes = parameter_shapes(Torso((8,)), OBSERVATIONS["dict"])
    assert shapes["PatchConv_0"]["Dense_0"]["kernel"] == (3 * 3 * 1, 16)
    assert shapes["PatchConv_1"]["Dense_0"]["kernel"] == (3 * 3 * 16, 32)
    assert shapes["MLP_0"]["Dense_0"]["kernel"] == (4 * 3 * 32 + 1 + 4, 8)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel_size", [(3, 3), (2, 4), (1, 1), (5, 3)], ids=str)
def test_patch_conv_is_a_convolution(kernel_size, stride, padding):
    shapes = [(8, 6, 3), (7, 5, 1), (2, 9, 10, 2)]
    shape = shapes[(stride + sum(kernel_size)) % len(shapes)]
    x = uniform(*shape)
    network = PatchConv(4, kernel_size, stride, padding)
    params = trees.variables(network, x)
    dense = jax.tree.map(np.asarray, params["params"]["Dense_0"])
    kernel = dense["kernel"].reshape(*kernel_size, shape[-1], 4)
    reference = nn.Conv(4, kernel_size, strides=stride, padding=padding)
    expected = jax.jit(reference.apply)({"params": {**dense, "kernel": kernel}}, x)
    assert_close(jax.jit(network.apply)(params, x), expected)


def test_images_smaller_than_a_patch_are_refused_without_padding():
    with pytest.raises(ValueError, match=r'2 x 5 pixels hold no whole patch of 3 x 3.*"SAME"'):
        parameter_shapes(PatchConv(4, padding="VALID"), uniform(2, 5, 1))


def test_integer_observations_become_one_hot():
    network = Torso((8,), n_categories=6)
    params = trees.variables(network, jnp.array(2))
    plain = Torso((8,))
    assert params["params"]["MLP_0"]["Dense_0"]["kernel"].shape == (6, 8)
    for category in range(6):
        one_hot = plain.apply(params, jnp.asarray(np.eye(6)[category], jnp.float32))
        features = network.apply(params, jnp.array(category))
        np.testing.assert_array_equal(features, one_hot)
    of_two = parameter_shapes(network, jnp.array([2, 0]))
    assert of_two["MLP_0"]["Dense_0"]["kernel"] == (12, 8)


def test_categorical_actor_starts_out_nearly_uniform():
    logits, params = jax.jit(CategoricalActor(4, (8,)).init_with_output)(KEY, uniform(5))
    assert shapes_of(params["params"]["Dense_0"]) == {"bias": (4,), "kernel": (8, 4)}
    assert (jnp.abs(logits) < 0.1).all()


@pytest.mark.parametrize("action_shape", [(), (2,), (2, 3)], ids=str)
def test_gaussian_actor_has_the_shape_of_an_action(action_shape):
    network = GaussianActor(action_shape, (8,), initial_log_std=-0.5)
    obs = uniform(5)
    (mean, log_std), _ = jax.jit(network.init_with_output)(KEY, obs)
    assert mean.shape == log_std.shape == action_shape
    np.testing.assert_array_equal(log_std, -0.5)
    assert (jnp.abs(mean) < 0.1).all()


def test_log_std_does_not_depend_on_the_observation():
    network = GaussianActor((2,), (8,))
    params = trees.variables(network, uniform(5))
    (mean, log_std), (other_mean, other_log_std) = (network.apply(params, uniform(5)) for _ in "ab")
    np.testing.assert_array_equal(log_std, other_log_std)
    assert (mean != other_mean).all()


def test_value_critic_gives_one_number():
    value, params = jax.jit(StateCritic((8,)).init_with_output)(KEY, uniform(5))
    assert value.shape == ()
    kernel = params["params"]["Dense_0"]["kernel"]
    np.testing.assert_allclose(jnp.linalg.norm(kernel), 1.0, rtol=1e-5)


@every_network
def test_heads_pass_on_the_number_of_categories(network):
    with_categories = network.clone(n_categories=6)
    shapes = parameter_shapes(with_categories, jnp.array(2))
    assert shapes["Torso_0"]["MLP_0"]["Dense_0"]["kernel"] == (6, 8)


@every_network
def test_heads_pass_on_the_activation(network):
    obs = uniform(5)
    params = trees.variables(network, obs)
    outputs = [jax.jit(network.clone(activation=f).apply)(params, obs) for f in (nn.tanh, nn.relu)]
    assert (jax.tree.leaves(outputs[0])[0] != jax.tree.leaves(outputs[1])[0]).all()


@every_network
@pytest.mark.parametrize("kind", ["vector", "uint8 image", "dict"])
def test_vmapped_over_a_batch_equals_looped(network, kind):
    observations = [altered(OBSERVATIONS[kind], i) for i in range(3)]
    params = trees.variables(network, observations[0])
    apply = jax.jit(network.apply)
    together = jax.vmap(apply, in_axes=(None, 0))(params, stacked(observations))
    assert_close(together, stacked([apply(params, obs) for obs in observations]))


own_or_shared = pytest.mark.parametrize(
    "shared", [False, True], ids=["own params", "shared params"]
)
own_or_joint = pytest.mark.parametrize("own", [True, False], ids=["own obs", "joint obs"])


def lifted(network, shared, own):
    """A network of all actors, their parameters and observations."""
    per_actor = PerActor(network, N_ACTORS, shared_params=shared, own_observations=own)
    obs = uniform(N_ACTORS, 5) if own else uniform(5)
    return per_actor, trees.variables(per_actor, obs), obs


def params_of(actor, params, shared):
    own_params = params["params"]["actors"]
    return {"params": own_params if shared else of_actor(actor, own_params)}


def of_actor(actor, tree):
    return jax.tree.map(lambda x: np.asarray(x)[actor], tree)


@every_network
@own_or_shared
@own_or_joint
def test_every_actor_runs_the_single_network(network, shared, own):
    per_actor, params, obs = lifted(network, shared, own)
    outputs, apply = jax.jit(per_actor.apply)(params, obs), jax.jit(network.apply)
    single = parameter_shapes(network, uniform(5))
    for actor in range(N_ACTORS):
        actor_params = params_of(actor, params, shared)
        assert shapes_of(actor_params["params"]) == single
        alone = apply(actor_params, of_actor(actor, obs) if own else obs)
        assert_close(of_actor(actor, outputs), alone)


@own_or_joint
def test_own_parameters_start_out_different(own):
    per_actor = PerActor(StateCritic((8,)), N_ACTORS, own_observations=own)
    params = jax.jit(per_actor.init)(KEY, uniform(N_ACTORS, 5) if own else uniform(5))
    kernels = np.asarray(params["params"]["actors"]["Torso_0"]["MLP_0"]["Dense_0"]["kernel"])
    assert kernels.shape == (N_ACTORS, 5, 8)
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        assert (kernels[i] != kernels[j]).all()


@own_or_shared
@own_or_joint
def test_observations_of_actors_may_have_any_structure(shared, own):
    obs = OBSERVATIONS["dict"]
    obs = stacked([obs] * N_ACTORS) if own else obs
    per_actor = PerActor(GaussianActor((2,), (8,)), N_ACTORS, shared, own)
    mean, log_std = jax.eval_shape(lambda: per_actor.init_with_output(KEY, obs)[0])
    assert mean.shape == log_std.shape == (N_ACTORS, 2)
