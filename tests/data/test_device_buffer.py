"""Replay buffers on the device against lists, and grouped buffers against one buffer per group."""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxagents.data import DeviceBuffer, importance_weights, priorities

SIZES = [(7, 1), (12, 3)]
"""Capacities with numbers of environments."""
GAMMA = 0.9
N_GROUPS = 3

examples = settings(deadline=None, max_examples=12, derandomize=True, database=None)
add = jax.jit(DeviceBuffer.add)
sample = jax.jit(DeviceBuffer.sample, static_argnums=2)
n_step = jax.jit(DeviceBuffer.n_step, static_argnums=2)
sequences = jax.jit(DeviceBuffer.sequences, static_argnums=2)
sample_sequences = jax.jit(DeviceBuffer.sample_sequences, static_argnums=(2, 3))
sample_prioritised = jax.jit(DeviceBuffer.sample_prioritised, static_argnums=2)
with_priorities = jax.jit(DeviceBuffer.with_priorities)


def transition(number=0, reward=0.0, mask=1.0, end=False):
    return {
        "observations": {"image": np.full((2, 2), number % 256, np.uint8), "x": np.float32(number)},
        "actions": np.int32(number),
        "rewards": np.float32(reward),
        "next_observations": {
            "image": np.full((2, 2), (number + 1) % 256, np.uint8),
            "x": np.float32(number + 0.5),
        },
        "masks": np.float32(mask),
        "ends": np.bool_(end),
    }


def stacked(transitions):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *transitions)


def random_transitions(rng, time, n_envs):
    terminated, truncated = rng.random((2, n_envs)) < 0.2
    return [
        transition(
            time * n_envs + env, rng.normal(), not terminated[env], terminated[env] | truncated[env]
        )
        for env in range(n_envs)
    ]


