"""Replay buffers, against a list."""

import collections
import functools
import tracemalloc

import jax
import numpy as np
import pytest
import trees

from jaxagents.data import Dataset, DeviceBuffer, ReplayBuffer

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


@pytest.mark.parametrize("n_held", [0, 4, 3 * CAPACITY + 2])
def test_gives_the_newest_oldest_first(n_held):
    buffer = filled(n_held)
    for n in range(min(n_held, CAPACITY) + 1):
        np.testing.assert_array_equal(buffer.last(n)["actions"], range(n_held - n, n_held))
    for n in (-1, len(buffer) + 1):
        with pytest.raises(ValueError, match=rf"n must lie in \[0, {len(buffer)}\], .* got {n}"):
            buffer.last(n)


def test_what_it_gives_are_copies():
    buffer = filled(CAPACITY)
    for batch in (buffer.sample(5), buffer.sample_many(2, 5), buffer.last(5), buffer.to_dataset()):
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
    with pytest.raises(ValueError, match="size must be positive, got 0"):
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


@pytest.mark.parametrize("n_before", [0, 2000])
def test_takes_no_more_memory_than_it_holds_to_start_from_a_dataset(n_before):
    data = {"x": np.ones((3000, 100), np.float32)}
    before = {"x": np.ones((n_before, 100), np.float32)}
    tracemalloc.start()
    buffer = ReplayBuffer.create_from_initial_dataset(before, 3000)
    buffer.add_transitions(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.1 * data["x"].nbytes


def test_its_own_memory_may_be_added_to_it():
    buffer = ReplayBuffer.create({"x": np.int64(0)}, 5)
    buffer.add_transitions({"x": np.arange(7)})
    buffer.add_transitions(buffer.state_dict()["transitions"])
    np.testing.assert_array_equal(buffer.last(5)["x"], [5, 6, 2, 3, 4])


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
        ({"actions": [[1], [1, 2]]}, "'actions' is no array"),
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


# Beside a buffer on the device.


def steps_of_all(rng, n_envs):
    """One transition of each environment."""
    terminated, truncated = rng.random((2, n_envs)) < 0.2
    observations = rng.normal(size=(2, n_envs, 3)).astype(np.float32)
    return {
        "observations": {"x": observations[0]},
        "actions": rng.integers(9, size=n_envs, dtype=np.int32),
        "rewards": rng.normal(size=n_envs).astype(np.float32),
        "next_observations": {"x": observations[1]},
        "masks": np.float32(~terminated),
        "ends": terminated | truncated,
    }


@functools.cache
def on_device(method, *static):
    return jax.jit(getattr(DeviceBuffer, method), static_argnums=static)


def both(n_adds, prioritised=False, length=1):
    """A buffer on the host and one on the device, with the same transitions."""
    rng, capacity, n_envs = np.random.default_rng(n_adds), 24, 4
    example = jax.tree.map(lambda x: x[0], steps_of_all(rng, n_envs))
    host = ReplayBuffer.create(example, capacity, 0, n_envs, prioritised, length)
    device = DeviceBuffer.create(example, capacity, n_envs, prioritised, length)
    for _ in range(n_adds):
        new = steps_of_all(rng, n_envs)
        host, device = host.add(new), on_device("add")(device, new)
    return host, device


@pytest.mark.parametrize("n_adds", [3, 31])
def test_gives_the_rows_that_a_buffer_on_the_device_does(n_adds):
    host, device = both(n_adds)
    assert (host.size, host.capacity, host.n_envs) == (device.size, device.capacity, 4)
    key = jax.random.key(0)
    indices, sequences = host.sample_indices(key, 50), host.sample_sequences(key, 20, 3)
    np.testing.assert_array_equal(indices, on_device("sample_indices", 2)(device, key, 50))
    expected = on_device("sample_sequences", 2, 3)(device, key, 20, 3)
    np.testing.assert_array_equal(sequences, expected)
    np.testing.assert_array_equal(sequences, host.sequences(sequences[:, 0], 3))
    for rows in (indices, sequences):
        trees.assert_equal(host.take(rows), device.take(rows))
    for rows in (indices, sequences):
        expected = on_device("n_step", 2)(device, rows, 3, 0.9)
        trees.assert_close(host.n_step(rows, 3, 0.9), expected)
    trees.assert_equal({**host.to_dataset()}, {**device.to_dataset()})
    host.end_episodes([1, 3])
    device = on_device("end_episodes")(device, np.isin(np.arange(4), [1, 3]))
    trees.assert_equal(host.take(np.arange(host.size))["ends"], device.storage["ends"][: host.size])


def test_draws_by_priority_as_a_buffer_on_the_device(tmp_path):
    host, device = both(5, prioritised=True, length=3)
    rng, key, n_adds = np.random.default_rng(0), jax.random.key(0), 9
    for i in range(n_adds):
        drawn, probabilities = host.sample_prioritised(key, 8)
        found, expected = on_device("sample_prioritised", 2)(device, key, 8)
        np.testing.assert_array_equal(drawn, found)
        np.testing.assert_array_equal(probabilities, expected)
        priorities, new = rng.random(8).astype(np.float32), steps_of_all(rng, 4)
        host = host.with_priorities(drawn, priorities).add(new)
        device = on_device("with_priorities")(device, drawn, priorities)
        device = on_device("add")(device, new)
        if i == n_adds // 2:
            host.save(tmp_path / "buffer.npz")
            host = ReplayBuffer.load(tmp_path / "buffer.npz")
    other = both(0, prioritised=True)[0]
    with pytest.raises(ValueError, match="prioritised_length is 3 in it, and 1 in this one"):
        other.load_state_dict(host.state_dict())
    with pytest.raises(ValueError, match="create it with prioritised=True"):
        both(1)[0].sample_prioritised(key, 8)


def test_rows_of_environments_that_come_in_turns_are_told_apart():
    example = {"x": np.int32(0), "ends": np.False_, "environments": np.int32(0)}
    buffer, numbers = ReplayBuffer.create(example, 6), [0, 1, 0, 2, 1, 0, 0, 2]
    for x, number in enumerate(numbers):
        buffer.add_transition({"x": x, "ends": False, "environments": number})
    buffer.end_episodes([1, 5])
    held = buffer.last(6)
    np.testing.assert_array_equal(held["x"][held["ends"]], [4])
    dataset = buffer.to_dataset()
    np.testing.assert_array_equal(dataset["x"], [2, 5, 6, 4, 3, 7])
    np.testing.assert_array_equal(dataset["ends"], [0, 0, 1, 1, 0, 1])
    buffer.end_episodes()
    held = buffer.last(6)
    np.testing.assert_array_equal(held["x"][held["ends"]], [4, 6, 7])


def test_says_which_rows_do_not_follow_each_other():
    rng = np.random.default_rng(0)
    host, new = both(3)[0], steps_of_all(rng, 4)
    with pytest.raises(ValueError, match=r"one transition of each of 4 environments at .* got 3"):
        host.add(jax.tree.map(lambda x: x[:3], new))
    with pytest.raises(ValueError, match=r"one transition of each of 4 environments at .* got 1"):
        host.add_transition(jax.tree.map(lambda x: x[0], new))
    with pytest.raises(ValueError, match=r"a positive multiple of n_envs \(4\), got 7"):
        ReplayBuffer.create(transition(0), CAPACITY, n_envs=4)
    in_turns = ReplayBuffer.create({**transition(0), "environments": np.int32(0)}, CAPACITY)
    for ask in (
        lambda: in_turns.sample_sequences(jax.random.key(0), 2, 2),
        lambda: in_turns.n_step(np.arange(2), 2, 0.9),
    ):
        with pytest.raises(ValueError, match="create it with n_envs"):
            ask()
    with pytest.raises(ValueError, match="n must be positive, got 0"):
        host.n_step(np.arange(2), 0, 0.9)
    with pytest.raises(KeyError, match=r"n_step needs 'rewards'; the buffer holds \['act"):
        empty().n_step(np.arange(2), 2, 0.9)


# Saving and loading.


def by_state(buffer, path):
    state = buffer.state_dict()
    other = empty(seed=9)
    transitions = jax.tree.map(np.copy, state["transitions"])
    other.load_state_dict({**state, "transitions": transitions})
    return other


def by_file(buffer, path):
    buffer.save(path)
    return ReplayBuffer.load(path)


@pytest.mark.parametrize("n", [0, 4, 20])
@pytest.mark.parametrize(
    ("restored", "name"), [(by_state, ""), (by_file, "buffer.npz"), (by_file, "buffer.h5")]
)
def test_goes_on_from_a_saved_state(n, restored, name, tmp_path):
    buffer = filled(n, seed=3)
    if n:
        buffer.sample(3)
    other = restored(buffer, tmp_path / name)
    assert other.capacity == CAPACITY
    for i in range(n, n + CAPACITY + 2):
        for each in (buffer, other):
            each.add_transition(transition(i))
        assert_holds(other, range(max(0, i + 1 - CAPACITY), i + 1))
        trees.assert_equal(buffer.sample(9), other.sample(9))


def test_a_file_holds_what_was_added_only(tmp_path):
    path = tmp_path / "buffer.npz"
    filled(2, size=10**6).save(path)
    assert path.stat().st_size < 10_000
    with pytest.raises(FileExistsError):
        filled(2).save(path)
    other = tmp_path / "data.npz"
    filled(2).to_dataset().save(other)
    with pytest.raises(ValueError, match=r"no file of a replay buffer; it holds \['actions'"):
        ReplayBuffer.load(other)


@pytest.mark.parametrize(
    ("example", "size", "message"),
    [
        (transition(0), 5, "capacity is 7 in it, and 5 in this one"),
        ({"rewards": np.float32(0.0)}, CAPACITY, r"'rewards' is None in it, and float32\[2\] in"),
    ],
)
def test_refuses_a_state_of_another_capacity_or_structure(example, size, message):
    other = ReplayBuffer.create(example, size)
    with pytest.raises(ValueError, match=f"The state is of another buffer: {message}"):
        other.load_state_dict(filled(2).state_dict())
    assert len(other) == 0
