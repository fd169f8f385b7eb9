"""Networks of learners: values, policies, ensembles and encoders."""

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
    default_init,
    ensemblize,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
WIDTHS = (8, 7)


def uniform(*shape):
    return jnp.asarray(RNG.uniform(-1.0, 1.0, size=shape), jnp.float32)


OBS, ACTIONS = uniform(6, 5), uniform(6, 3)
NETWORKS = {
    "Critic": (Critic(WIDTHS), (OBS, ACTIONS), ()),
    "DiscreteCritic": (DiscreteCritic(WIDTHS, n_actions=4), (OBS,), (4,)),
    "DiscreteCritic of atoms": (DiscreteCritic(WIDTHS, n_actions=4, n_outputs=3), (OBS,), (4, 3)),
    "DuelingCritic": (DuelingCritic(WIDTHS, n_actions=4), (OBS,), (4,)),
    "DuelingCritic of atoms": (DuelingCritic(WIDTHS, n_actions=4, n_outputs=3), (OBS,), (4, 3)),
    "ValueCritic": (ValueCritic(WIDTHS), (OBS,), ()),
    "Ensemble": (ensemblize(Critic, 2)(WIDTHS), (OBS, ACTIONS), ()),
}
POLICIES = {
    "Policy": (Policy(WIDTHS, action_dim=3), (OBS,), (3,)),
    "CategoricalPolicy": (CategoricalPolicy(WIDTHS, n_actions=4), (OBS,), ()),
}


def initialised(network, *inputs):
    return trees.variables(network, *inputs)


class Flat(nn.Module):
    """The smallest encoder of images."""

    @nn.compact
    def __call__(self, images, train=False):
        x = images.astype(jnp.float32).reshape(*images.shape[:-3], -1) / 255.0
        return nn.Dense(4)(x) + float(train)


@pytest.mark.parametrize("name", NETWORKS)
def test_batches_are_networks_of_single_inputs(name):
    network, inputs, output_shape = NETWORKS[name]
    variables, apply = initialised(network, *inputs), jax.jit(network.apply)
    outputs = np.asarray(apply(variables, *inputs))
    members = outputs.shape[: outputs.ndim - 1 - len(output_shape)]
    assert outputs.shape == (*members, 6, *output_shape)
    single = apply(variables, *(x[2] for x in inputs))
    np.testing.assert_allclose(outputs.take(2, axis=len(members)), single, rtol=1e-4, atol=1e-6)
    stacked = np.asarray(apply(variables, *(x.reshape(2, 3, -1) for x in inputs)))
    np.testing.assert_allclose(stacked.reshape(outputs.shape), outputs, rtol=1e-4, atol=1e-6)


def affine(x, layer):
    return np.einsum("...i,ij->...j", x, layer["kernel"]) + layer["bias"]


def hidden(x, mlp):
    for i in range(len(mlp)):
        x = np.maximum(affine(x, mlp[f"Dense_{i}"]), 0.0)
    return x


def test_a_critic_is_an_mlp_of_observation_and_action():
    variables = initialised(Critic(WIDTHS), OBS, ACTIONS)
    params = jax.tree.map(np.asarray, variables["params"])
    x = np.concatenate([OBS, ACTIONS], axis=-1)
    expected = affine(hidden(x, params["MLP_0"]), params["Dense_0"])[:, 0]
    np.testing.assert_allclose(Critic(WIDTHS).apply(variables, OBS, ACTIONS), expected, rtol=1e-4)


@pytest.mark.parametrize("widths", [(8, 9, 7), (8, 7), (7,), ()], ids=str)
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_a_dueling_critic_is_the_sum_of_two_streams(widths, n_outputs):
    network = DuelingCritic(widths, n_actions=4, n_outputs=n_outputs)
    variables = initialised(network, OBS)
    params = jax.tree.map(np.asarray, variables["params"])
    shared, own_1, own_2 = (params.get(f"MLP_{i}", {}) for i in range(3))
    x = hidden(OBS, shared)
    value = affine(hidden(x, own_1), params["Dense_0"]).reshape(6, 1, n_outputs or 1)
    advantages = affine(hidden(x, own_2), params["Dense_1"]).reshape(6, 4, n_outputs or 1)
    expected = value + advantages - advantages.mean(axis=1, keepdims=True)
    q = network.apply(variables, OBS)
    assert q.shape == ((6, 4) if n_outputs is None else (6, 4, n_outputs))
    q = q.reshape(expected.shape)
    np.testing.assert_allclose(q, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q.mean(axis=1, keepdims=True), value, rtol=1e-4, atol=1e-5)


def test_a_discrete_critic_has_the_outputs_of_an_action_side_by_side():
    network = DiscreteCritic(WIDTHS, n_actions=4, n_outputs=3)
    variables = initialised(network, OBS)
    flat = DiscreteCritic(WIDTHS, n_actions=12).apply(variables, OBS)
    np.testing.assert_array_equal(network.apply(variables, OBS), flat.reshape(6, 4, 3))


