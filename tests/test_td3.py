"""TD3 against a reference in NumPy whose gradients are written out."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from learner_registry import LEARNERS, transitions
from trees import assert_close, assert_equal, equal

from jaxagents import ops
from jaxagents.td3 import TD3Learner
from jaxagents.td3bc import TD3BCLearner

OBS_DIM, ACTION_DIM = 5, 2
NORMAL = nn.initializers.normal(1.0)
RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2}
NETWORKS = ("actor", "target_actor", "critic", "target_critic")
ROW = LEARNERS["TD3 delayed"]


class Policy(nn.Module):
    """The tanh of a linear function."""

    @nn.compact
    def __call__(self, observations, temperature=1.0):
        mean = jnp.tanh(observations @ self.param("weights", NORMAL, (OBS_DIM, ACTION_DIM)))
        return ops.Gaussian(mean, jnp.broadcast_to(jnp.log(temperature), mean.shape))


class Critics(nn.Module):
    """Two linear functions of observation and action."""

    @nn.compact
    def __call__(self, observations, actions):
        weights = self.param("weights", NORMAL, (2, OBS_DIM + ACTION_DIM))
        return weights @ jnp.concatenate([observations, actions], axis=-1).T


def linear_learner(batch, learner=TD3Learner, **kwargs):
    """A learner of linear networks, whose targets are others."""
    fields = {"actor_network": Policy(), "critic_network": Critics(), "optimizer": optax.sgd}
    learner = learner.create(
        0, batch["observations"], batch["actions"], **fields, **RATES, **kwargs
    )
    actor, critic = (
        x.replace(
            params={"weights": jax.random.normal(jax.random.key(1), x.params["weights"].shape)}
        )
        for x in (learner.target_actor, learner.target_critic)
    )
    return learner.replace(target_actor=actor, target_critic=critic)


def parameters(learner):
    params = {name: getattr(learner, name).params["weights"] for name in NETWORKS}
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


def smoothing_noise(learner):
    _, key = jax.random.split(learner.rng)
    return jax.random.normal(key, (16, ACTION_DIM))


def reference_update(params, batch, hp, noise, is_delayed):
    """Algorithm 1 of the paper."""
    obs, next_obs, n = batch["observations"], batch["next_observations"], len(batch["rewards"])
    noise = np.clip(hp.target_noise * noise, -hp.target_noise_clip, hp.target_noise_clip)
    next_actions = np.clip(np.tanh(next_obs @ params["target_actor"]) + noise, -1.0, 1.0)
    next_pairs = np.concatenate([next_obs, next_actions], axis=-1)
    next_values = (params["target_critic"] @ next_pairs.T).min(axis=0)
    discounts = batch.get("discounts", hp.gamma)
    targets = batch["rewards"] + discounts * batch["masks"] * next_values

    pairs = np.concatenate([obs, batch["actions"]], axis=-1)
    errors = params["critic"] @ pairs.T - np.asarray(targets)
    weighted_errors = batch.get("weights", 1.0) * errors
    critic = params["critic"] - RATES["critic_learning_rate"] * 2 * weighted_errors @ pairs / n

    actions, slope = np.tanh(obs @ params["actor"]), critic[0, OBS_DIM:]
    info = {
        "actor_loss": -(np.concatenate([obs, actions], axis=-1) @ critic[0]).mean(),
        "critic_loss": (weighted_errors * errors).mean(axis=-1).sum(),
        "q": (params["critic"] @ pairs.T).mean(),
    }
    if "weights" in batch:
        info["td_errors"] = np.abs(errors).mean(axis=0)
    if is_delayed:
        return {**params, "critic": critic}, info
    ascent = obs.T @ ((1 - actions**2) * slope) / n
    moved = {"actor": params["actor"] + RATES["actor_learning_rate"] * ascent, "critic": critic}
    targets = {
        f"target_{name}": hp.tau * moved[name] + (1 - hp.tau) * params[f"target_{name}"]
        for name in moved
    }
    return {**moved, **targets}, info


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"policy_delay": 1, "gamma": 0.5, "tau": 0.3},
        {"policy_delay": 3, "target_noise": 2.0, "target_noise_clip": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("further", [(), ("discounts",), ("weights",)], ids=str)
def test_updates_are_those_of_the_paper(kwargs, further):
    rng = np.random.default_rng(1)
    learner = linear_learner(transitions(False, (16,)), **kwargs)
    for i in range(1, 5):
        batch = transitions(False, (16,), seed=i)
        batch |= {key: rng.uniform(size=16).astype(np.float32) for key in further}
        is_delayed = i % kwargs.get("policy_delay", 2) != 0
        noise = np.asarray(smoothing_noise(learner), np.float64)
        expected, expected_info = reference_update(
            parameters(learner), batch, learner.hyperparams, noise, is_delayed
        )
        learner, info = learner.update(batch)
        assert info.keys() == expected_info.keys()
        assert_close({name: info[name] for name in expected_info}, expected_info)
        assert_close(parameters(learner), expected)


@pytest.mark.parametrize("value_weight", [0.0, 2.5])
@pytest.mark.parametrize("is_weighed", [False, True])
def test_near_the_data_updates_are_those_of_the_paper(value_weight, is_weighed):
    """Equations 4 and 5 of TD3+BC, whose imitation of the data weighs samples."""
    batch, share = transitions(False, (16,)), np.ones(16, np.float32)
    if is_weighed:
        share = np.random.default_rng(1).uniform(size=16).astype(np.float32)
        batch["weights"] = share
    kwargs = {"value_weight": value_weight, "policy_delay": 1}
    learner = linear_learner(batch, TD3BCLearner, **kwargs)
    before = parameters(learner)
    learner, info = learner.update(batch)
    after, obs = parameters(learner), batch["observations"]
    actions, critic = np.tanh(obs @ before["actor"]), after["critic"][0]
    values = np.concatenate([obs, actions], axis=-1) @ critic
    weight = value_weight / np.abs(values).mean()
    distances = actions - batch["actions"]
    mse = (share[:, None] * np.square(distances)).mean()
    assert_close(info["actor_loss"], mse - weight * values.mean())
    assert_close(info["mse"], mse)
    slope = 2.0 * share[:, None] * distances / distances.size - weight * critic[OBS_DIM:] / len(obs)
    gradient = obs.T @ ((1.0 - actions**2) * slope)
    assert_close(after["actor"], before["actor"] - RATES["actor_learning_rate"] * gradient)


def default_learner(batch, policy_delay):
    return ROW.create(policy_delay=policy_delay)


@pytest.mark.parametrize(
    ("create", "policy_delay"),
    [(linear_learner, 1), (linear_learner, 3), (default_learner, 2)],
    ids=["1", "3", "2"],
)
def test_the_policy_and_the_targets_move_with_a_delay(create, policy_delay):
    learner = create(ROW.batch(), policy_delay=policy_delay)
    for i in range(1, 7):
        moved, _ = learner.update(ROW.batch(seed=i))
        still = [name for name in NETWORKS if equal(getattr(moved, name), getattr(learner, name))]
        expected = [] if i % policy_delay == 0 else ["actor", "target_actor", "target_critic"]
        assert still == expected
        learner = moved
    assert learner.actor.step == 6 // policy_delay
    assert learner.critic.step == 6


def test_vmapped_learners_skip_updates_of_the_policy_too():
    learner, batch = ROW.create(), ROW.batch()

    def updated(seed, gamma):
        other = learner.replace(
            rng=jax.random.key(seed), hyperparams=learner.hyperparams.replace(gamma=gamma)
        )
        return other.update_many(jax.tree.map(lambda x: x[None], batch))

    program = jax.make_jaxpr(jax.vmap(updated))(jnp.arange(2), jnp.array([0.5, 0.9]))
    assert "cond[" in str(program)


def test_the_targets_start_as_the_networks_and_own_their_memory():
    learner = ROW.create()
    assert_equal(learner.critic.params, learner.target_critic.params)
    assert_equal(learner.actor.params, learner.target_actor.params)
    donated = jax.jit(lambda x: jax.tree.map(lambda y: y + 1, x), donate_argnums=0)
    donated(learner.actor.params)
    jax.block_until_ready(learner.target_actor.params)


def test_targets_are_of_actions_with_noise():
    learner = ROW.create(target_noise=0.05)
    actions = jnp.full((20_000, ACTION_DIM), 0.3)
    noise = np.asarray(learner._add_noise(jax.random.key(2), actions) - actions)
    np.testing.assert_allclose([noise.mean(), noise.std()], [0.0, 0.05], atol=1e-3)


def test_the_noise_of_targets_is_clipped():
    learner = ROW.create(target_noise=1.0, target_noise_clip=0.4)
    actions = jnp.full((20_000, ACTION_DIM), 0.3)
    noise = np.asarray(learner._add_noise(jax.random.key(2), actions) - actions)
    np.testing.assert_allclose([noise.min(), noise.max()], [-0.4, 0.4], rtol=1e-5)
    clipped = (np.abs(noise) > 0.4 - 1e-6).mean()
    np.testing.assert_allclose(clipped, 0.689, atol=0.01)  # beyond 0.4 standard deviations
    smoothed = learner._add_noise(jax.random.key(2), jnp.full((20_000, ACTION_DIM), -0.9))
    np.testing.assert_allclose([smoothed.min(), smoothed.max()], [-1.0, -0.5], rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("network", [None, Policy()], ids=["default", "own"])
def test_actions_are_explored_with_noise(temperature, network):
    learner = ROW.create(exploration_noise=0.05, actor_network=network)
    obs = np.broadcast_to(0.1 * ROW.batch()["observations"][0], (20_000, OBS_DIM))
    actions = learner.sample_actions(obs, seed=jax.random.key(1), temperature=temperature)
    noise = np.asarray(actions - learner.sample_actions(obs))
    expected = 0.05 * temperature
    np.testing.assert_allclose([noise.mean(), noise.std()], [0.0, expected], atol=0.02 * expected)


def test_without_noise_actions_are_those_of_the_policy():
    obs = ROW.batch()["observations"]
    learner = ROW.create(exploration_noise=0.0)
    expected = learner.actor(jnp.asarray(obs)).mode()
    key = jax.random.key(1)
    for kwargs in ({}, {"seed": key}, {"seed": key, "temperature": 0.0}, {"temperature": 0.0}):
        np.testing.assert_allclose(
            learner.sample_actions(obs, **kwargs), expected, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("n_critics", [1, 3])
def test_any_number_of_critics(n_critics):
    def values_after_an_update():
        batch = jax.tree.map(jnp.asarray, ROW.batch())
        learner, _ = ROW.create(n_critics=n_critics).update(batch)
        return learner.critic(batch["observations"], batch["actions"])

    assert jax.eval_shape(values_after_an_update).shape == (n_critics, 16)


def test_weights_of_another_shape_are_refused():
    batch = ROW.batch()
    with pytest.raises(ValueError, match=r"'weights' must have one number for each sample"):
        ROW.create().update({**batch, "weights": np.ones((16, 1), np.float32)})
    with pytest.raises(ValueError, match=r"'weights' has shape \(4,\), but 'actions' has shape"):
        ROW.create().update({**batch, "weights": np.ones(4, np.float32)})


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"policy_delay": 0}, "policy_delay must be a positive integer"),
        ({"n_critics": 0}, "n_critics must be a positive integer"),
        ({"target_noise": -0.1}, "target_noise must lie in"),
        ({"exploration_noise": -0.1}, "exploration_noise must lie in"),
    ],
)
def test_numbers_out_of_range_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        ROW.create(**kwargs)


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
    rates = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3}
    learner = TD3Learner.create(0, obs[0], actions[0], features=(32, 32), **rates)
    learner, info = learner.update_many(batches)
    np.testing.assert_allclose(learner.sample_actions(obs[0, 0]), 0.5, atol=0.1)
    assert info["critic_loss"][-10:].mean() < 0.04
