"""The numbers of datasets: moments of observations, and the scale of rewards."""

import pickle

import jax
import numpy as np
import pytest
import registry
from probes import MatchSign

from jaxagents import bc, iql
from jaxagents.data import Dataset
from jaxagents.data.values import moments_of_rows, reward_factor

CASES = {case.name: case for case in registry.OFFLINE}
REWARDS = np.array([1.0, 2.0, 4.0, -1.0, 0.5, 9.0], np.float32)
ENDS = np.array([0, 0, 1, 1, 0, 0], bool)


def test_there_are_moments_for_everything_but_images():
    rng = np.random.default_rng(0)
    arrays = {
        "vector": rng.normal(3.0, 2.0, (50, 4)).astype(np.float32),
        "whole": rng.integers(-5, 6, (50, 3)),
        "number": rng.integers(0, 9, 50).astype(np.uint8),
        "mask": rng.random((50, 3)) < 0.5,
        "images": {"of bytes": np.ones((50, 4, 4, 3), np.uint8), "real": np.ones((50, 4, 4, 1))},
    }
    found = moments_of_rows(arrays)
    leaves = jax.tree.leaves(arrays)
    assert len(jax.tree.leaves(found, is_leaf=lambda x: x is None)) == 3 * len(leaves)
    for name in ("vector", "whole", "number", "mask"):
        wide = np.float64(arrays[name])
        np.testing.assert_allclose(found[name].mean, wide.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(found[name].variance, wide.var(axis=0), rtol=1e-5)
        assert found[name].count == 50
    for moments in found["images"].values():
        assert moments.count == 0
        assert moments.mean.shape == ()


def test_the_reward_factor_is_that_of_whole_episodes():
    assert reward_factor({"rewards": REWARDS, "ends": ENDS}) == np.float32(3 / 8)
    assert reward_factor({"rewards": REWARDS, "ends": [0, 0, 1, 0, 0, 1]}) == np.float32(3 / 1.5)


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"rewards": REWARDS}, KeyError, r"normalise_rewards needs .* lacks \['ends'\]"),
        ({"rewards": REWARDS, "ends": 0 * ENDS}, ValueError, "the dataset has none"),
        (
            {"rewards": np.ones(6), "ends": [0, 0, 1, 0, 0, 1]},
            ValueError,
            "episodes with a return of 3",
        ),
        ({"rewards": np.full(6, np.nan), "ends": ENDS}, ValueError, "NaN or infinite in 6 of 6"),
        ({"rewards": REWARDS[:, None], "ends": ENDS}, ValueError, r"got shape \(6, 1\)"),
        ({"rewards": REWARDS, "ends": ENDS, "masks": 0 * REWARDS}, ValueError, "Row 0 has a mask"),
    ],
)
def test_datasets_without_one_are_refused(arrays, error, message):
    with pytest.raises(error, match=message):
        reward_factor(arrays)


def four_episodes():
    """Episodes of ten rows, whose rewards are 1, 2, 3 and 4."""
    rows = np.zeros((40, 2), np.float32)
    return Dataset(
        {
            "observations": rows,
            "actions": rows[:, :1],
            "rewards": np.repeat(np.arange(1, 5, dtype=np.float32), 10),
            "next_observations": rows,
            "masks": np.ones(40, np.float32),
            "ends": np.arange(40) % 10 == 9,
        }
    )


def test_several_steps_have_the_scale_of_single_ones():
    dataset, first = four_episodes(), slice(20)
    stepped = dataset.n_step(3, 0.99)
    assert reward_factor(dataset) == np.float32(10 / 30)
    for same in (
        stepped,
        pickle.loads(pickle.dumps(stepped)),
        stepped.normalise(["observations"])[0],
    ):
        assert reward_factor(same) == reward_factor(dataset)
    of_first = reward_factor(dataset.get_subset(first))
    assert reward_factor(stepped.get_subset(first)) == of_first
    np.testing.assert_allclose(rewards_of_agent(stepped)[0], stepped["rewards"] / 3, rtol=1e-6)


