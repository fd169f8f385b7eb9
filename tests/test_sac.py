"""Soft actor-critic for continuous and discrete actions, against its formulas."""

import functools

import jax
import jax.numpy as jnp
import linear
import numpy as np
import optax
import pytest
from flax import linen as nn
from learner_registry import LEARNERS
from linear import N_ACTIONS, softmax
from trees import assert_close

from jaxagents.learners.config import Example
from jaxagents.networks import Critic, ensemblize
from jaxagents.sac import DiscreteSACLearner

ROW = LEARNERS["SAC"]
RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2, "temperature_learning_rate": 0.3}
DISCRETE = {
    "actor_network": linear.DiscretePolicy(),
    "critic_network": linear.DiscreteCritics(),
    **RATES,
}


# Continuous actions, for the default networks, whose gradients JAX takes.


def affine(params, x):
    return x @ params["kernel"] + params["bias"][None]


def mlp(params, x):
    return jax.nn.relu(affine(params["Dense_0"], x))


def policy_sample(params, obs, noise):
    """An action, and its log-density by the change of variables."""
    mean, log_std = jnp.split(affine(params["Dense_0"], mlp(params["MLP_0"], obs)), 2, axis=-1)
    u = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * jnp.square(noise) - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
    log_slope = -2.0 * jnp.log(jnp.cosh(u))  # of the tanh, whose slope is 1 - tanh(u)^2
    return jnp.tanh(u), (log_normal - log_slope).sum(axis=-1)


def values(params, obs, actions):
    """Both critics, one after the other."""
    members = [jax.tree.map(lambda x, i=i: x[i], params["members"]) for i in range(2)]
    x = jnp.concatenate([obs, actions], axis=-1)
    return [affine(m["Dense_0"], mlp(m["MLP_0"], x))[:, 0] for m in members]


def descended(params, grads, rate):
    return jax.tree.map(lambda p, g: p - rate * g, params, grads)


@jax.jit
def reference_update(learner, batch):
    """The equations of the paper: the networks after an update, and numbers."""
    _, *keys = jax.random.split(learner.rng, 3)
    critic_noise, actor_noise = (jax.random.normal(k, batch["actions"].shape) for k in keys)
    next_obs = batch["next_observations"]
    next_actions, log_prob = policy_sample(learner.actor.params, next_obs, critic_noise)
    next_value = jnp.minimum(*values(learner.target_critic.params, next_obs, next_actions))
    soft_value = next_value - 0.5 * log_prob
    target = batch["rewards"] + batch["discounts"] * batch["masks"] * soft_value

    def critic_loss(params):
        errors = [q - target for q in values(params, batch["observations"], batch["actions"])]
        loss = sum(0.5 * jnp.mean(batch["weights"] * e**2) for e in errors)
        return loss, 0.5 * sum(jnp.abs(e) for e in errors)

    slope = jax.value_and_grad(critic_loss, has_aux=True)
    (critic_value, td_errors), grads = slope(learner.critic.params)
    critic_params = descended(learner.critic.params, grads, 0.2)

    def actor_loss(params):
        actions, log_prob = policy_sample(params, batch["observations"], actor_noise)
        value = jnp.minimum(*values(critic_params, batch["observations"], actions))
        return jnp.mean(0.5 * log_prob - value), -jnp.mean(log_prob)

    slope = jax.value_and_grad(actor_loss, has_aux=True)
    (actor_value, entropy), grads = slope(learner.actor.params)
    target_params = jax.tree.map(
        lambda new, old: 0.1 * new + 0.9 * old, critic_params, learner.target_critic.params
    )
    networks = {
        "critic": critic_params,
        "actor": descended(learner.actor.params, grads, 0.1),
        "target_critic": target_params,
    }
    numbers = {"critic_loss": critic_value, "actor_loss": actor_value, "entropy": entropy}
    return networks, numbers | {"td_errors": td_errors}


def test_an_update_follows_the_paper():
    fields = {"initial_temperature": 0.5, "tau": 0.1, "features": (8,), **RATES}
    learner = ROW.create(optimizer=optax.sgd, **fields)
    batch = linear.batch_with(ROW.learner, linear.ALL)
    moved, info = learner.update(batch)
    networks, numbers = reference_update(learner, batch)
    assert_close({name: getattr(moved, name).params for name in networks}, networks)
    assert_close({name: info[name] for name in numbers}, numbers)
    assert learner.hyperparams.target_entropy == -2.0
    log_temperature = np.log(0.5) - 0.3 * 0.5 * (np.asarray(numbers["entropy"]) - -2.0)
    np.testing.assert_allclose(moved.temperature(), np.exp(log_temperature), rtol=1e-5)


# Discrete actions, for linear networks.


