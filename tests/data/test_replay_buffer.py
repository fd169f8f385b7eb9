"""Replay buffers, against a list."""

import collections

import jax
import numpy as np
import pytest
import trees

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


@pytest.mark.parametrize("seed", range(2))
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
        assert len(buffer) == buffer.size == len(model)
    assert buffer.capacity == CAPACITY


@pytest.mark.parametrize("n", [3, 12])
def test_samples_all_that_it_holds_and_nothing_else(n):
    batch = filled(n).sample(2000)
    assert set(batch["actions"].tolist()) == set(range(max(0, n - CAPACITY), n))
    np.testing.assert_array_equal(batch["observations"]["x"], batch["actions"])
    assert batch["observations"]["image"].dtype == np.uint8
    assert batch["observations"]["image"].shape == (2000, 2, 2)
    one, many = filled(n, seed=1), filled(n, seed=1)
    batches = many.sample_many(3, 4)
    for i in range(3):
        trees.assert_equal(jax.tree.map(lambda x, i=i: x[i], batches), one.sample(4))


def test_what_it_gives_are_copies():
    buffer = filled(CAPACITY)
    for batch in (buffer.sample(5), buffer.sample_many(2, 5), buffer.to_dataset()):
        batch["actions"][:] = -1
    assert_holds(buffer, range(CAPACITY))


def test_seeds_decide_the_samples_of_a_buffer_and_of_its_dataset():
    first = filled(5, seed=1).sample(20)["actions"]
    np.testing.assert_array_equal(first, filled(5, seed=1).sample(20)["actions"])
    assert (first != filled(5, seed=2).sample(20)["actions"]).any()
    for seed in (0, 4):
        expected = Dataset(transitions(range(5)), seed).sample(20)
        trees.assert_equal(filled(5, seed=1).to_dataset(seed).sample(20), expected)


def test_refuses_to_be_of_size_0_or_to_sample_when_empty():
    with pytest.raises(ValueError, match="size must be a positive integer, got 0"):
        empty(size=0)
    for draw in (lambda: empty().sample(1), lambda: empty().sample_many(1, 1)):
        with pytest.raises(ValueError, match="nothing to sample"):
            draw()


