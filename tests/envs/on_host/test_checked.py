"""Results that environments of Gymnasium should not return, found before a vector fails on them."""

import numpy as np
import pytest
import trees
from gymnasium_probes import Line, Picture

from jaxagents.envs import Gymnasium
from jaxagents.envs.on_host.environment import Terms


class Changed(Line):
    """Returns something else than it should."""

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
    episodes = Gymnasium(make).episodes("training", 2, Terms(max_steps=10))
    episodes.restart(np.arange(2, dtype=np.uint32))
    return episodes


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (
            lambda obs, reward, over, cut, info: (obs, reward, over, info),
            TypeError,
            r"step must return a tuple \(observation, reward, .*a tuple of 4: .*old Gym",
        ),
        (
            lambda obs, *others: (np.zeros(3), *others),
            ValueError,
            r"step returns an observation of shape \(3,\), but .* Box\(-inf, inf, \(2,\), float64",
        ),
        (
            lambda obs, *others: ({"place": obs}, *others),
            ValueError,
            r"observation of shape \{'place': \(2,\)\}, but observation_space is Box",
        ),
        (
            lambda obs, reward, *others: (obs, np.ones(2), *others),
            TypeError,
            r"step must return a number as the reward, got array\(\[1\., 1\.\]\)",
        ),
        (
            lambda obs, reward, *others: (obs, None, *others),
            TypeError,
            "step must return a number as the reward, got None",
        ),
        (
            lambda obs, reward, over, *others: (obs, reward, 0.5, *others),
            TypeError,
            r"step must return a boolean as terminated, got 0\.5",
        ),
        (
            lambda obs, reward, over, cut, info: (obs, reward, over, np.zeros(2, bool), info),
            TypeError,
            "step must return a boolean as truncated, got array",
        ),
        (
            lambda *outcome: (*outcome[:-1], None),
            TypeError,
            "step must return a dict as the info, got None",
        ),
    ],
)
def test_a_step_that_is_wrong_is_named(step, error, message):
    episodes = started(lambda: Changed(step=step))
    with pytest.raises(error, match=rf"Changed\.{message}" if message[0] == "s" else message):
        episodes.step(np.zeros((2, 1), np.float32))


def test_rewards_and_flags_may_be_arrays_of_one():
    def in_arrays(obs, reward, terminated, truncated, info):
        return obs, np.full(1, reward), np.array([terminated]), np.array([[truncated]]), info

    steps = [
        started(make).step(np.ones((2, 1), np.float32))
        for make in (Line, lambda: Changed(step=in_arrays))
    ]
    trees.assert_equal(*steps)


class Blind(Picture):
    """Leaves out a part of what it declares."""

    def _observation(self):
        return {"image": super()._observation()["image"], "inner": {}}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Changed(lambda obs, info: obs),
            TypeError,
            r"Changed\.reset must return a tuple \(observation, info\), got .* ndarray: .*old Gym",
        ),
        (
            lambda: Changed(lambda obs, info: (np.zeros((2, 1)), info)),
            ValueError,
            r"Changed\.reset returns an observation of shape \(2, 1\), but",
        ),
        (Blind, ValueError, r"Blind\.reset returns an observation of shape \{'image'"),
    ],
)
def test_a_reset_that_is_wrong_is_named(make, error, message):
    assert started(Picture).obs["image"].shape == (2, 2, 2)
    with pytest.raises(error, match=message):
        started(make)
