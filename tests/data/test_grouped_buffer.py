"""Replay buffers of several groups, against one of each."""

import functools

import jax
import numpy as np
import pytest
import trees

from jaxagents.data import DeviceBuffer

KEY = jax.random.key(0)
CAPACITY, N_ENVS, N_GROUPS = 24, 6, 3


def transitions(seed):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(4, N_ENVS)).astype(np.float32)
    return {
        "observations": {"x": numbers[0]},
        "next_observations": {"x": numbers[1]},
        "actions": rng.integers(9, size=(N_ENVS, 2)),
        "rewards": numbers[2],
        "masks": np.float32(numbers[3] > 0),
        "ends": numbers[3] < 0.2,
    }


def of_group(batch, group, n_groups=N_GROUPS):
    return jax.tree.map(lambda x: x.reshape(n_groups, -1, *x.shape[1:])[group], batch)


@functools.cache
def filled(n_adds, prioritised=False):
    """Grouped buffers, and one of each group."""
    example = jax.tree.map(lambda x: x[0], transitions(0))
    grouped = DeviceBuffer.create(example, CAPACITY, N_ENVS, prioritised, 1, N_GROUPS)
    sizes = (CAPACITY // N_GROUPS, N_ENVS // N_GROUPS)
    single = [DeviceBuffer.create(example, *sizes, prioritised) for _ in range(N_GROUPS)]
    for seed in range(n_adds):
        new = transitions(seed)
        grouped = add(grouped, new)
        single = [add(x, of_group(new, i)) for i, x in enumerate(single)]
    return grouped, single


def joined(batches):
    return jax.tree.map(lambda *x: np.concatenate(x), *batches)


def stacked(trees_of_groups):
    return jax.tree.map(lambda *x: np.stack(x), *trees_of_groups)


add = jax.jit(DeviceBuffer.add)
with_priorities = jax.jit(DeviceBuffer.with_priorities)


@pytest.mark.parametrize("n_adds", [0, 3, 9])
def test_holds_what_buffers_of_each_group_do(n_adds):
    grouped, single = filled(n_adds)
    trees.assert_equal(grouped.storage, stacked([x.storage for x in single]))
    assert grouped.size == single[0].size
    dataset = grouped.to_dataset()
    trees.assert_equal({**dataset}, joined([{**x.to_dataset()} for x in single]))


@functools.partial(jax.jit, static_argnums=(2, 3))
def drawn(buffer, key, batch_size, n_sequences):
    """Everything that is drawn of a buffer, with the rows of it."""
    indices = buffer.sample_indices(key, batch_size)
    sequences = buffer.sample_sequences(key, n_sequences, 2)
    return {
        "indices": indices,
        "sequences": sequences,
        "rows": buffer.take(indices),
        "rows of sequences": buffer.take(sequences),
        "samples": buffer.sample(key, batch_size),
        "n steps": buffer.n_step(indices, 3, 0.9),
    }


def test_every_group_gives_its_part_of_a_batch():
    grouped, single = filled(9)
    found = drawn(grouped, KEY, 12, 6)
    assert found["indices"].shape == (N_GROUPS, 4)
    keys = jax.random.split(KEY, N_GROUPS)
    alone = [drawn(x, key, 4, 2) for x, key in zip(single, keys, strict=True)]
    for name in ("indices", "sequences"):
        trees.assert_equal(found[name], stacked([x[name] for x in alone]))
    trees.assert_equal(found["rows"], joined([x["rows"] for x in alone]))
    trees.assert_equal(found["samples"], joined([x["rows"] for x in alone]))
    of_sequences = "rows of sequences"
    trees.assert_equal(found[of_sequences], joined([x[of_sequences] for x in alone]))
    trees.assert_close(found["n steps"], joined([x["n steps"] for x in alone]))


def test_priorities_are_of_each_group():
    grouped, single = filled(9, prioritised=True)
    indices = np.tile(np.arange(8), (N_GROUPS, 1))
    priorities = np.arange(24, dtype=np.float32)
    grouped = with_priorities(grouped, indices, priorities)
    single = [
        with_priorities(x, i, p)
        for x, i, p in zip(single, indices, priorities.reshape(N_GROUPS, -1), strict=True)
    ]
    sample = jax.jit(DeviceBuffer.sample_prioritised, static_argnums=2)
    drawn, probabilities = map(np.asarray, sample(grouped, KEY, 300))
    assert drawn.shape == (N_GROUPS, 100)
    np.testing.assert_allclose(probabilities.sum(), np.mean(300 * probabilities), rtol=1e-5)
    for i, key in enumerate(jax.random.split(KEY, N_GROUPS)):
        expected, within = map(np.asarray, sample(single[i], key, 100))
        np.testing.assert_array_equal(drawn[i], expected)
        part = probabilities.reshape(N_GROUPS, -1)[i]
        np.testing.assert_allclose(part, within / N_GROUPS, rtol=1e-6)
        np.testing.assert_allclose(
            within, priorities[8 * i + drawn[i]] / priorities[8 * i : 8 * i + 8].sum(), rtol=1e-5
        )
    new = transitions(10)
    given = np.array([1.0, 2.0, 3.0], np.float32)
    after = with_priorities(add(grouped, new), indices[:, :1], given)
    found = jax.tree.map(np.asarray, after.priorities)
    for i, buffer in enumerate(single):
        buffer = with_priorities(add(buffer, of_group(new, i)), indices[i, :1], given[i : i + 1])
        trees.assert_equal(jax.tree.map(lambda x, i=i: x[i], found), buffer.priorities)


def test_refuses_what_groups_cannot_share():
    grouped, _ = filled(3)
    with pytest.raises(
        ValueError, match=r"what is added must be a multiple .*got 5; 3 or 6 would do"
    ):
        grouped.add(jax.tree.map(lambda x: x[:5], transitions(0)))
    with pytest.raises(ValueError, match="multiple of the 3 groups, got 10; 9 or 12 would do"):
        grouped.sample_indices(KEY, 10)
    with pytest.raises(ValueError, match="no priorities"):
        grouped.sample_prioritised(KEY, 12)
    with pytest.raises(ValueError, match="one at a time"):
        jax.tree.map(lambda x: np.stack([x, x]), grouped).to_dataset()
    with pytest.raises(ValueError, match="'rewards' has shape"):
        grouped.add({**transitions(0), "rewards": np.zeros(3, np.float32)})
