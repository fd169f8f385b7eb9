"""Soft actor-critic against its formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from learner_registry import LEARNERS
from trees import assert_close, equal

from jaxagents.networks import Critic, ensemblize
from jaxagents.sac import SACLearner

ROWS = {
    name: LEARNERS[name]._replace(kwargs={"features": (8,), **LEARNERS[name].kwargs})
    for name in ("SAC", "DiscreteSAC")
}
ROW = ROWS["SAC"]
BATCH = ROW.batch()
OBS, ACTIONS = (jnp.asarray(BATCH[key]) for key in ("observations", "actions"))
RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2, "temperature_learning_rate": 0.3}


def create(**kwargs):
    fields = {"optimizer": optax.sgd, "initial_temperature": 0.5, "tau": 0.1, **RATES, **kwargs}
    return ROW.create(**fields)


def policy_sample(params, obs, noise):
    """An action, and its log-density by the change of variables."""
    hidden = mlp(params["MLP_0"], obs)
    mean, log_std = jnp.split(affine(params["Dense_0"], hidden), 2, axis=-1)
    u = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * jnp.square(noise) - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
    log_slope = -2.0 * jnp.log(jnp.cosh(u))  # of the tanh, whose slope is 1 - tanh(u)^2
    return jnp.tanh(u), (log_normal - log_slope).sum(axis=-1)


def values(params, obs, actions):
    """Both critics, one after the other."""
    members = [jax.tree.map(lambda x, i=i: x[i], params["members"]) for i in range(2)]
    x = jnp.concatenate([obs, actions], axis=-1)
    return [affine(m["Dense_0"], mlp(m["MLP_0"], x))[:, 0] for m in members]


def mlp(params, x):
    return jax.nn.relu(affine(params["Dense_0"], x))


def affine(params, x):
    return x @ params["kernel"] + params["bias"][None]


def noises(learner):
    _, critic_key, actor_key = jax.random.split(learner.rng, 3)
    return [jax.random.normal(key, BATCH["actions"].shape) for key in (critic_key, actor_key)]


def descended(params, grads, rate):
    return jax.tree.map(lambda p, g: p - rate * g, params, grads)


@jax.jit
def reference_update(learner, batch):
    """The equations of the paper: the networks after an update, losses and the entropy."""
    critic_noise, actor_noise = noises(learner)
    next_obs = batch["next_observations"]
    next_actions, log_prob = policy_sample(learner.actor.params, next_obs, critic_noise)
    next_value = jnp.minimum(*values(learner.target_critic.params, next_obs, next_actions))
    if learner.config.backup_entropy:
        next_value -= 0.5 * log_prob
    discount = batch.get("discounts", 0.95)
    target = batch["rewards"] + discount * batch["masks"] * next_value

    def critic_loss(params):
        errors = [q - target for q in values(params, batch["observations"], batch["actions"])]
        return sum(0.5 * jnp.mean(e**2) for e in errors)

    critic_value, grads = jax.value_and_grad(critic_loss)(learner.critic.params)
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
    return networks, {"critic_loss": critic_value, "actor_loss": actor_value, "entropy": entropy}


@pytest.mark.parametrize("backup_entropy", [True, False])
@pytest.mark.parametrize(
    "discounts", [None, np.float32(0.9) ** np.arange(16)], ids=["1-step", "n-step"]
)
def test_an_update_follows_the_paper(backup_entropy, discounts):
    learner = create(backup_entropy=backup_entropy, gamma=0.95)
    batch = BATCH if discounts is None else {**BATCH, "discounts": discounts}
    moved, info = learner.update(batch)
    networks, numbers = reference_update(learner, batch)
    for name, params in networks.items():
        assert_close(getattr(moved, name).params, params)
    for name, number in numbers.items():
        np.testing.assert_allclose(info[name], number, rtol=1e-4)
    log_temperature = np.log(0.5) - 0.3 * 0.5 * (np.asarray(numbers["entropy"]) - -2.0)
    np.testing.assert_allclose(moved.temperature(), np.exp(log_temperature), rtol=1e-5)


def test_errors_are_weighed_and_reported():
    weights = np.random.default_rng(1).uniform(size=16).astype(np.float32)
    batch = {**BATCH, "masks": np.zeros(16, np.float32), "weights": weights}
    learner = create()
    moved, info = learner.update(batch)

    def critic_loss(params):
        errors = [q - batch["rewards"] for q in values(params, OBS, ACTIONS)]
        return sum(0.5 * jnp.mean(weights * e**2) for e in errors), errors

    slope = jax.jit(jax.value_and_grad(critic_loss, has_aux=True))
    (loss, errors), grads = jax.tree.map(np.asarray, slope(learner.critic.params))
    np.testing.assert_allclose(info["critic_loss"], loss, rtol=1e-4)
    assert_close(info["td_errors"], 0.5 * sum(np.abs(e) for e in errors))
    params = jax.tree.map(np.asarray, learner.critic.params)
    assert_close(moved.critic.params, descended(params, grads, np.float32(0.2)))


def test_the_temperature_rises_where_the_policy_is_too_sure():
    for target_entropy, rises in [(10.0, True), (-10.0, False)]:
        learner, info = create(target_entropy=target_entropy).update(BATCH)
        assert (learner.temperature() > info["temperature"]) == rises


def test_the_temperature_can_be_fixed():
    learner = create(initial_temperature=0.2, temperature_learning_rate=0.0)
    for _ in range(3):
        learner, _ = learner.update(BATCH)
    np.testing.assert_allclose(learner.temperature(), 0.2, rtol=1e-6)


def test_the_target_entropy_is_minus_the_size_of_an_action():
    assert create().hyperparams.target_entropy == -2.0
    assert create(target_entropy=-7.0).hyperparams.target_entropy == -7.0


def test_the_targets_start_as_the_critics_and_own_their_memory():
    learner = create()
    assert equal(learner.critic.params, learner.target_critic.params)
    donated = jax.jit(lambda x: jax.tree.map(lambda y: y + 1, x), donate_argnums=0)
    donated(learner.critic.params)
    jax.block_until_ready(learner.target_critic.params)


@pytest.mark.parametrize("n_critics", [1, 3])
def test_any_number_of_critics(n_critics):
    def values_after_an_update():
        learner, _ = ROW.create(n_critics=n_critics).update(BATCH)
        return learner.critic(OBS, ACTIONS)

    assert jax.eval_shape(values_after_an_update).shape == (n_critics, 16)


def test_a_one_armed_bandit_is_solved():
    """The reward is -4 (a - 0.5)^2, so that the best action is 0.5."""
    rng = np.random.default_rng(0)
    obs = np.ones((600, 64, 1), np.float32)
    actions = rng.uniform(-1.0, 1.0, size=(600, 64, 1)).astype(np.float32)
    batches = {
        "observations": obs,
        "actions": actions,
        "rewards": -4.0 * np.square(actions[..., 0] - 0.5),
        "next_observations": obs,
        "masks": np.zeros((600, 64), np.float32),
    }
    learner = SACLearner.create(
        0,
        obs[0],
        actions[0],
        features=(32, 32),
        actor_learning_rate=3e-3,
        critic_learning_rate=3e-3,
        temperature_learning_rate=0.0,
        initial_temperature=0.01,
    )
    learner, info = learner.update_many(batches)
    np.testing.assert_allclose(learner.sample_actions(obs[0, 0]), 0.5, atol=0.1)
    assert info["critic_loss"][-10:].mean() < 0.02


def test_critics_of_ones_own_give_values_of_several():
    def values_after_an_update():
        learner, _ = ROW.create(critic_network=ensemblize(Critic, 3)((8,))).update(BATCH)
        return learner.critic(OBS, ACTIONS)

    assert jax.eval_shape(values_after_an_update).shape == (3, 16)
    with pytest.raises(
        ValueError, match=r"values of shape \(critics, 16\).* got \(16,\): make several"
    ):
        ROW.create(critic_network=Critic((8,)))


REDQ = {"n_critics": 4, "n_target_critics": 2}
DROQ = {"n_target_critics": 2, "critic_layer_norm": True, "critic_dropout_rate": 0.5}
BY_KIND = pytest.mark.parametrize("name", ["SAC", "DiscreteSAC"])


def test_targets_are_the_least_of_some_critics_and_the_policy_learns_from_the_mean():
    learner = ROW.create(**REDQ)
    stacked = jnp.asarray(np.repeat(np.arange(4.0, dtype=np.float32)[:, None], 3, axis=1))
    keys = jax.random.split(jax.random.key(0), 600)
    least = np.asarray(jax.jit(jax.vmap(lambda key: learner._for_target(key, stacked)))(keys))
    assert (least == least[:, :1]).all()  # the same critics for the whole batch
    shares = np.bincount(least[:, 0].astype(int), minlength=4) / 600
    np.testing.assert_allclose(shares, [3 / 6, 2 / 6, 1 / 6, 0], atol=0.06)
    np.testing.assert_array_equal(learner._for_policy(stacked), 1.5)
    plain = learner.replace(config=learner.config.replace(n_target_critics=None))
    np.testing.assert_array_equal(plain._for_policy(stacked), 0.0)


@BY_KIND
@pytest.mark.slow_except("DiscreteSAC")
def test_critics_drop_out_in_updates_only(name):
    row = ROWS[name]
    learner, batch = row.create(**DROQ), jax.tree.map(jnp.asarray, row.batch())
    scales = learner.critic.params["members"]["MLP_0"]["LayerNorm_0"]["scale"]
    assert scales.shape[0] == 2
    targets = jax.jit(type(learner)._targets)
    first, second = (targets(learner, jax.random.key(seed), batch) for seed in (0, 1))
    assert not np.array_equal(first, second)

    @jax.jit
    def values_twice():
        inputs = learner._critic_inputs(batch["observations"], batch["actions"])
        return learner.critic(*inputs), learner.critic(*inputs)

    np.testing.assert_array_equal(*values_twice())
    no_masks = np.zeros(16, np.float32)
    losses = [
        learner.replace(rng=jax.random.key(seed)).update({**batch, "masks": no_masks})[1]
        for seed in (0, 1)
    ]
    assert losses[0]["critic_loss"] != losses[1]["critic_loss"]  # same targets, other units


@BY_KIND
@pytest.mark.slow_except("DiscreteSAC")
def test_some_of_many_critics_that_drop_out_learn_rewards(name):
    row = LEARNERS[name]
    options = {**DROQ, **REDQ, "critic_dropout_rate": 0.01}
    learner = row.create(**options, critic_learning_rate=3e-3)
    batch = {**row.batch(), "masks": np.zeros(16, np.float32)}
    many = jax.tree.map(lambda x: np.broadcast_to(x, (300, *x.shape)), batch)
    learner, info = learner.update_many(many)
    assert np.isfinite(info["actor_loss"]).all()
    values = jax.jit(lambda learner, batch: learner._values(learner.critic.params, batch))
    assert np.abs(np.mean(values(learner, batch), axis=0) - batch["rewards"]).mean() < 0.15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_target_critics": 3}, r"must not exceed n_critics \(2\), got 3"),
        ({"n_target_critics": 0}, "n_target_critics must be"),
        ({"critic_dropout_rate": 1.0}, r"must lie in \[0, 1\), got 1.0"),
    ],
)
def test_says_which_critics_there_can_be(options, message):
    with pytest.raises(ValueError, match=message):
        ROW.create(**options)


def test_critics_of_your_own_are_as_many_as_they_are():
    of_three = ensemblize(Critic, 3)((8,))
    learner = create(critic_network=of_three, n_target_critics=3)  # n_critics is 2
    _, info = learner.update(BATCH)
    assert np.isfinite(info["critic_loss"])
    for n_critics in (2, 10):
        options = {"n_critics": n_critics, "n_target_critics": 4}
        with pytest.raises(ValueError, match=r"of critics of critic_network \(3\), got 4"):
            ROW.create(critic_network=of_three, **options)