def rewards_of_agent(dataset, **fields):
    config = CASES["IQL"].config(**{"normalise_rewards": True, **fields})
    agent = iql.IQL(CASES["IQL"].env(MatchSign), None, config, dataset=dataset)
    return agent.data.arrays["rewards"]


def test_the_parts_of_a_split_have_the_scale_of_the_whole():
    dataset = four_episodes()
    for whole in (dataset, dataset.n_step(3, 0.99)):
        for part in whole.split(0.3):
            assert reward_factor(part) == reward_factor(dataset)
            assert reward_factor(pickle.loads(pickle.dumps(part))) == reward_factor(dataset)
            assert reward_factor(part.split(0.5)[1]) == reward_factor(dataset)
    without = Dataset({name: dataset[name] for name in ("rewards", "actions")})
    with pytest.raises(KeyError, match=r"lacks \['ends'\]; it has \['actions', 'rewards'\]"):
        reward_factor(without.split(0.5)[0])


def test_several_steps_whose_single_ones_are_not_known_are_refused():
    arrays = {**four_episodes().n_step(3, 0.99)}
    for dataset in (arrays, Dataset(arrays)):
        with pytest.raises(ValueError, match=r"rewards of single steps, but .* 'discounts'"):
            reward_factor(dataset)


def test_agents_have_scaled_rewards_on_the_device():
    dataset = four_episodes()
    expected = dataset["rewards"][None] / 3
    np.testing.assert_allclose(rewards_of_agent(dataset), expected, rtol=1e-6)
    plain = rewards_of_agent(dataset, normalise_rewards=False)
    np.testing.assert_array_equal(plain, dataset["rewards"][None])


def ordered(**others):
    """Two episodes of eight rows, one after another."""
    numbers = np.linspace(-1.0, 1.0, 34, dtype=np.float32).reshape(17, 2)
    arrays = {
        "observations": numbers[:-1],
        "actions": np.zeros(16, np.int32),
        "rewards": np.zeros(16, np.float32),
        "next_observations": numbers[1:].astype(float),
        "masks": np.ones(16, np.float32),
        "ends": np.arange(16) % 8 == 7,
    }
    return Dataset({**arrays, **others})


def with_memory(dataset):
    fields = {"minibatch_size": 8, "sequence_length": 4, "features": (4,), "memory": "gru"}
    return bc.BC(MatchSign(), None, bc.AgentConfig(n_steps=2, **fields), dataset=dataset)


def test_a_memory_learns_from_episodes_in_any_order():
    dataset, rows = ordered(), np.arange(16)
    for whole in (
        dataset,
        dataset.get_subset(slice(3, None)),
        dataset.get_subset(np.roll(rows, 8)),
        dataset.get_subset(rows > 2),
        Dataset({key: np.roll(x, 8, axis=0) for key, x in dataset.items()}),
    ):
        assert whole.in_order
        with_memory(whole)
        assert len(whole.n_step(2, 0.9)) == len(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.get_subset(np.arange(16) != 3), "of row 2 are not .* in 1 of 15 rows"),
        (lambda data: data.split(0.8)[0], r"'next_observations' of row"),
        (lambda data: data.normalise(["rewards"])[0].split(0.8)[0], "'next_observations' of row"),
        (
            lambda data: without_successors(data).split(0.8)[0],
            "split or get_subset removed or moved",
        ),
    ],
)
def test_a_memory_needs_rows_in_order(change, message):
    dataset = change(ordered())
    assert not dataset.in_order
    with pytest.raises(ValueError, match=rf"BC has a memory, .*{message}.* each episode together"):
        with_memory(dataset)


def without_successors(data):
    return Dataset({key: x for key, x in data.items() if key != "next_observations"})
