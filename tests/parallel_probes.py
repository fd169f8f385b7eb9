"""A parallel PettingZoo environment small enough to know every step in advance."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

LIMIT = 5


class Relay(ParallelEnv):
    """Each agent terminates after a number of steps drawn by the seed, or is truncated after five.

    It observes a number drawn by the seed, the time, and the sum of its actions so far, and is rewarded
    for action 1; `"far"` has a third action, and observes one more number.
    """

    metadata = {"name": "relay", "render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    possible_agents = ["near", "far"]  # noqa: RUF012 (as PettingZoo has it)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.agents = []

    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (3 + (agent == "far"),), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2 + (agent == "far"))

    def reset(self, seed=None, options=None):
        rng = np.random.default_rng(seed)
        self.agents = [*self.possible_agents]
        self._number, self._time = rng.uniform(), 0
        self._sums = dict.fromkeys(self.agents, 0)
        self.ends = {agent: int(rng.integers(2, 9)) for agent in self.agents}
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == {*self.agents}
        assert all(self.action_space(agent).contains(x) for agent, x in actions.items())
        self._time += 1
        for agent, action in actions.items():
            self._sums[agent] += int(np.sum(action))
        ended = {agent: self._time >= self.ends[agent] for agent in self.agents}
        cut = {agent: self._time >= LIMIT and not ended[agent] for agent in self.agents}
        seen, rewards = self._seen(), {agent: float(np.any(x == 1)) for agent, x in actions.items()}
        infos = {agent: {"sum": self._sums[agent]} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (ended[agent] or cut[agent])]
        return seen, rewards, ended, cut, infos

    def state(self):
        return np.array([self._time, *self._sums.values()], np.float64)

    def render(self):
        return np.full((4, 6, 3), self._time, np.uint8)

    def _seen(self):
        seen = {agent: [self._number, self._time, self._sums[agent]] for agent in self.agents}
        return {
            agent: np.float32([*numbers, 9] if agent == "far" else numbers)
            for agent, numbers in seen.items()
        }