def test_layers_can_be_normalised_and_left_without_the_last_nonlinearity():
    network = MLP(WIDTHS, nn.relu, activate_final=False, layer_norm=True)
    variables = initialised(network, OBS)
    first, norm, last = (
        variables["params"][name] for name in ("Dense_0", "LayerNorm_0", "Dense_1")
    )
    hidden = np.asarray(OBS) @ first["kernel"] + first["bias"]
    hidden = (hidden - hidden.mean(axis=-1, keepdims=True)) / np.sqrt(
        hidden.var(axis=-1, keepdims=True) + 1e-6
    )
    hidden = np.maximum(hidden * norm["scale"] + norm["bias"], 0.0)
    expected = hidden @ last["kernel"] + last["bias"]
    np.testing.assert_allclose(network.apply(variables, OBS), expected, rtol=1e-4, atol=1e-5)
    assert (expected < 0.0).any()


@pytest.mark.parametrize(
    "network", [Critic(WIDTHS, dropout_rate=0.5), ensemblize(Critic, 2)(WIDTHS, dropout_rate=0.5)]
)
def test_dropout_is_active_in_training_only(network):
    variables = initialised(network, OBS, ACTIONS)
    apply = lambda **kwargs: network.apply(variables, OBS, ACTIONS, **kwargs)  # noqa: E731
    np.testing.assert_array_equal(apply(), apply())
    first, second = (apply(train=True, rngs={"dropout": jax.random.key(i)}) for i in range(2))
    assert (first != second).any()
    assert (first != apply()).any()


def test_weights_start_as_glorot_and_bengio_have_them():
    kernel = default_init()(KEY, (300, 100))
    limit = np.sqrt(6.0 / 400)
    assert 0.99 * limit < np.abs(kernel).max() <= limit
    np.testing.assert_allclose(kernel.std(), limit / np.sqrt(3.0), rtol=0.02)


class TestPolicy:
    variables = initialised(POLICIES["Policy"][0], OBS)

    def apply(self, obs=OBS, temperature=1.0, **options):
        return Policy(WIDTHS, action_dim=3, **options).apply(
            initialised(Policy(WIDTHS, action_dim=3, **options), obs), obs, temperature
        )

    def test_samples_lie_inside_the_bounds(self):
        policy = self.apply()
        assert isinstance(policy, ops.TanhGaussian)
        actions, log_prob = policy.sample_and_log_prob(KEY)
        assert actions.shape == (6, 3)
        assert log_prob.shape == (6,)
        assert (jnp.abs(actions) < 1.0).all()
        np.testing.assert_allclose(policy.log_prob(actions), log_prob, rtol=1e-3, atol=1e-3)

    def test_density_is_finite_at_the_bounds(self):
        policy = self.apply()
        gradient = jax.grad(
            lambda mean: (
                policy.replace(base=policy.base.replace(mean=mean)).log_prob(jnp.ones((6, 3))).sum()
            )
        )
        assert jnp.isfinite(policy.log_prob(jnp.ones((6, 3)))).all()
        assert jnp.isfinite(gradient(policy.base.mean)).all()

    @pytest.mark.parametrize("squash", ["distribution", "mean", "none"])
    def test_temperature_zero_is_the_mode(self, squash):
        policy = self.apply(squash=squash)
        cold = self.apply(squash=squash, temperature=0.0)
        np.testing.assert_array_equal(cold.sample(KEY), policy.mode())

    def test_temperature_scales_the_deviation(self):
        cool = self.apply(squash="none", temperature=0.5)
        policy = self.apply(squash="none")
        np.testing.assert_allclose(cool.log_std, policy.log_std + np.log(0.5), rtol=1e-5)

    def test_the_mean_can_be_squashed_alone(self):
        plain, squashed = self.apply(squash="none"), self.apply(squash="mean")
        assert isinstance(squashed, ops.Gaussian)
        np.testing.assert_allclose(squashed.mean, np.tanh(plain.mean), rtol=1e-5)

    def test_deviations(self):
        assert len(np.unique(self.apply(squash="none").log_std)) == 18
        constant = Policy(WIDTHS, action_dim=3, squash="none", state_dependent_std=False)
        constant, _ = jax.jit(constant.init_with_output)(KEY, OBS)
        np.testing.assert_array_equal(constant.log_std, np.zeros((6, 3)))
        fixed = self.apply(squash="none", fixed_std=(0.1, 0.2, 0.3))
        np.testing.assert_allclose(np.exp(fixed.log_std), [[0.1, 0.2, 0.3]] * 6, rtol=1e-6)
        clipped = self.apply(1e4 * OBS, squash="none", log_std_min=-3.0, log_std_max=-2.0)
        assert set(np.unique(clipped.log_std)) == {-3.0, -2.0}

    def test_fixed_deviations_have_no_parameters(self):
        fixed = Policy(WIDTHS, action_dim=3, fixed_std=0.1)
        params = initialised(fixed, OBS)["params"]
        assert params["Dense_0"]["kernel"].shape == (7, 3)
        assert "log_std" not in params


