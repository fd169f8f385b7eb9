"""Noisy layers against NumPy, in networks and out of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from jaxagents.networks import DiscreteCritic, DuelingCritic, Ensemble, NoisyDense, with_noise

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.normal(size=(6, 5)), jnp.float32)
LAYER = NoisyDense(3)
PARAMS = LAYER.init(KEY, X)["params"]


def apply(params, x=X):
    return LAYER.apply({"params": params}, x)


def test_a_noisy_layer_starts_as_in_the_paper():
    shapes = {"kernel": (5, 3), "bias": (3,), "kernel_sigma": (5, 3), "bias_sigma": (3,)}
    assert jax.tree.map(jnp.shape, PARAMS) == shapes
    for name in ("kernel_sigma", "bias_sigma"):
        np.testing.assert_allclose(PARAMS[name], 0.5 / np.sqrt(5.0), rtol=1e-6)


def test_without_noise_it_is_a_dense_layer():
    params = {**PARAMS, "bias": np.float32([1.0, -2.0, 0.5])}
    expected = np.asarray(X) @ np.asarray(params["kernel"]) + params["bias"]
    np.testing.assert_allclose(apply(params), expected, rtol=1e-5, atol=1e-6)
    assert_same(with_noise(PARAMS, KEY, 0.0), PARAMS)


def assert_same(tree, other):
    jax.tree.map(np.testing.assert_array_equal, tree, other)


def noise(params, drawn):
    """The noise that was added, in units of sigma."""
    params, drawn = jax.device_get((params, drawn))
    return {
        name: (drawn[name] - params[name]) / params[f"{name}_sigma"] for name in ("kernel", "bias")
    }


def test_noise_has_a_number_for_each_input_and_output():
    drawn = noise(PARAMS, with_noise(PARAMS, KEY))
    assert np.linalg.matrix_rank(drawn["kernel"], tol=1e-4) == 1
    ratios = drawn["kernel"] / drawn["bias"]  # those of the inputs alone
    np.testing.assert_allclose(ratios, np.broadcast_to(ratios[:, :1], (5, 3)), rtol=1e-3)
    several = jax.vmap(lambda key: with_noise(PARAMS, key))(jax.random.split(KEY, 4000))
    of_bias = noise(PARAMS, several)["bias"]
    normal = np.sign(of_bias) * of_bias**2  # f takes roots, with the sign
    np.testing.assert_allclose(normal.mean(axis=0), 0.0, atol=0.06)
    np.testing.assert_allclose(normal.std(axis=0), 1.0, atol=0.06)


def test_gradients_of_sigma_are_those_of_the_mean_times_the_noise():
    loss = lambda params: jnp.sum(apply(with_noise(params, KEY)) ** 2)  # noqa: E731
    gradients, drawn = jax.grad(loss)(PARAMS), noise(PARAMS, with_noise(PARAMS, KEY))
    for name, eps in drawn.items():
        expected = gradients[name] * eps
        np.testing.assert_allclose(gradients[f"{name}_sigma"], expected, rtol=1e-3, atol=1e-3)


def test_each_layer_and_each_member_has_noise_of_its_own():
    network = Ensemble(DiscreteCritic((4, 4), noisy=True, n_actions=4), 2)
    params = network.init(KEY, X[:, :4])["params"]
    drawn = with_noise({"network": params, "target": params}, KEY)
    layers = [
        np.asarray(x["members"][name][layer]["bias"][i])
        for x in drawn.values()
        for name, layer in (("MLP_0", "NoisyDense_0"), ("MLP_0", "NoisyDense_1"))
        for i in range(2)
    ]
    assert len({tuple(x) for x in layers}) == len(layers) == 8


def test_other_layers_are_left_alone():
    for network in (DiscreteCritic((8,), n_actions=3), DuelingCritic((8, 8), n_actions=3)):
        params = network.init(KEY, X)["params"]
        assert with_noise(params, KEY) is params


@pytest.mark.parametrize("kind", [DiscreteCritic, DuelingCritic])
def test_a_critic_of_noisy_layers_is_the_same_network_without_noise(kind):
    fields = {"features": (8, 8), "n_actions": 3, "n_outputs": 2}
    plain, noisy = kind(**fields), kind(**fields, noisy=True)
    params = noisy.init(KEY, X)["params"]
    means = {
        tuple(name.replace("NoisyDense", "Dense") for name in path): x
        for path, x in flatten_dict(params).items()
        if not path[-1].endswith("_sigma")
    }
    expected = plain.apply({"params": unflatten_dict(means)}, X)
    np.testing.assert_allclose(noisy.apply({"params": params}, X), expected, rtol=1e-5)
