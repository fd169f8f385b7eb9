"""Statistics of episodes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RescaleAction, TimeLimit

from jaxagents.host import EpisodeMonitor


class Clock(gymnasium.Env):
    """Terminates after three steps; the reward is the action."""

    observation_space = gymnasium.spaces.Discrete(100)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return 0, {"from": "reset"}

    def step(self, action):
        self.time += 1
        return self.time, float(action[0]), self.time == 3, False, {"from": "step"}


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


def test_reports_each_episode_at_its_end(monkeypatch):
    times = iter([10.0, 12.5, 12.5, 20.0, 20.25, 20.25])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    env = EpisodeMonitor(Clock())
    infos = play(env, 5)
    assert [i for i, info in enumerate(infos) if "episode" in info] == [2]
    assert infos[2]["episode"] == {"return": 3.0, "length": 3, "duration": 2.5}
    assert isinstance(infos[2]["episode"]["return"], float)
    assert isinstance(infos[2]["episode"]["length"], int)
    assert [info["total"]["timesteps"] for info in infos] == [1, 2, 3, 4, 5]
    assert all(info["from"] == "step" for info in infos)
    monkeypatch.undo()
    *_, last = play(env, 3)  # starts anew, in mid-episode
    assert last["episode"]["return"] == last["episode"]["length"] == 3
    assert env.total_timesteps == last["total"]["timesteps"] == 8


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda env: RescaleAction(EpisodeMonitor(env), np.float32(-1), np.float32(1)), (6.0, 3)),
        (lambda env: EpisodeMonitor(TimeLimit(env, max_episode_steps=2)), (2.0, 2)),
        (lambda env: TimeLimit(EpisodeMonitor(env), max_episode_steps=2), None),
    ],
)
def test_sees_the_environment_inside(wrap, expected):
    episodes = [info["episode"] for info in play(wrap(Clock()), 4) if "episode" in info]
    found = {(episode["return"], episode["length"]) for episode in episodes}
    assert found == ({expected} if expected else set())