def reference_discrete_update(learner, temperature, batch):
    """Equations 4, 12 and 11 of the paper, with the expectations of equation 10."""
    hp, n = learner.hyperparams, len(batch["rewards"])
    actor, critic, target = linear.weights_of(learner, "actor", "critic", "target_critic")
    obs, next_obs, taken = batch["observations"], batch["next_observations"], batch["actions"]
    next_probs, next_values = softmax(next_obs @ actor), (next_obs @ target).min(axis=0)
    if learner.config.backup_entropy:
        next_values = next_values - temperature * np.log(next_probs)
    discounts = batch.get("discounts", hp.gamma)
    targets = batch["rewards"] + discounts * batch["masks"] * (next_probs * next_values).sum(-1)

    values = (obs @ critic)[:, np.arange(n), taken]
    errors = values - np.asarray(targets)
    weighted_errors = batch.get("weights", 1.0) * errors
    slope = weighted_errors[..., None] * np.eye(N_ACTIONS)[taken]
    new_critic = critic - hp.critic_learning_rate * obs.T @ slope / n

    probs = softmax(obs @ actor)
    losses = temperature * np.log(probs) - (obs @ new_critic).min(axis=0)
    expected_loss = (probs * losses).sum(axis=-1, keepdims=True)
    new_actor = actor - hp.actor_learning_rate * obs.T @ (probs * (losses - expected_loss)) / n
    entropy = -(probs * np.log(probs)).sum(axis=-1).mean()
    temperature_loss = temperature * (entropy - hp.target_entropy)
    moved = [new_actor, new_critic, hp.tau * new_critic + (1 - hp.tau) * target]
    info = {
        "actor_loss": expected_loss.mean(),
        "critic_loss": 0.5 * (weighted_errors * errors).mean(axis=-1).sum(),
        "entropy": entropy,
        "q": values.mean(),
        "temperature": temperature,
        "temperature_loss": temperature_loss,
    }
    if "weights" in batch:
        info["td_errors"] = np.abs(errors).mean(axis=0)
    return moved, temperature * np.exp(-hp.temperature_learning_rate * temperature_loss), info


@pytest.mark.parametrize(
    ("kwargs", "further"),
    [
        ({"gamma": 0.5, "tau": 0.3, "initial_temperature": 0.5, "target_entropy": 0.2}, ()),
        ({"backup_entropy": False}, linear.ALL),
    ],
    ids=str,
)
def test_a_discrete_update_is_that_of_the_paper(kwargs, further):
    learner = linear.create(DiscreteSACLearner, **DISCRETE, **kwargs)
    batch = linear.batch_with(DiscreteSACLearner, further)
    target_entropy = kwargs.get("target_entropy", 0.98 * np.log(N_ACTIONS))
    np.testing.assert_allclose(learner.hyperparams.target_entropy, target_entropy, rtol=1e-6)
    initial = kwargs.get("initial_temperature", 1.0)
    expected, temperature, expected_info = reference_discrete_update(learner, initial, batch)
    moved, info = learner.update(batch)
    assert info.keys() == expected_info.keys()
    assert_close({name: info[name] for name in expected_info}, expected_info)
    assert_close(linear.weights_of(moved, "actor", "critic", "target_critic"), expected)
    np.testing.assert_allclose(moved.temperature(), temperature, rtol=1e-5)


# Several critics, which may drop out.


def zeros_of(**fields):
    """A learner of zeros, for which nothing is compiled."""
    shapes = jax.eval_shape(functools.partial(ROW.create, **fields))
    return jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype) if x.dtype == "float32" else x, shapes
    )


def test_targets_are_the_least_of_some_critics_and_the_policy_learns_from_the_mean():
    learner = zeros_of(n_critics=4, n_target_critics=2)
    stacked = jnp.asarray(np.repeat(np.arange(4.0, dtype=np.float32)[:, None], 3, axis=1))
    keys = jax.random.split(jax.random.key(0), 600)
    least = np.asarray(jax.jit(jax.vmap(lambda key: learner._for_target(key, stacked)))(keys))
    assert (least == least[:, :1]).all()  # the same critics for the whole batch
    shares = np.bincount(least[:, 0].astype(int), minlength=4) / 600
    np.testing.assert_allclose(shares, [3 / 6, 2 / 6, 1 / 6, 0], atol=0.06)
    np.testing.assert_array_equal(learner._for_policy(stacked), 1.5)
    plain = learner.replace(config=learner.config.replace(n_target_critics=None))
    np.testing.assert_array_equal(plain._for_policy(stacked), 0.0)


@pytest.mark.parametrize("name", ["SAC", "DiscreteSAC"])
def test_critics_drop_out_in_updates_only(name):
    row, calls = LEARNERS[name], []
    size = N_ACTIONS if row.learner.discrete_actions else 1

    class Recorded(nn.Module):
        """Two critics that record how they are called."""

        @nn.compact
        def __call__(self, *inputs, train=False):
            calls.append(train and self.has_rng("dropout"))
            values = nn.Dense(2 * size)(jnp.concatenate(inputs, axis=-1))
            values = jnp.moveaxis(values.reshape(*values.shape[:-1], 2, size), -2, 0)
            return values if size > 1 else values[..., 0]

    fields = {"critic_layer_norm": True, "critic_dropout_rate": 0.5}
    create = functools.partial(row.create, critic_network=Recorded(), **fields)
    learner = jax.eval_shape(create)
    assert set(calls) == {False}
    calls.clear()
    jax.eval_shape(type(learner)._update, learner, row.batch())
    assert calls == [True] * 3  # for the targets, the critics' loss and the policy's
    example = Example(*(row.batch()[key] for key in ("observations", "actions")), N_ACTIONS)
    default = row.learner.default_networks(learner.config, example)["critic_network"].network
    assert (default.layer_norm, default.dropout_rate) == (True, 0.5)


def test_critics_of_your_own_are_as_many_as_they_are():
    of_three, batch = ensemblize(Critic, 3)((8,)), ROW.batch()

    def values_after_an_update():
        fields = {"critic_network": of_three, "n_target_critics": 3}  # n_critics is 2
        learner, _ = ROW.create(**fields).update(batch)
        return learner.critic(batch["observations"], batch["actions"])

    assert jax.eval_shape(values_after_an_update).shape == (3, 16)
    for n_critics in (2, 10):
        options = {"n_critics": n_critics, "n_target_critics": 4}
        with pytest.raises(ValueError, match=r"the number of critics \(3\), got 4"):
            ROW.create(critic_network=of_three, **options)