def filled(capacity, n_envs, n_adds, seed=0, prioritised=False):
    """A buffer, and the transitions that it should hold, in a list of each environment."""
    rng = np.random.default_rng(seed)
    buffer = DeviceBuffer.create(transition(), capacity, n_envs, prioritised)
    model = [[] for _ in range(n_envs)]
    for time in range(n_adds):
        new = random_transitions(rng, time, n_envs)
        buffer = add(buffer, stacked(new))
        for env in range(n_envs):
            model[env] = [*model[env], new[env]][-(capacity // n_envs) :]
    return buffer, model


def numbered(model):
    return {int(row["actions"]): row for rows in model for row in rows}


def plain_n_step(rows, start, n):
    """The transition over up to `n` steps from a place in an environment's list."""
    steps = rows[start : start + n]
    n_taken = next((m for m, row in enumerate(steps, 1) if row["ends"]), len(steps))
    last = steps[n_taken - 1]
    return rows[start] | {
        "rewards": np.float32(
            sum(GAMMA**k * row["rewards"] for k, row in enumerate(steps[:n_taken]))
        ),
        "next_observations": last["next_observations"],
        "masks": last["masks"],
        "ends": last["ends"],
        "discounts": np.float32(GAMMA**n_taken),
    }


@given(st.sampled_from(SIZES), st.integers(0, 25), st.integers(0, 99))
@examples
def test_holds_and_samples_the_most_recent_of_each_environment(size, n_adds, seed):
    buffer, model = filled(*size, n_adds, seed)
    held, rows = list(itertools.chain(*model)), numbered(model)
    assert buffer.size == len(held) == len(buffer.to_dataset())
    if not held:
        return
    expected, n_times = stacked(held), len(model[0])
    expected["ends"][n_times - 1 :: n_times] = True
    trees.assert_equal({**buffer.to_dataset()}, expected)
    kept = jax.tree.map(lambda x: np.asarray(x)[: int(buffer.size)], buffer.storage)
    assert sorted(kept["actions"].tolist()) == sorted(rows)
    for batch in (kept, sample(buffer, jax.random.key(seed), 64)):
        trees.assert_equal(batch, stacked(rows[i] for i in batch["actions"].tolist()))


@given(st.sampled_from(SIZES), st.integers(1, 25), st.sampled_from([1, 3]), st.integers(0, 99))
@examples
def test_n_steps_are_those_of_a_list(size, n_adds, n, seed):
    buffer, model = filled(*size, n_adds, seed)
    steps = n_step(buffer, np.arange(buffer.capacity), n, GAMMA)
    expected = {
        int(rows[start]["actions"]): plain_n_step(rows, start, n)
        for rows in model
        for start in range(len(rows))
    }
    held = jax.tree.map(lambda x: np.asarray(x)[: int(buffer.size)], steps)
    trees.assert_close(held, stacked(expected[i] for i in held["actions"].tolist()))
    assert held["observations"]["image"].dtype == np.uint8


@pytest.mark.parametrize("n_adds", [3, 9])
def test_samples_rows_and_sequences_of_each_environment_uniformly(n_adds):
    length, (buffer, model) = 3, filled(12, 3, n_adds)
    indices = sample_sequences(buffer, jax.random.key(0), 20_000, length)
    numbers = np.asarray(buffer.storage["actions"])[indices]
    steps, held = 3 * np.arange(length), numbered(model)
    np.testing.assert_array_equal(numbers, numbers[:, :1] + steps)
    rows = np.asarray(sample(buffer, jax.random.key(0), 20_000)["actions"])
    first = {i for i in held if i + steps[-1] in held}
    for drawn, expected in ((rows, set(held)), (numbers[:, 0], first)):
        found, counts = np.unique(drawn, return_counts=True)
        assert set(found.tolist()) == expected
        assert stats.chisquare(counts).pvalue > 1e-3


# Priorities.


def assert_consistent(tree):
    """Every node is the sum of its children."""
    for children, parents in itertools.pairwise(tree.levels):
        sums = np.asarray(children).reshape(-1, priorities.FAN_OUT).sum(axis=-1)
        np.testing.assert_allclose(parents[: len(sums)], sums, rtol=1e-6)
        assert not parents[len(sums) :].any()


def known_priorities(buffer):
    return np.asarray(buffer.priorities.levels[0])[: buffer.capacity]


@given(
    st.sampled_from([(7, 1), (700, 35)]),
    st.lists(st.sampled_from(["add", "set"]), min_size=1, max_size=30),
    st.integers(0, 99),
)
@examples
def test_priorities_are_those_that_were_given(size, actions, seed):
    rng = np.random.default_rng(seed)
    capacity, n_envs = size
    buffer, _ = filled(*size, 1, prioritised=True)
    model, n_added, largest = np.zeros(capacity, np.float32), n_envs, 1.0
    model[:n_envs] = 1.0
    for action in actions:
        if action == "add":
            buffer = add(buffer, stacked([transition()] * n_envs))
            start = n_added % capacity
            model[start : start + n_envs] = largest
            n_added += n_envs
        else:
            indices = rng.integers(min(n_added, capacity), size=16)
            scale = rng.choice([0.1, 1.0, 10.0])
            given_priorities = (scale * rng.choice([0.0, 0.3, 0.7], 16)).astype(np.float32)
            buffer = with_priorities(buffer, indices, given_priorities)
            found = known_priorities(buffer)
            for i in set(indices.tolist()):
                assert found[i] in given_priorities[indices == i]
            model[indices] = found[indices]
            largest = max(largest, given_priorities.max())
        np.testing.assert_array_equal(known_priorities(buffer), model)
        assert_consistent(buffer.priorities)
        if model.any():
            drawn, probabilities = sample_prioritised(buffer, jax.random.key(seed), 64)
            assert (model[drawn] > 0.0).all()
            np.testing.assert_allclose(probabilities, model[drawn] / model.sum(), rtol=1e-5)


def test_only_first_rows_of_whole_sequences_have_a_priority():
    capacity, n_envs, length = 24, 4, 3
    buffer = DeviceBuffer.create(transition(), capacity, n_envs, True, length)
    times = np.full(capacity, -1)
    for time in range(2 * capacity // n_envs + 2):
        buffer = add(buffer, stacked([transition()] * n_envs))
        start = time * n_envs % capacity
        times[start : start + n_envs] = time
        starts = (times >= 0) & (times <= time - length + 1)
        np.testing.assert_array_equal(known_priorities(buffer) > 0.0, starts)
        assert_consistent(buffer.priorities)
        if starts.any():
            drawn, _ = sample_prioritised(buffer, jax.random.key(time), 32)
            drawn = np.asarray(drawn)
            rows = np.asarray(sequences(buffer, drawn, length))
            np.testing.assert_array_equal(np.diff(times[rows], axis=1), 1)
            np.testing.assert_array_equal(rows % n_envs, np.tile(drawn[:, None] % n_envs, length))
            given = with_priorities(buffer, drawn, np.full(32, 5.0, np.float32))
            assert set(np.flatnonzero(known_priorities(given) == 5.0)) <= set(
                np.flatnonzero(starts)
            )
    buffer = add(
        with_priorities(buffer, np.array([capacity - 1]), np.array([7.0], np.float32)),
        stacked([transition()] * n_envs),
    )
    assert known_priorities(buffer).max() == 7.0


def test_draws_in_proportion_to_priorities():
    capacity, rng = 5000, np.random.default_rng(0)
    buffer = DeviceBuffer.create({"x": np.float32(0.0)}, capacity, capacity, prioritised=True)
    buffer = add(buffer, {"x": np.arange(capacity, dtype=np.float32)})
    given_priorities = np.exp(3.0 * rng.normal(size=capacity)).astype(np.float32)
    given_priorities[rng.integers(capacity, size=capacity // 5)] = 0.0
    buffer = with_priorities(buffer, np.arange(capacity), given_priorities)
    indices, _ = sample_prioritised(buffer, jax.random.key(1), 100_000)
    expected = 100_000 * given_priorities.astype(float) / given_priorities.sum(dtype=float)
    counts = np.bincount(indices, minlength=capacity)
    rare = expected < 10.0
    assert not counts[given_priorities == 0.0].any()
    grouped = [np.append(x[~rare], x[rare].sum()) for x in (counts, expected)]
    kept = grouped[1] > 0.0
    assert stats.chisquare(grouped[0][kept], grouped[1][kept]).pvalue > 1e-3


def test_extreme_priorities_draw_rows_that_have_one():
    empty = filled(700, 35, 2, prioritised=True)[0]  # 70 rows are held
    for seed in range(20):
        rng = np.random.default_rng(seed)
        some = rng.choice([1e-37, 1e-20, 1e-3, 1.0, 3e7, 1e30, 3e38, np.inf, np.nan, -1.0], 3)
        values = rng.choice([0.0, *some], 70).astype(np.float32)
        values[seed] = 1.0
        buffer = with_priorities(empty, np.arange(70), values)
        indices, probabilities = sample_prioritised(buffer, jax.random.key(seed), 64)
        assert np.isfinite(buffer.priorities.levels[-1]).all()
        assert (known_priorities(buffer)[indices] > 0.0).all()
        assert ((probabilities > 0.0) & (probabilities <= 1.0)).all()
    for value in (0.0, 1e-42, np.nan):
        buffer = with_priorities(empty, np.arange(70), np.full(70, value, np.float32))
        indices, _ = sample_prioritised(buffer, jax.random.key(0), 64)
        assert (indices < (70 if value else 1)).all()
        assert buffer.priorities.largest == 1.0


def test_importance_weights_are_those_of_the_paper():
    probabilities = jnp.array([0.1, 0.4, 0.2])
    for exponent in (0.0, 0.5, 1.0):
        weights = (20 * np.asarray(probabilities)) ** -exponent
        found = importance_weights(probabilities, exponent)
        np.testing.assert_allclose(found, weights / weights.max(), rtol=1e-6)


# In compiled loops.


def create():
    return DeviceBuffer.create(transition(), 20_000, 4, prioritised=True)


def loop(buffer, key, n_iterations=25, batch_size=32):
    """Adds what depends on earlier batches, and gives the last state of everything."""

    def iterate(i, carry):
        buffer, key, total = carry
        key, key_sample = jax.random.split(key)
        new = jax.tree.map(lambda x: jnp.full((buffer.n_envs, *x.shape), i, x.dtype), transition())
        buffer = buffer.add(new | {"rewards": jnp.full(buffer.n_envs, total)})
        indices, probabilities = buffer.sample_prioritised(key_sample, batch_size)
        batch = buffer.n_step(indices, 3, GAMMA)
        buffer = buffer.with_priorities(indices, jnp.abs(batch["actions"] % 7.0))
        return buffer, key, total / 2.0 + probabilities.sum() + batch["actions"].mean()

    return jax.lax.fori_loop(0, n_iterations, iterate, (buffer, key, jnp.float32(0.0)))


@pytest.mark.optimised
@pytest.mark.slow  # programs that are compiled as for users
def test_a_loop_writes_in_place_also_in_a_vmap_whose_members_are_as_one_alone():
    keys, outcomes = jax.random.split(jax.random.key(0), 2), []
    several = jax.tree.map(lambda x: jnp.stack([x] * 2), create())
    for run, buffer, key in ((loop, create(), keys[0]), (jax.vmap(loop), several, keys)):
        n_bytes = sum(x.nbytes for x in jax.tree.leaves(buffer))
        compiled = jax.jit(run, donate_argnums=0).lower(buffer, key).compile()
        memory = compiled.memory_analysis()
        assert memory.alias_size_in_bytes >= n_bytes
        assert memory.temp_size_in_bytes < 0.05 * n_bytes
        storage = buffer.storage["actions"]
        outcomes.append(compiled(buffer, key))
        assert storage.is_deleted()
        assert (outcomes[-1][0].size == 100).all()
    alone, together = outcomes
    trees.assert_close(jax.tree.map(lambda x: x[0], together), alone)


# What it is given.


def test_keeps_types():
    example = {
        "image": np.zeros((2, 2), np.uint8),
        "half": jnp.zeros(3, jnp.bfloat16),
        "flag": False,
        "number": 1,
        "real": 1.0,
    }
    buffer = DeviceBuffer.create(example, 4, 2)
    types = {"image": jnp.uint8, "half": jnp.bfloat16, "flag": bool, "number": jnp.int32}
    types |= {"real": jnp.float32}
    new = {k: np.ones((2, *np.shape(v)), types[k]) for k, v in example.items()}
    buffer = add(buffer, new)
    for arrays in (buffer.storage, sample(buffer, jax.random.key(0), 3), buffer.to_dataset()):
        assert {name: arrays[name].dtype for name in arrays} == types
    mixed = {"number": np.ones(2, np.uint8), "real": np.ones(2), "half": np.ones((2, 3))}
    assert {k: v.dtype for k, v in add(buffer, new | mixed).storage.items()} == types


def test_its_dataset_has_the_parts_of_tuples_and_dataclasses_by_name():
    class Pair(NamedTuple):
        first: np.ndarray
        second: np.ndarray

    def row(number):
        return np.full(3, number, "f"), np.full(2, -number, "f")

    numbers = np.arange(2, dtype=np.float32)
    example = {"carries": row(0.0), "observations": {"pair": Pair(*row(0.0))}, "rewards": 0.0}
    buffer = DeviceBuffer.create(example, 8, 2)
    for time in range(3):
        first, second = map(np.stack, zip(*map(row, 2 * time + numbers), strict=True))
        pair = {"pair": Pair(first, second)}
        new = {"carries": (first, second), "observations": pair, "rewards": 2 * time + numbers}
        buffer = add(buffer, new)
    rewards = np.array([0.0, 2.0, 4.0, 1.0, 3.0, 5.0], np.float32)
    first, second = np.repeat(rewards[:, None], 3, 1), np.repeat(-rewards[:, None], 2, 1)
    expected = {
        "carries": {"0": first, "1": second},
        "observations": {"pair": {"first": first, "second": second}},
        "rewards": rewards,
    }
    trees.assert_equal({**buffer.to_dataset()}, expected)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 3), "capacity must be a positive integer, got 0"),
        ((20, 4, True, 6), "prioritised_length must lie in 1..5.*got 6"),
        ((24, 6, True, 1, 4), r"n_groups must divide n_envs: 6 is not a multiple of 4"),
    ],
)
def test_refuses_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(ValueError, match=message):
        DeviceBuffer.create(transition(), *sizes)
    shapes = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, transition()))
    buffer = DeviceBuffer.create(shapes, np.int64(6), np.int32(2))
    trees.assert_equal(buffer, DeviceBuffer.create(transition(), 6, 2))


