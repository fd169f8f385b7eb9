"""TD3 and TD3+BC against references in NumPy whose gradients are written out."""

import jax
import jax.numpy as jnp
import linear
import numpy as np
import pytest
from learner_registry import LEARNERS
from linear import OBS_DIM
from trees import assert_close

from jaxagents.td3 import TD3Learner
from jaxagents.td3bc import TD3BCLearner

RATES = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2}
LINEAR = {"actor_network": linear.Policy(), "critic_network": linear.Critics(), **RATES}
NETWORKS = ("actor", "target_actor", "critic", "target_critic")
ROW = LEARNERS["TD3"]


def parameters(learner):
    return dict(zip(NETWORKS, linear.weights_of(learner, *NETWORKS), strict=True))


def smoothing_noise(learner):
    _, key = jax.random.split(learner.rng)
    return np.asarray(jax.random.normal(key, (16, linear.ACTION_DIM)), np.float64)


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
    ("kwargs", "further"),
    [
        ({"target_noise": 2.0, "target_noise_clip": 0.3, "policy_delay": 3}, ()),
        ({"policy_delay": 1, "gamma": 0.5, "tau": 0.3}, linear.ALL),
    ],
    ids=str,
)
def test_updates_are_those_of_the_paper(kwargs, further):
    learner = linear.create(TD3Learner, **LINEAR, **kwargs)
    for i in range(1, 5):
        batch = linear.batch_with(TD3Learner, further, seed=i)
        is_delayed = i % kwargs["policy_delay"] != 0
        noise = smoothing_noise(learner)
        expected, expected_info = reference_update(
            parameters(learner), batch, learner.hyperparams, noise, is_delayed
        )
        learner, info = learner.update(batch)
        assert info.keys() == expected_info.keys()
        assert_close({name: info[name] for name in expected_info}, expected_info)
        assert_close(parameters(learner), expected)
    assert learner.actor.step == 4 // kwargs["policy_delay"]
    assert learner.critic.step == 4


@pytest.mark.parametrize("value_weight", [0.0, 2.5])
def test_near_the_data_updates_are_those_of_the_paper(value_weight):
    """Equations 4 and 5 of TD3+BC, whose imitation of the data weighs samples."""
    learner = linear.create(TD3BCLearner, **LINEAR, value_weight=value_weight, policy_delay=1)
    batch, before = linear.batch_with(TD3BCLearner, ["weights"]), parameters(learner)
    learner, info = learner.update(batch)
    after, obs, share = parameters(learner), batch["observations"], batch["weights"]
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


def test_vmapped_learners_skip_updates_of_the_policy_too():
    batch = ROW.batch(1, 16)

    def updated(seed, gamma):
        return ROW.create(seed, gamma=gamma).update_many(batch)

    program = jax.make_jaxpr(jax.vmap(updated))(jnp.arange(2), jnp.array([0.5, 0.9]))
    assert "cond[" in str(program)


def test_actions_are_explored_with_noise():
    learner = ROW.create(exploration_noise=0.05, features=())
    obs = np.broadcast_to(0.1 * ROW.batch()["observations"][0], (20_000, OBS_DIM))
    policy = np.asarray(learner.sample_actions(obs))
    greedy = learner.actor(jnp.asarray(obs[:1])).mode()
    np.testing.assert_allclose(policy[:1], greedy, rtol=1e-5, atol=1e-6)
    for temperature in (0.5, 1.0, 2.0, 0.0):
        noise = (
            learner.sample_actions(obs, seed=jax.random.key(1), temperature=temperature) - policy
        )
        expected = 0.05 * temperature
        np.testing.assert_allclose(
            [noise.mean(), noise.std()], [0.0, expected], atol=0.02 * expected + 1e-6
        )
