"""Statistics of episodes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RescaleAction, TimeLimit

from jaxagents.host import EpisodeMonitor


class Clock(gymnasium.Env):
    """Ends by itself after `length` steps, each of which pays the action."""

    observation_space = gymnasium.spaces.Discrete(100)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def __init__(self, length=100):
        self.length = length

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return 0, {"from": "reset"}

    def step(self, action):
        self.time += 1
        return self.time, float(action[0]), self.time == self.length, False, {"from": "step"}


ONE = np.ones(1, np.float32)


def play(env, n_steps):
    """The infos of steps, with resets where episodes end."""
    infos = []
    env.reset()
    for _ in range(n_steps):
        *_, terminated, truncated, info = env.step(ONE)
        infos.append(info)
        if terminated or truncated:
            env.reset()
    return infos


def test_reports_each_episode_at_its_end():
    infos = play(EpisodeMonitor(Clock(3)), 8)
    assert [i for i, info in enumerate(infos) if "episode" in info] == [2, 5]
    for info in (infos[2], infos[5]):
        episode = info["episode"]
        assert set(episode) == {"return", "length", "duration"}
        assert episode["return"] == 3.0
        assert episode["length"] == 3
        assert episode["duration"] >= 0.0
        assert isinstance(episode["return"], float)
        assert isinstance(episode["length"], int)
    assert [info["total"]["timesteps"] for info in infos] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert all(info["from"] == "step" for info in infos)


def test_the_duration_is_that_of_the_clock(monkeypatch):
    times = iter([10.0, 12.5, 12.5, 20.0, 20.25, 20.25])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    infos = play(EpisodeMonitor(Clock(2)), 2)
    assert infos[1]["episode"]["duration"] == 2.5


def test_a_reset_in_mid_episode_starts_anew():
    env = EpisodeMonitor(Clock(3))
    env.reset()
    env.step(ONE)
    env.step(ONE)
    env.reset()
    infos = play(env, 3)
    assert infos[-1]["episode"]["return"] == 3.0
    assert infos[-1]["episode"]["length"] == 3
    assert env.total_timesteps == infos[-1]["total"]["timesteps"] == 5


def test_under_rescaled_actions_it_sees_the_rewards_inside():
    env = RescaleAction(EpisodeMonitor(Clock(3)), np.float32(-1), np.float32(1))
    assert play(env, 3)[-1]["episode"]["return"] == 6.0


def test_reports_episodes_that_a_time_limit_inside_cuts():
    infos = play(EpisodeMonitor(TimeLimit(Clock(), max_episode_steps=4)), 8)
    assert [i for i, info in enumerate(infos) if "episode" in info] == [3, 7]
    assert infos[7]["episode"]["length"] == 4


def test_does_not_see_a_time_limit_outside():
    env = EpisodeMonitor(Clock())
    infos = play(TimeLimit(env, max_episode_steps=4), 8)
    assert not any("episode" in info for info in infos)
    assert env.total_timesteps == 8


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_environments_of_gymnasium(name):
    env = EpisodeMonitor(gymnasium.make(name, max_episode_steps=10))
    env.reset(seed=0)
    env.action_space.seed(0)
    rewards, over = [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        rewards.append(reward)
        over = terminated or truncated
    assert info["episode"]["length"] == len(rewards)
    assert info["episode"]["return"] == pytest.approx(np.sum(rewards))
    env.close()