def test_starts_from_a_dataset():
    buffer = ReplayBuffer.create_from_initial_dataset(Dataset(transitions(range(4))), CAPACITY)
    assert_holds(buffer, range(4))
    buffer.add_transition(transition(4))
    assert_holds(buffer, range(5))
    ones, numbers = np.ones(4, np.float32), np.arange(4)
    steps = {"rewards": ones, "next_observations": numbers, "masks": ones, "ends": numbers > 4}
    view = Dataset(steps).n_step(2, 0.5)
    buffer = ReplayBuffer.create_from_initial_dataset(view, CAPACITY)
    trees.assert_equal({**buffer.to_dataset()}, {**view})
    no_rows = Dataset(transitions(range(4))).get_subset([])
    assert len(ReplayBuffer.create_from_initial_dataset(no_rows, CAPACITY)) == 0
    with pytest.raises(ValueError, match="4 rows, more than a size of 3"):
        ReplayBuffer.create_from_initial_dataset(Dataset(transitions(range(4))), 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"actions": np.zeros((3, 1), np.int32)},
            r"'actions' has shape \(3, 1\), but .* holds \(\)",
        ),
        ({"observations": {"image": np.zeros((2, 2), np.uint8)}}, "no 'observations/x'"),
        ({"observations": "text"}, "no 'observations/image'"),
        ({"actions": None}, "'actions'"),
        ({"actions": {"y": 1}}, "'actions'"),
        ({"actions": [[1], [1, 2]]}, "'actions' is not an array"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named_and_leaves_no_trace(wrong, message):
    n = 2 * CAPACITY + 3
    buffer = filled(n)
    with pytest.raises((ValueError, TypeError), match=message):
        buffer.add_transition(transition(0) | wrong)
    with pytest.raises((ValueError, TypeError)):
        buffer.add_transitions(transitions(range(3)) | wrong)
    with pytest.raises(ValueError, match="no 'observations/image'"):
        buffer.add_transition(None)
    assert_holds(buffer, range(n - CAPACITY, n))


def test_refuses_numbers_that_it_would_have_to_round():
    example = {"whole": np.int64(0), "real": np.float32(0.0), "flag": False}
    fine = {"whole": 3, "real": 0.5, "flag": np.True_}
    buffer = ReplayBuffer.create(example, 3)
    buffer.add_transition(fine)
    buffer.add_transition({"whole": np.uint8(4), "real": np.float64(1.5), "flag": True})
    buffer.add_transition({"whole": True, "real": 2, "flag": False})
    held = buffer.to_dataset()
    np.testing.assert_array_equal(held["whole"], [3, 4, 1])
    np.testing.assert_array_equal(held["real"], [0.5, 1.5, 2.0])
    np.testing.assert_array_equal(held["flag"], [True, True, False])
    for wrong, message in (
        ({"whole": 1.5}, "'whole' has type float64, .* int64, .*: make .* float64, or cast"),
        ({"real": 1j}, "'real' has type complex128, but the buffer holds float32"),
        ({"flag": 1}, "'flag' has type int64, but the buffer holds bool"),
    ):
        with pytest.raises(TypeError, match=message):
            buffer.add_transition(fine | wrong)


@pytest.mark.parametrize(("dtype", "value"), [("int8", 300), ("int8", -129), ("int32", 2**31)])
def test_refuses_whole_numbers_that_would_wrap_around(dtype, value):
    buffer = ReplayBuffer.create({"actions": np.zeros((), dtype)}, CAPACITY)
    fault = f"'actions' has the value {value}, but the buffer holds {dtype}, from -"
    for given in (value, np.int64(value)):
        with pytest.raises(ValueError, match=fault):
            buffer.add_transition({"actions": given})
    with pytest.raises(ValueError, match=fault):
        buffer.add_transitions({"actions": np.array([1, value])})
    limits = np.iinfo(dtype)
    buffer.add_transitions({"actions": np.array([limits.min, limits.max], np.int64)})
    buffer.add_transition({"actions": np.uint64(limits.max)})
    assert list(buffer.to_dataset()["actions"]) == [limits.min, limits.max, limits.max]


def test_rows_of_environments_that_come_in_turns_are_told_apart():
    example = {"x": np.int32(0), "ends": np.False_, "environments": np.int32(0)}
    buffer, numbers = ReplayBuffer.create(example, 6), [0, 1, 0, 2, 1, 0, 0, 2]
    for x, number in enumerate(numbers):
        buffer.add_transition({"x": x, "ends": False, "environments": number})
    dataset = buffer.to_dataset()
    np.testing.assert_array_equal(dataset["x"], [2, 5, 6, 4, 3, 7])
    np.testing.assert_array_equal(dataset["ends"], [0, 0, 1, 1, 0, 1])


def test_the_newest_rows_of_environments_can_be_ended():
    example = {"x": np.int32(0), "ends": np.False_, "environments": np.int32(0)}
    for chosen, ended in (([1, 5], [4, 5, 3]), (None, [2, 4, 5, 3])):
        buffer = ReplayBuffer.create(example, 6)
        for x, number in enumerate([0, 1, 0, 2, 1, 0]):
            if x == 5:
                buffer.end_episodes(chosen)
            buffer.add_transition({"x": x, "ends": False, "environments": number})
        buffer.add_transition({"x": 6, "ends": False, "environments": 1})
        dataset = buffer.to_dataset()
        assert set(dataset["x"][dataset["ends"]]) == {*ended, 6}
    alone = ReplayBuffer.create({"ends": np.False_}, 3)
    alone.add_transitions({"ends": np.zeros(4, bool)})
    alone.end_episodes()
    np.testing.assert_array_equal(alone.to_dataset()["ends"], [0, 0, 1])