def test_names_what_does_not_fit():
    alone, grouped = (DeviceBuffer.create(transition(), 24, 6, n_groups=n) for n in (1, N_GROUPS))
    new, rows = stacked([transition()] * 6), np.arange(3)
    lacking = {key: value for key, value in new.items() if key != "actions"}
    with pytest.raises(ValueError, match=r"transitions have .* but the buffer holds \['actions'"):
        alone.add(lacking)
    with pytest.raises(
        ValueError, match=r"'actions' has shape \(6, 1\), but the buffer needs \(6,\)"
    ):
        alone.add(new | {"actions": np.zeros((6, 1), np.int32)})
    with pytest.raises(TypeError, match="'actions' has type float32, but the buffer holds int32"):
        alone.add(new | {"actions": np.zeros(6, np.float32)})
    with pytest.raises(ValueError, match="n must be a positive integer, got 0"):
        alone.n_step(rows, 0, GAMMA)
    with pytest.raises(KeyError, match=r"n_step needs .*, but the buffer lacks .* has \['x'\]"):
        DeviceBuffer.create({"x": 0.0}, 3).n_step(rows, 2, GAMMA)
    with pytest.raises(ValueError, match="create it with prioritised=True"):
        alone.with_priorities(rows, np.ones(3))
    with pytest.raises(ValueError, match=r"must be a multiple .*got 5; 3 or 6 would do"):
        grouped.add(jax.tree.map(lambda x: x[:5], new))
    with pytest.raises(ValueError, match="multiple of the 3 groups, got 10; 9 or 12 would do"):
        grouped.sample_indices(jax.random.key(0), 10)
    with pytest.raises(ValueError, match="no priorities"):
        grouped.sample_prioritised(jax.random.key(0), 12)
    with pytest.raises(ValueError, match="'rewards' has shape"):
        grouped.add({**new, "rewards": np.zeros(3, np.float32)})


