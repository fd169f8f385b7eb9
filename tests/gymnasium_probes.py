"""Gymnasium environments so small that what happens in them is known."""

import itertools

import gymnasium
import numpy as np


class Walk(gymnasium.Env):
    """Ends after a number of steps that its seed draws, or is cut after five; action 1 is rewarded.

    It observes a number drawn with the seed, the time, and the sum of the actions so far.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._number, self._time, self._sum = self.np_random.uniform(), 0, 0
        self._end = self.np_random.integers(2, 9)
        return self._observation(), {}

    def step(self, action):
        self._time += 1
        self._sum += int(action)
        terminated, truncated = self._time >= self._end, self._time >= 5
        info = {"action": int(action), "won": bool(terminated)}
        return self._observation(), float(action), bool(terminated), bool(truncated), info

    def render(self):
        return np.full((4, 6, 3), self._time, np.uint8)

    def _observation(self):
        return np.array([self._number, self._time, self._sum], np.float32)


class Unseeded(Walk):
    """A walk that takes no notice of its seed: it is cut after five steps, its number is always new."""

    _NUMBERS = itertools.count(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self._number, self._end = next(self._NUMBERS), 9
        return self._observation(), {}
