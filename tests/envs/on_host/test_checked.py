"""Invalid results of Gymnasium environments, found before a vector environment fails on them."""

import numpy as np
import pytest
import trees
from gymnasium_probes import Walk

from jaxagents.envs import Gymnasium
from jaxagents.envs.on_host.environment import Terms

PARTS = "obs", "reward", "terminated", "truncated", "info"


class Changed(Walk):
    """Returns invalid results."""

    def __init__(self, reset=None, step=None):
        super().__init__()
        self.change_reset, self.change_step = reset, step

    def reset(self, **options):
        returned = super().reset(**options)
        return self.change_reset(*returned) if self.change_reset else returned

    def step(self, action):
        returned = super().step(action)
        return self.change_step(*returned) if self.change_step else returned


def started(make):
    with Gymnasium(make).playing("training", 2, Terms(max_steps=10)) as episodes:
        episodes.restart(np.arange(2, dtype=np.uint32))
    return episodes


def with_part(**part):
    """A function that replaces one entry of a step."""
    return lambda *parts: tuple((dict(zip(PARTS, parts, strict=True)) | part).values())


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (lambda *parts: parts[:4], TypeError, r"must return a tuple .*a tuple of 4: .*old Gym"),
        (
            with_part(obs=np.zeros(2)),
            ValueError,
            r"returns an observation of shape \(2,\), but .* Box\(-inf, inf, \(3,\), float32",
        ),
        (with_part(obs={"place": np.zeros(3)}), ValueError, r"shape \{'place': \(3,\)\}, but"),
        (with_part(reward=np.ones(2)), TypeError, r"a number as the reward, got array\(\[1\., 1"),
        (with_part(reward=None), TypeError, "must return a number as the reward, got None"),
        (with_part(terminated=0.5), TypeError, r"must return a boolean as terminated, got 0\.5"),
        (with_part(truncated=np.zeros(2, bool)), TypeError, "boolean as truncated, got array"),
        (with_part(info=None), TypeError, "must return a dict as the info, got None"),
    ],
)
def test_a_step_that_is_wrong_is_named(step, error, message):
    episodes = started(lambda: Changed(step=step))
    with pytest.raises(error, match=rf"Changed\.step .*{message}"):
        episodes.step(np.zeros(2, np.int32))


@pytest.mark.parametrize(
    ("reset", "error", "message"),
    [
        (
            lambda obs, info: obs,
            TypeError,
            r"must return a tuple \(observation, info\), got .* ndarray: .*old Gym",
        ),
        (
            lambda obs, info: (np.zeros((3, 1)), info),
            ValueError,
            r"returns an observation of shape \(3, 1\), but",
        ),
    ],
)
def test_a_reset_that_is_wrong_is_named(reset, error, message):
    with pytest.raises(error, match=rf"Changed\.reset {message}"):
        started(lambda: Changed(reset))


def test_rewards_and_flags_may_be_arrays_of_one():
    def in_arrays(obs, reward, terminated, truncated, info):
        return obs, np.full(1, reward), np.array([terminated]), np.array([[truncated]]), info

    steps = [
        started(make).step(np.ones(2, np.int32)) for make in (Walk, lambda: Changed(step=in_arrays))
    ]
    trees.assert_equal(*steps)