def test_one_of_several_becomes_a_dataset():
    buffers = jax.tree.map(lambda x: np.stack([x] * 2), filled(7, 1, 9)[0])
    with pytest.raises(ValueError, match=r"buffers of shape \(2,\); use one at a time"):
        buffers.to_dataset()
    assert len(jax.tree.map(lambda x: x[1], buffers).to_dataset()) == 7


# Of several groups, against a buffer of each.


def of_group(batch, group):
    return jax.tree.map(lambda x: x.reshape(N_GROUPS, -1, *x.shape[1:])[group], batch)


def of_groups(n_adds, prioritised=False):
    """A buffer of several groups, and one of each group."""
    sizes, rng = (24 // N_GROUPS, 6 // N_GROUPS, prioritised), np.random.default_rng(n_adds)
    grouped = DeviceBuffer.create(transition(), 24, 6, prioritised, n_groups=N_GROUPS)
    single = [DeviceBuffer.create(transition(), *sizes) for _ in range(N_GROUPS)]
    for time in range(n_adds):
        new = stacked(random_transitions(rng, time, 6))
        grouped = add(grouped, new)
        single = [add(x, of_group(new, i)) for i, x in enumerate(single)]
    return grouped, single


def joined(batches):
    return jax.tree.map(lambda *x: np.concatenate(x), *batches)


@functools.partial(jax.jit, static_argnums=(2, 3))
def drawn_of(buffer, key, batch_size, n_sequences):
    """All samples from a buffer: the row numbers and the rows."""
    indices = buffer.sample_indices(key, batch_size)
    sequences = buffer.sample_sequences(key, n_sequences, 2)
    rows = (buffer.take(indices), buffer.take(sequences), buffer.sample(key, batch_size))
    return (indices, sequences), rows, buffer.n_step(indices, 3, GAMMA)


def test_groups_hold_what_buffers_of_each_do_and_give_their_parts_of_a_batch():
    grouped, single = of_groups(9)
    trees.assert_equal(grouped.storage, stacked([x.storage for x in single]))
    assert grouped.size == single[0].size
    trees.assert_equal({**grouped.to_dataset()}, joined([{**x.to_dataset()} for x in single]))
    keys = jax.random.split(jax.random.key(0), N_GROUPS)
    alone = [drawn_of(x, key, 4, 2) for x, key in zip(single, keys, strict=True)]
    indices, rows, steps = zip(*alone, strict=True)
    found = drawn_of(grouped, jax.random.key(0), 12, 6)
    trees.assert_equal(found[0], stacked(indices))
    trees.assert_equal(found[1], joined(rows))
    trees.assert_close(found[2], joined(steps))


def test_priorities_are_of_each_group():
    grouped, single = of_groups(9, prioritised=True)
    indices, given = np.tile(np.arange(8), (N_GROUPS, 1)), np.arange(24, dtype=np.float32)
    new = stacked(random_transitions(np.random.default_rng(0), 9, 6))
    grouped = add(with_priorities(grouped, indices, given), new)
    drawn, probabilities = sample_prioritised(grouped, jax.random.key(0), 300)
    assert drawn.shape == (N_GROUPS, 100)
    for i, key in enumerate(jax.random.split(jax.random.key(0), N_GROUPS)):
        alone = with_priorities(single[i], indices[i], of_group(given, i))
        alone = add(alone, of_group(new, i))
        expected, within = sample_prioritised(alone, key, 100)
        np.testing.assert_array_equal(drawn[i], expected)
        np.testing.assert_allclose(of_group(probabilities, i), within / N_GROUPS, rtol=1e-6)
        trees.assert_equal(jax.tree.map(lambda x, i=i: x[i], grouped.priorities), alone.priorities)