def test_categorical_policy_cools_down_to_its_mode():
    network, (obs,), _ = POLICIES["CategoricalPolicy"]
    variables = initialised(network, obs)
    warm, cool, cold = (network.apply(variables, obs, t) for t in (1.0, 0.5, 0.0))
    np.testing.assert_allclose(cool.logits, 2.0 * warm.logits, rtol=1e-5)
    np.testing.assert_array_equal(cold.mode(), warm.mode())
    for seed in range(3):
        np.testing.assert_array_equal(cold.sample(jax.random.key(seed)), warm.mode())


def test_members_of_an_ensemble_have_their_own_parameters():
    ensemble = ensemblize(Critic, 3)(WIDTHS)
    assert ensemble == Ensemble(Critic(WIDTHS), 3)
    variables = initialised(ensemble, OBS, ACTIONS)
    outputs = ensemble.apply(variables, OBS, ACTIONS)
    for i in range(3):
        member = {"params": jax.tree.map(lambda x: x[i], variables["params"]["members"])}  # noqa: B023
        np.testing.assert_allclose(
            Critic(WIDTHS).apply(member, OBS, ACTIONS), outputs[i], rtol=1e-4
        )
    assert (outputs[0] != outputs[1]).all()


def test_members_may_be_initialised_with_keyword_arguments():
    network = Ensemble(Critic(WIDTHS), 2)
    positional = network.init(KEY, OBS, ACTIONS)
    trees.assert_equal(network.init(KEY, OBS, actions=ACTIONS), positional)
    trees.assert_equal(jax.jit(network.init)(KEY, OBS, actions=ACTIONS), positional)


def test_networks_without_gradients_for_all_of_their_variables_are_refused():
    class Normalised(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.BatchNorm(use_running_average=True)(x)

    with pytest.raises(ValueError, match=r"Normalised has the variables \['batch_stats'\].*group"):
        Ensemble(Normalised(), 2).init(KEY, OBS)


IMAGES = jnp.asarray(RNG.integers(256, size=(6, 4, 4, 3)), jnp.uint8)


@pytest.mark.parametrize("batch_shape", [(), (6,), (2, 3)], ids=str)
def test_images_beside_states_are_encoded(batch_shape):
    encoder = DictEncoder({"camera": Flat(), "rear": Flat()})
    images = jnp.resize(IMAGES, (*batch_shape, 4, 4, 3))
    obs = {"state": jnp.resize(OBS, (*batch_shape, 5)), "rear": images, "camera": images}
    network = WithEncoder(encoder, ensemblize(Critic, 2)(WIDTHS))
    actions = jnp.resize(ACTIONS, (*batch_shape, 3))
    variables = initialised(network, obs, actions)
    assert network.apply(variables, obs, actions).shape == (2, *batch_shape)
    params = variables["params"]["encoder"]
    encoded = [
        Flat().apply({"params": params[f"encoders_{key}"]}, images) for key in ("camera", "rear")
    ]
    np.testing.assert_allclose(
        encoder.apply({"params": params}, obs), jnp.concatenate([*encoded, obs["state"]], axis=-1)
    )
    assert hash(network) == hash(
        WithEncoder(DictEncoder({"camera": Flat(), "rear": Flat()}), ensemblize(Critic, 2)(WIDTHS))
    )


def test_an_encoder_without_observations_is_refused():
    with pytest.raises(ValueError, match=r"encoder for \['camera'\].*have \['image'\]"):
        DictEncoder({"camera": Flat()}).init(KEY, {"image": IMAGES})
    with pytest.raises(ValueError, match=r"without an encoder must be vectors.*encoders for \[\]"):
        DictEncoder({}).init(KEY, {"image": IMAGES, "state": jnp.zeros((len(IMAGES), 2))})
    with pytest.raises(ValueError, match="must be vectors"):
        DictEncoder({}).init(KEY, {"speed": jnp.float32(1.0), "state": jnp.zeros(2)})


@pytest.mark.parametrize("stop_gradient", [False, True])
def test_encoders_can_be_kept_from_training(stop_gradient):
    network = WithEncoder(Flat(), ValueCritic(WIDTHS), stop_gradient)
    variables = initialised(network, IMAGES)
    grads = jax.grad(lambda v: network.apply(v, IMAGES).sum())(variables)["params"]
    still = jax.tree.map(lambda g: not g.any(), grads["encoder"])
    assert all(jax.tree.leaves(still)) == stop_gradient
    assert grads["network"]["Dense_0"]["kernel"].any()


def test_training_reaches_encoder_and_network():
    network = WithEncoder(Flat(), ValueCritic(WIDTHS, dropout_rate=0.5))
    variables = initialised(network, IMAGES)
    trained = network.apply(variables, IMAGES, train=True, rngs={"dropout": KEY})
    assert (trained != network.apply(variables, IMAGES)).any()


def test_fixed_standard_deviations_are_positive():
    for std in (0.0, (0.1, -0.1)):
        with pytest.raises(ValueError, match="fixed_std must be positive"):
            Policy(WIDTHS, action_dim=3, fixed_std=std)
