"""The returns of datasets, by which rewards are scaled."""

import numpy as np
import pytest
import registry
from probes import MatchSign

from jaxagents import iql
from jaxagents.data import Dataset
from jaxagents.data.return_range import ReturnRange

CASES = {case.name: case for case in registry.OFFLINE}
REWARDS = np.array([1.0, 2.0, 4.0, -1.0, 0.5, 9.0], np.float32)
ENDS = np.array([0, 0, 1, 1, 0, 0], bool)


def test_it_is_that_of_whole_episodes():
    found = ReturnRange.of({"rewards": REWARDS, "ends": ENDS})
    assert found == (3.0, 7.0, -1.0)
    assert found.factor == np.float32(3 / 8)
    longer = ReturnRange.of({"rewards": REWARDS, "ends": np.array([0, 0, 1, 0, 0, 1])})
    assert longer == (3.0, 8.5, 7.0)


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"rewards": REWARDS}, KeyError, "normalise_rewards needs 'ends'"),
        ({"rewards": REWARDS, "ends": 0 * ENDS}, ValueError, "the dataset has none"),
        (
            {"rewards": np.ones(6), "ends": [0, 0, 1, 0, 0, 1]},
            ValueError,
            "only episodes that return 3",
        ),
        (
            {"rewards": np.full(6, np.nan), "ends": ENDS},
            ValueError,
            "'rewards' is NaN or infinite in 6 of 6",
        ),
        ({"rewards": REWARDS[:, None], "ends": ENDS}, ValueError, r"got shape \(6, 1\)"),
        ({"rewards": REWARDS, "ends": ENDS, "masks": 0 * REWARDS}, ValueError, "Row 0 has a mask"),
    ],
)
def test_datasets_without_one_are_refused(arrays, error, message):
    with pytest.raises(error, match=message):
        _ = ReturnRange.of(arrays).factor


def test_agents_have_scaled_rewards_on_the_device():
    rows = {
        "observations": np.zeros((6, 2), np.float32),
        "actions": np.zeros((6, 1), np.float32),
        "rewards": REWARDS,
        "next_observations": np.zeros((6, 2), np.float32),
        "masks": np.ones(6, np.float32),
        "ends": ENDS,
    }
    dataset = Dataset(rows)

    def rewards(**fields):
        config = CASES["IQL"].config(**fields)
        agent = iql.IQL(CASES["IQL"].env(MatchSign), None, config, dataset=dataset)
        return agent.data.arrays["rewards"]

    np.testing.assert_array_equal(
        rewards(normalise_rewards=True), REWARDS[None] * np.float32(3 / 8)
    )
    np.testing.assert_array_equal(rewards(), REWARDS[None])
    np.testing.assert_array_equal(dataset["rewards"], REWARDS)
