"""Observations and rewards that learners normalise in trainings on the host."""

import json

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents import SACLearner, ops
from jaxagents.data import Dataset
from jaxagents.data.values import reward_factor
from jaxagents.host import OfflineConfig, OnlineConfig, train_offline, train_online
from jaxagents.host.reward_scale import RewardScale


class FarOff(gymnasium.Env):
    """Observations around 1000."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observation(), {}

    def step(self, action):
        self._time += 1
        return self._observation(), 1.0, False, self._time == 5, {}

    def _observation(self):
        return self.np_random.normal([1000.0, -5.0], [0.1, 3.0]).astype(np.float32)


def small_learner():
    return SACLearner.create(
        0,
        np.zeros(2, np.float32),
        np.zeros(1, np.float32),
        features=(8,),
        normalise_observations=True,
    )


def moments(state):
    (of_vector,) = state.extra_variables["observed"]["statistics"]["moments"]
    return of_vector


def online(n_steps, folder=None, resume=False):
    config = OnlineConfig(
        n_steps=n_steps,
        start_steps=4,
        batch_size=8,
        eval_frequency=10,
        n_evals=1,
        normalise_rewards=True,
        checkpoint_dir=folder,
    )
    return train_online(small_learner(), FarOff(), config, resume=resume, progress=False)[0]


def test_online_they_are_those_of_the_batches():
    learner = online(30)
    for state in (learner.actor, learner.critic, learner.target_critic):
        found = moments(state)
        assert found.count == 8 * 26
        np.testing.assert_allclose(found.mean, [1000.0, -5.0], atol=1.5)
        np.testing.assert_allclose(np.sqrt(found.variance), [0.1, 3.0], rtol=0.5)


def test_online_they_are_restored_bit_for_bit(tmp_path):
    online(10, tmp_path)
    trees.assert_equal(online(20, tmp_path, resume=True), online(20))


def test_rewards_are_in_units_of_the_deviation_of_returns():
    rng = np.random.default_rng(0)
    rewards = rng.normal(3.0, 2.0, (40, 2)).astype(np.float32)
    ends = rng.random((40, 2)) < 0.2
    learner = small_learner()
    whole, earlier, later = (RewardScale(learner, 2) for _ in range(3))
    steps = [
        {"rewards": rewards[t], "ends": ends[t], "environments": np.arange(2)} for t in range(40)
    ]
    for t, step in enumerate(steps):
        whole.observe(step)
        if t == 20:
            later.load(json.loads(json.dumps(earlier.state())))
        (earlier if t < 20 else later).observe(step)
    assert later.state() == whole.state()
    returns, _ = ops.running_returns(jnp.asarray(rewards), jnp.asarray(ends), jnp.zeros(2), 0.99)
    np.testing.assert_allclose(whole.variance, np.var(returns), rtol=1e-5)
    scaled = whole.scaled({"rewards": rewards, "masks": ends})
    np.testing.assert_allclose(scaled["rewards"], rewards / np.std(returns), rtol=1e-5)
    assert scaled["masks"] is ends
    np.testing.assert_array_equal(RewardScale(learner, 1).scaled(steps[0])["rewards"], rewards[0])
    with pytest.raises(ValueError, match=r"Plain has no hyperparams\.gamma"):
        RewardScale(type("Plain", (), {})(), 1)


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_returns_that_are_not_finite_do_not_count(spoilt):
    rewards, ends = np.array([1.0, 5.0, spoilt, 3.0, 2.0]), np.array([0, 0, 0, 0, 1])
    scale = RewardScale(small_learner(), 1)
    for reward, end in zip(rewards, ends, strict=True):
        scale.observe({"rewards": reward, "ends": end})
    returns = [1.0, 0.99 + 5.0, 3.0, 2.97 + 2.0]
    np.testing.assert_allclose(scale.variance, np.var(returns), rtol=1e-6)
    assert scale.state()["received"] == [0.0]


def test_offline_they_are_those_of_the_dataset():
    rng = np.random.default_rng(0)
    obs = rng.normal([1000.0, -5.0], [0.1, 3.0], (50, 2)).astype(np.float32)
    arrays = {
        "observations": obs,
        "actions": np.zeros((50, 1), np.float32),
        "rewards": rng.normal(size=50).astype(np.float32),
        "next_observations": obs,
        "masks": np.ones(50, np.float32),
        "ends": np.arange(50) % 10 == 9,
    }
    config = OfflineConfig(n_updates=4, updates_per_call=1, batch_size=8, eval_frequency=4)
    scaled = {**arrays, "rewards": arrays["rewards"] * reward_factor(arrays)}
    learner, _ = train_offline(small_learner(), scaled, config, progress=False)
    normalised = config.replace(normalise_rewards=True)
    again, _ = train_offline(small_learner(), Dataset(arrays), normalised, progress=False)
    trees.assert_equal(again, learner)
    stepped = Dataset(arrays).n_step(3, 0.99)
    scaled = {**stepped, "rewards": stepped["rewards"] * reward_factor(arrays)}
    trees.assert_equal(
        train_offline(small_learner(), stepped, normalised, progress=False)[0],
        train_offline(small_learner(), scaled, config, progress=False)[0],
    )
    for state in (learner.actor, learner.critic, learner.target_critic):
        np.testing.assert_allclose(moments(state).mean, obs.mean(0, dtype=np.float64), rtol=1e-6)
        np.testing.assert_allclose(moments(state).variance, np.float64(obs).var(0), rtol=1e-3)
        assert moments(state).count == 50
    assert jax.tree.leaves(learner)
