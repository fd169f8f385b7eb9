"""Replay buffers of several groups, against one of each."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents.data import DeviceBuffer, GroupedBuffer

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
    grouped = GroupedBuffer.create(example, CAPACITY, N_ENVS, prioritised, N_GROUPS)
    sizes = (CAPACITY // N_GROUPS, N_ENVS // N_GROUPS)
    single = [DeviceBuffer.create(example, *sizes, prioritised) for _ in range(N_GROUPS)]
    for seed in range(n_adds):
        new = transitions(seed)
        grouped = jax.jit(GroupedBuffer.add)(grouped, new)
        single = [jax.jit(DeviceBuffer.add)(x, of_group(new, i)) for i, x in enumerate(single)]
    return grouped, single


def joined(batches):
    return jax.tree.map(lambda *x: jnp.concatenate(x), *batches)


@pytest.mark.parametrize("n_adds", [0, 3, 9])
def test_holds_what_buffers_of_each_group_do(n_adds):
    grouped, single = filled(n_adds)
    trees.assert_equal(
        grouped.storage, jax.tree.map(lambda *x: jnp.stack(x), *(x.storage for x in single))
    )
    assert grouped.size == single[0].size
    dataset = grouped.to_dataset()
    trees.assert_equal({**dataset}, joined([{**x.to_dataset()} for x in single]))


def test_every_group_gives_its_part_of_a_batch():
    grouped, single = filled(9)
    indices = grouped.sample_indices(KEY, 12)
    assert indices.shape == (N_GROUPS, 4)
    keys = jax.random.split(KEY, N_GROUPS)
    trees.assert_equal(
        indices, jnp.stack([x.sample_indices(k, 4) for x, k in zip(single, keys, strict=True)])
    )
    parts = [x.take(i) for x, i in zip(single, indices, strict=True)]
    trees.assert_equal(grouped.take(indices), joined(parts))
    trees.assert_equal(grouped.sample(KEY, 12), joined(parts))
    sequences = grouped.sample_sequences(KEY, 6, 2)
    alone = [x.sample_sequences(k, 2, 2) for x, k in zip(single, keys, strict=True)]
    trees.assert_equal(sequences, jnp.stack(alone))
    parts = [x.take(i) for x, i in zip(single, sequences, strict=True)]
    trees.assert_equal(grouped.take(sequences), joined(parts))
    several = [x.n_step(i, 3, 0.9) for x, i in zip(single, indices, strict=True)]
    trees.assert_close(grouped.n_step(indices, 3, 0.9), joined(several))


def test_priorities_are_of_each_group():
    grouped, single = filled(9, prioritised=True)
    indices = jnp.tile(jnp.arange(8), (N_GROUPS, 1))
    priorities = jnp.arange(24.0)
    grouped = grouped.with_priorities(indices, priorities)
    single = [
        x.with_priorities(i, p)
        for x, i, p in zip(single, indices, priorities.reshape(N_GROUPS, -1), strict=True)
    ]
    drawn, probabilities = grouped.sample_prioritised(KEY, 300)
    assert drawn.shape == (N_GROUPS, 100)
    np.testing.assert_allclose(probabilities.sum(), np.mean(300 * probabilities), rtol=1e-5)
    for i, key in enumerate(jax.random.split(KEY, N_GROUPS)):
        expected, within = single[i].sample_prioritised(key, 100)
        np.testing.assert_array_equal(drawn[i], expected)
        part = probabilities.reshape(N_GROUPS, -1)[i]
        np.testing.assert_allclose(part, within / N_GROUPS, rtol=1e-6)
        np.testing.assert_allclose(
            within, priorities[8 * i + drawn[i]] / priorities[8 * i : 8 * i + 8].sum(), rtol=1e-5
        )
    new = transitions(10)
    after = grouped.add(new).with_priorities(indices[:, :1], jnp.array([1.0, 2.0, 3.0]))
    for i, buffer in enumerate(single):
        buffer = buffer.add(of_group(new, i)).with_priorities(indices[i, :1], jnp.array([i + 1.0]))
        trees.assert_equal(jax.tree.map(lambda x, i=i: x[i], after.priorities), buffer.priorities)


def test_refuses_what_groups_cannot_share():
    grouped, _ = filled(3)
    with pytest.raises(
        ValueError, match=r"what is added must be a multiple .*got 5; 3 or 6 would do"
    ):
        grouped.add(jax.tree.map(lambda x: x[:5], transitions(0)))
    with pytest.raises(ValueError, match="multiple of the 3 groups, got 10; 9 or 12 would do"):
        grouped.sample_indices(KEY, 10)
    for sizes in ((24, 6), (0, 0)):
        with pytest.raises(ValueError, match=f"all positive, got {sizes[0]}, {sizes[1]} and 4"):
            GroupedBuffer.create({"x": 0.0}, *sizes, n_groups=4)
    with pytest.raises(ValueError, match="no priorities"):
        grouped.sample_prioritised(KEY, 12)
    with pytest.raises(ValueError, match="one at a time"):
        jax.tree.map(lambda x: jnp.stack([x, x]), grouped).to_dataset()
    with pytest.raises(ValueError, match="'rewards' has shape"):
        grouped.add({**transitions(0), "rewards": np.zeros(3, np.float32)})
