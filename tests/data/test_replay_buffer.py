"""Replay buffers, against a list."""

import collections

import jax
import numpy as np
import pytest

from jaxagents.data import Dataset, ReplayBuffer

CAPACITY = 7


def transition(i):
    image = np.full((2, 2), i % 256, np.uint8)
    return {"observations": {"image": image, "x": np.float32(i)}, "actions": np.int32(i)}


def transitions(numbers):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *map(transition, numbers))


def empty(seed=0, size=CAPACITY):
    return ReplayBuffer.create(transition(0), size, seed)


def filled(n, **kwargs):
    buffer = empty(**kwargs)
    for i in range(n):
        buffer.add_transition(transition(i))
    return buffer


def assert_holds(buffer, numbers):
    held = buffer.to_dataset()
    jax.tree.map(np.testing.assert_array_equal, {**held}, transitions(numbers))


@pytest.mark.parametrize("n", [1, CAPACITY - 1, CAPACITY, CAPACITY + 1, 3 * CAPACITY, 50])
def test_holds_the_most_recent(n):
    buffer = filled(n)
    assert len(buffer) == buffer.size == min(n, CAPACITY)
    assert buffer.capacity == CAPACITY
    assert_holds(buffer, range(max(0, n - CAPACITY), n))


@pytest.mark.parametrize("seed", range(5))
def test_one_or_many_added_in_any_order_are_those_of_a_bounded_list(seed):
    rng = np.random.default_rng(seed)
    buffer, model, n = empty(), collections.deque(maxlen=CAPACITY), 0
    for _ in range(30):
        n_new = int(rng.integers(1, 2 * CAPACITY + 2))
        numbers = range(n, n + n_new)
        if rng.random() < 0.5:
            buffer.add_transitions(transitions(numbers))
        else:
            for i in numbers:
                buffer.add_transition(transition(i))
        model.extend(numbers)
        n += n_new
        assert_holds(buffer, model)


@pytest.mark.parametrize("n", [3, 12])
def test_samples_all_that_it_holds_and_nothing_else(n):
    batch = filled(n).sample(2000)
    assert set(batch["actions"].tolist()) == set(range(max(0, n - CAPACITY), n))
    np.testing.assert_array_equal(batch["observations"]["x"], batch["actions"])
    assert batch["observations"]["image"].dtype == np.uint8
    assert batch["observations"]["image"].shape == (2000, 2, 2)


def test_the_seed_decides_the_samples():
    first = filled(5, seed=1).sample(20)["actions"]
    np.testing.assert_array_equal(first, filled(5, seed=1).sample(20)["actions"])
    assert (first != filled(5, seed=2).sample(20)["actions"]).any()


def test_samples_given_rows():
    np.testing.assert_array_equal(filled(3).sample(2, indx=[2, 0])["actions"], [2, 0])
    with pytest.raises(IndexError, match=r"must lie in \[0, 3\)"):
        filled(3).sample(1, indx=[3])


def test_refuses_to_sample_when_empty():
    with pytest.raises(ValueError, match="nothing to sample"):
        empty().sample(1)


def test_starts_from_a_dataset():
    buffer = ReplayBuffer.create_from_initial_dataset(Dataset(transitions(range(4))), CAPACITY)
    assert_holds(buffer, range(4))
    buffer.add_transition(transition(4))
    assert_holds(buffer, range(5))
    with pytest.raises(ValueError, match="4 rows, more than a size of 3"):
        ReplayBuffer.create_from_initial_dataset(Dataset(transitions(range(4))), 3)


def test_names_what_does_not_fit():
    buffer = filled(2)
    misshapen = transition(0) | {"actions": np.zeros(3, np.int32)}
    with pytest.raises(ValueError, match=r"'actions' has shape \(3,\), but the buffer holds \(\)"):
        buffer.add_transition(misshapen)
    with pytest.raises(ValueError, match="no 'observations/x'"):
        buffer.add_transition(transition(0) | {"observations": {"image": np.zeros((2, 2))}})
    with pytest.raises(ValueError, match=r"no 'actions'"):
        buffer.add_transitions({"observations": transitions(range(2))["observations"]})
    many = transitions(range(3)) | {"actions": np.zeros((3, 1), np.int32)}
    with pytest.raises(ValueError, match=r"'actions' has shape \(1,\)"):
        buffer.add_transitions(many)
    with pytest.raises(ValueError, match="size must be positive, got 0"):
        empty(size=0)
    assert_holds(buffer, range(2))


def test_holds_no_more_memory_than_its_data():
    buffer = filled(3)
    per_transition = sum(leaf.nbytes for leaf in jax.tree.leaves(transition(0)))
    held = sum(array.nbytes for array in buffer.state_dict()["transitions"].values())
    assert held == 3 * per_transition


@pytest.mark.parametrize("n", [4, 20])
def test_goes_on_from_a_saved_state(n):
    buffer = filled(n)
    buffer.sample(3)
    state = jax.tree.map(np.copy, buffer.state_dict()["transitions"])
    state = buffer.state_dict() | {"transitions": state}
    other = empty(seed=9)
    other.load_state_dict(state)
    for both in (buffer, other):
        both.add_transition(transition(n))
    assert_holds(other, range(max(0, n + 1 - CAPACITY), n + 1))
    np.testing.assert_array_equal(buffer.sample(9)["actions"], other.sample(9)["actions"])


def test_refuses_a_state_of_another_capacity_or_structure():
    with pytest.raises(ValueError, match=r"where \(5, 2, 2\) would fit"):
        empty(size=5).load_state_dict(filled(7).state_dict())
    lone = ReplayBuffer.create({"rewards": np.float32(0.0)}, CAPACITY)
    with pytest.raises(ValueError, match="nothing for 'rewards'"):
        lone.load_state_dict(filled(2).state_dict())
