"""Batches split over devices."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import trees
from flax import linen as nn
from jax.sharding import Mesh, PartitionSpec

from jaxagents import TrainState
from jaxagents.data import Dataset
from jaxagents.sharding import make_mesh, on_each_device, replicate, shard_batch


def test_on_one_device_values_are_unchanged():
    batch = {"observations": {"x": np.arange(6.0).reshape(3, 2)}, "rewards": np.arange(3)}
    mesh = make_mesh(1)
    for placed in (shard_batch(batch, mesh), replicate(batch, mesh)):
        jax.tree.map(np.testing.assert_array_equal, placed, batch)
        assert isinstance(placed["rewards"], jax.Array)


def test_splits_over_an_axis_of_another_name():
    mesh = Mesh(np.array(jax.devices()[:2]), ("members",))
    assert shard_batch({"rewards": np.ones(2)}, mesh, axis="members")["rewards"].shape == (2,)


def test_each_device_decides_by_its_own_rows():
    @jax.jit
    def below_the_largest(x):
        return on_each_device(lambda rows: rows.max() - rows, x)

    x = np.array([0.0, 1.0, 5.0, 9.0])
    np.testing.assert_array_equal(below_the_largest(x), [9.0, 8.0, 4.0, 0.0])
    with jax.set_mesh(make_mesh(2)):
        np.testing.assert_array_equal(below_the_largest(x), [1.0, 0.0, 4.0, 0.0])
        np.testing.assert_array_equal(below_the_largest(x[:3]), [5.0, 4.0, 0.0])


def test_devices_share_an_update_without_a_change_to_it():
    rng = np.random.default_rng(0)
    batch = {"observations": {"x": rng.normal(size=(8, 3))}, "targets": rng.normal(size=(8, 1))}
    network = nn.Dense(1)
    params = network.init(jax.random.key(0), batch["observations"]["x"])["params"]
    state = TrainState.create(network, params, optax.sgd(0.1))

    @jax.jit
    def update(state, batch):
        def loss_fn(params):
            error = state(batch["observations"]["x"], params=params) - batch["targets"]
            return jnp.mean(error**2)

        return state.apply_loss_fn(loss_fn=loss_fn)

    split = shard_batch(batch)
    assert split["targets"].sharding.spec == PartitionSpec("data")
    assert {len(shard.data) for shard in split["targets"].addressable_shards} == {1}
    replicated, expected = replicate(state), update(state, batch)
    for x in jax.tree.leaves(replicated):
        assert x.sharding.is_fully_replicated
        assert len(x.sharding.device_set) == 8
    for start in (state, replicated):
        trees.assert_close(update(start, split), expected)
    assert isinstance(shard_batch(Dataset(batch)), Dataset)


def test_an_axis_beside_data_holds_copies_and_what_devices_cannot_share_is_refused():
    pair = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    rewards = shard_batch({"rewards": np.ones(8)}, pair)["rewards"]
    assert {len(shard.data) for shard in rewards.addressable_shards} == {2}
    assert len(replicate(jnp.ones(()), pair).sharding.device_set) == 8
    with pytest.raises(TypeError, match=r"n_devices must be an integer, got 1\.0"):
        make_mesh(1.0)
    for n, sizes in ((10, "8 or 16"), (3, "8")):
        uneven = {"rewards": np.ones(8), "observations": {"x": np.ones((n, 2))}}
        message = f"'observations/x' has {n} samples, which 8 devices .*; {sizes} would"
        with pytest.raises(ValueError, match=message):
            shard_batch(uneven)
