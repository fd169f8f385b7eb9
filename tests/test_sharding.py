"""Batches split over devices."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import trees
from flax import linen as nn
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

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
    obs, targets = rng.normal(size=(2, 16, 3)).astype(np.float32)
    batch = {"observations": {"x": obs}, "targets": targets}
    network = nn.Dense(3)
    params = network.init(jax.random.key(0), obs)["params"]
    state = TrainState.create(network, params, optax.sgd(0.1))

    @jax.jit
    def update(state, batch):
        def loss_fn(params):
            error = state(batch["observations"]["x"], params=params) - batch["targets"]
            return jnp.mean(error**2)

        return state.apply_loss_fn(loss_fn=loss_fn)

    split, replicated = shard_batch(batch), replicate(state)
    assert split["targets"].sharding.spec == P("data")
    assert {len(s.data) for s in split["targets"].addressable_shards} == {16 // 8}
    for x in jax.tree.leaves(replicated):
        assert x.sharding.is_fully_replicated
        assert len(x.sharding.device_set) == 8
    for start in (state, replicated):
        trees.assert_close(update(start, split), update(state, batch))
    assert isinstance(shard_batch(Dataset(batch)), Dataset)
    pair = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    assert {len(s.data) for s in shard_batch(batch, pair)["targets"].addressable_shards} == {8}
    assert len(replicate(state, pair).step.sharding.device_set) == 8
