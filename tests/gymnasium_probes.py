"""Gymnasium environments small enough to know every step in advance."""

import itertools

import gymnasium
import numpy as np

from jaxagents.envs import Gymnasium


class Walk(gymnasium.Env):
    """Terminates after a number of steps drawn by the seed, or is truncated after five.

    Action 1 is rewarded. Observes a number drawn by the seed, the time, and the sum of the actions so
    far.
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
        action = np.asarray(action).item()
        self._time += 1
        self._sum += action
        terminated, truncated = self._time >= self._end, self._time >= 5
        info = {"action": action, "won": bool(terminated)}
        return self._observation(), float(action), bool(terminated), bool(truncated), info

    def render(self):
        return np.full((4, 6, 3), self._time, np.uint8)

    def _observation(self):
        return np.array([self._number, self._time, self._sum], np.float32)


class Steered(Walk):
    """A walk with continuous actions, which are also the rewards."""

    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)


class Unseeded(Walk):
    """A walk that ignores its seed: it is truncated after five steps, and its number is always new."""

    _NUMBERS = itertools.count(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self._number, self._end = next(self._NUMBERS), 9
        return self._observation(), {}


class Masked(gymnasium.Env):
    """Allows two of four actions, with an integer mask as in most environments."""

    observation_space = gymnasium.spaces.Dict(
        {
            "observation": gymnasium.spaces.Box(-1, 1, (2,)),
            "action_mask": gymnasium.spaces.MultiBinary(4),
        }
    )
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action):
        assert action in (1, 3)
        return self._observation(), 0.0, bool(self.np_random.random() < 0.3), False, {}

    def _observation(self):
        mask = np.array([0, 1, 0, 1], np.int8)
        return {"observation": np.ones(2, np.float32), "action_mask": mask}


class Line(gymnasium.Env):
    """A walk that terminates beyond 3, or is truncated after seven steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, action_space=None):
        self.action_space = action_space or gymnasium.spaces.Box(-0.5, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.zeros(2)
        return self.place, {}

    def step(self, action):
        self.place = self.place + np.array([np.sum(action), 1.0])
        over, cut = self.place > np.array([3.0, 6.5])
        return self.place, self.place[0], bool(over), bool(cut), {}


class Walks(Gymnasium):
    """Walks that are equal in any vector environment, so that agents share programs and nothing else."""

    @property
    def identity(self):
        return "walks", str(self.action_space), self.plays_again


def walk(**options):
    return Walks(Walk, **options)
