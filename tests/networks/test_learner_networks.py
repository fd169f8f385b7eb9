"""Networks of learners: values, policies, ensembles, and encoders before them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents import ops
from jaxagents.networks import (
    MLP,
    CategoricalPolicy,
    Critic,
    DictEncoder,
    DiscreteCritic,
    DuelingCritic,
    Ensemble,
    Policy,
    ValueCritic,
    WithEncoder,
    ensemblize,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
WIDTHS = (8, 7)
OBS, ACTIONS = (RNG.uniform(-1.0, 1.0, (6, n)).astype(np.float32) for n in (5, 3))


def applied(network, *inputs, variables=None, **options):
    """The output of a network, and its variables."""
    variables = trees.variables(network, *inputs) if variables is None else variables
    apply = jax.jit(lambda variables, inputs: network.apply(variables, *inputs, **options))
    return apply(variables, inputs), variables


def affine(x, layer):
    return np.einsum("...i,ij->...j", x, layer["kernel"]) + layer["bias"]


def hidden(x, params, name="MLP_0"):
    for layer in params.get(name, {}).values():
        x = np.maximum(affine(x, layer), 0.0)
    return x


def whole(x, params, *_):
    return affine(hidden(x, params), params["Dense_0"])


def dueling(x, params, n_outputs):
    x = hidden(x, params)
    value = affine(hidden(x, params, "MLP_1"), params["Dense_0"])
    advantages = affine(hidden(x, params, "MLP_2"), params["Dense_1"])
    value, advantages = (y.reshape(*x.shape[:-1], -1, n_outputs) for y in (value, advantages))
    return value + advantages - advantages.mean(axis=-2, keepdims=True)


@pytest.mark.parametrize(
    ("network", "inputs", "shape", "reference"),
    [
        (Critic(WIDTHS), (OBS, ACTIONS), (), whole),
        (ValueCritic(WIDTHS), (OBS,), (), whole),
        (DiscreteCritic(WIDTHS, n_actions=4, n_outputs=3), (OBS,), (4, 3), whole),
        (DuelingCritic((7,), n_actions=4, n_outputs=3), (OBS,), (4, 3), dueling),
        (DuelingCritic((), n_actions=4, n_outputs=1), (OBS,), (4, 1), dueling),
    ],
)
def test_critics_against_numpy(network, inputs, shape, reference):
    found, variables = applied(network, *(x.reshape(2, 3, -1) for x in inputs))
    x = np.concatenate(inputs, axis=-1)
    expected = reference(x, variables["params"], shape[1] if shape[1:] else 1)
    np.testing.assert_allclose(found, expected.reshape(2, 3, *shape), rtol=1e-4, atol=1e-5)


def test_layers_can_be_normalised_and_left_without_the_last_nonlinearity():
    found, variables = applied(MLP(WIDTHS, nn.relu, activate_final=False, layer_norm=True), OBS)
    params = variables["params"]
    x = affine(OBS, params["Dense_0"])
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
    x = np.maximum(x * params["LayerNorm_0"]["scale"] + params["LayerNorm_0"]["bias"], 0.0)
    expected = affine(x, params["Dense_1"])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert (expected < 0.0).any()


def test_dropout_is_active_in_training_only_and_each_member_drops_outputs_of_its_own():
    network = Ensemble(Critic(WIDTHS, dropout_rate=0.5), 2)
    still, variables = applied(network, OBS, ACTIONS)
    same = jax.tree.map(lambda x: np.broadcast_to(x[:1], x.shape), variables)

    @jax.jit
    def apply(key):
        return network.apply(same, OBS, ACTIONS, train=True, rngs={"dropout": key})

    first, second = map(apply, jax.random.split(KEY))
    assert (first != second).any()
    assert (first[0] != still[0]).any()
    assert (first[0] != first[1]).any()


# Policies.


@functools.partial(jax.jit, static_argnums=0)
def outputs(network, variables, observations, temperature):
    """The distribution, a sample of it, and its mode."""
    found = network.apply(variables, observations, temperature)
    return found, found.sample(KEY), found.mode()


@pytest.mark.parametrize("squash", ["distribution", "mean", "none"])
def test_the_mean_and_deviation_of_a_policy(squash):
    network = Policy(WIDTHS, action_dim=3, squash=squash, log_std_min=-1.0, log_std_max=0.5)
    obs = 10.0 * OBS
    variables = trees.variables(network, obs)

    found, _, mode = outputs(network, variables, obs, 1.0)
    mean, log_std = np.split(whole(obs, variables["params"]), 2, axis=-1)
    base = found.base if squash == "distribution" else found
    assert isinstance(found, ops.TanhGaussian if squash == "distribution" else ops.Gaussian)
    expected = np.tanh(mean) if squash == "mean" else mean
    np.testing.assert_allclose(base.mean, expected, rtol=1e-4, atol=1e-5)
    log_std = np.clip(log_std, -1.0, 0.5)
    np.testing.assert_allclose(base.log_std, log_std, rtol=1e-4, atol=1e-5)
    assert {-1.0, 0.5} < set(log_std.ravel())
    if squash == "distribution":
        assert (found.low, found.high) == (-1.0, 1.0)
    cool = outputs(network, variables, obs, 0.5)[0]
    cool = cool.base if squash == "distribution" else cool
    np.testing.assert_allclose(cool.log_std, base.log_std + np.log(0.5), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(outputs(network, variables, obs, 0.0)[1], mode)


def test_deviations_that_do_not_depend_on_the_observation():
    options = {"action_dim": 3, "squash": "none"}
    network = Policy(WIDTHS, **options, state_dependent_std=False)
    fresh = jax.jit(lambda obs: network.init(KEY, obs)["params"]["log_std"])(OBS)
    np.testing.assert_array_equal(fresh, np.zeros(3))
    variables = trees.variables(network, OBS)
    found, _ = applied(network, OBS, variables=variables)
    np.testing.assert_allclose(found.log_std, [variables["params"]["log_std"]] * 6, rtol=1e-6)
    fixed, variables = applied(Policy(WIDTHS, **options, fixed_std=(0.1, 0.2, 0.3)), OBS)
    np.testing.assert_allclose(np.exp(fixed.log_std), [[0.1, 0.2, 0.3]] * 6, rtol=1e-6)
    assert variables["params"]["Dense_0"]["kernel"].shape == (7, 3)
    assert "log_std" not in variables["params"]


def test_categorical_policy_cools_down_to_its_mode():
    network = CategoricalPolicy(WIDTHS, n_actions=4)
    variables = trees.variables(network, OBS)

    (warm, _, mode), (cool, *_), (_, cold, _) = (
        outputs(network, variables, OBS, temperature) for temperature in (1.0, 0.5, 0.0)
    )
    expected = whole(OBS, variables["params"])
    np.testing.assert_allclose(warm.logits, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cool.logits, 2.0 * warm.logits, rtol=1e-5)
    np.testing.assert_array_equal(cold, mode)


# Ensembles.


def test_members_of_an_ensemble_have_their_own_parameters():
    network, critic = ensemblize(Critic, 2)(WIDTHS), Critic(WIDTHS)
    assert network == Ensemble(critic, 2)
    values, variables = applied(network, OBS, ACTIONS)
    apply = jax.jit(critic.apply)
    for i in range(2):
        own = {"params": jax.tree.map(lambda x, i=i: x[i], variables["params"]["members"])}
        np.testing.assert_allclose(values[i], apply(own, OBS, ACTIONS), rtol=1e-4, atol=1e-5)

    def init(obs, actions):
        return network.init(KEY, obs, actions=actions)["params"]["members"]["Dense_0"]["kernel"]

    first, second = jax.jit(init)(OBS, ACTIONS)
    assert (first != second).all()


# Encoders.


class Flat(nn.Module):
    """The smallest encoder of images."""

    @nn.compact
    def __call__(self, images, train=False):
        x = images.astype(jnp.float32).reshape(*images.shape[:-3], -1) / 255.0
        return nn.Dense(4)(x) + float(train)


IMAGES = RNG.integers(256, size=(6, 4, 4, 3)).astype(np.uint8)


@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
def test_images_beside_states_are_encoded(batch):
    def network():
        encoder = DictEncoder({"camera": Flat(), "rear": Flat()})
        return WithEncoder(encoder, ensemblize(Critic, 2)(WIDTHS))

    images, state, actions = (np.resize(x, (*batch, *x.shape[1:])) for x in (IMAGES, OBS, ACTIONS))
    obs = {"state": state, "rear": images, "camera": images}
    values, variables = applied(network(), obs, actions)
    assert values.shape == (2, *batch)
    params = variables["params"]["encoder"]
    flat = images.reshape(*batch, -1) / 255.0
    parts = [affine(flat, params[f"encoders_{key}"]["Dense_0"]) for key in ("camera", "rear")]
    found, _ = applied(network().encoder, obs, variables={"params": params})
    expected = np.concatenate([*parts, state], axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert hash(network()) == hash(network())


def test_an_encoder_without_observations_is_refused():
    with pytest.raises(ValueError, match=r"encoder for \['camera'\].*have \['image'\]"):
        DictEncoder({"camera": Flat()}).init(KEY, {"image": IMAGES})


@pytest.mark.parametrize("stop_gradient", [False, True])
def test_encoders_are_trained_through_a_network_unless_they_are_kept_from_it(stop_gradient):
    network = WithEncoder(Flat(), ValueCritic(WIDTHS, dropout_rate=0.5), stop_gradient)
    still, variables = applied(network, IMAGES)
    grads = jax.jit(jax.grad(lambda v: network.apply(v, IMAGES).sum()))(variables)["params"]
    unchanged = [not np.any(g) for g in jax.tree.leaves(grads["encoder"])]
    assert all(unchanged) == stop_gradient
    assert np.any(grads["network"]["Dense_0"]["kernel"])
    trained, _ = applied(network, IMAGES, variables=variables, train=True, rngs={"dropout": KEY})
    assert (trained != still).any()
