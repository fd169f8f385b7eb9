"""Batches split over devices."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from scripts import run_script

from jaxagents.sharding import make_mesh, on_each_device, replicate, shard_batch


def test_on_one_device_values_are_unchanged():
    batch = {"observations": {"x": np.arange(6.0).reshape(3, 2)}, "rewards": np.arange(3)}
    mesh = make_mesh(1)
    for placed in (shard_batch(batch, mesh), replicate(batch, mesh)):
        jax.tree.map(np.testing.assert_array_equal, placed, batch)
        assert isinstance(placed["rewards"], jax.Array)


def test_splits_over_an_axis_of_another_name():
    mesh = Mesh(np.array(jax.devices()[:2]), ("members",))
    with pytest.raises(ValueError, match=r"no axis 'data'; it has \['members'\]"):
        shard_batch({"rewards": np.ones(2)}, mesh)
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
    script = """
        import jax, jax.numpy as jnp, numpy as np, optax, pytest
        from flax import linen as nn
        from jax.sharding import Mesh, PartitionSpec as P
        from jaxagents import TrainState
        from jaxagents.sharding import make_mesh, replicate, shard_batch
        from jaxagents.data import Dataset

        assert len(jax.devices()) == 4
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
        assert split["targets"].sharding.spec == P("data")
        assert {len(s.data) for s in split["targets"].addressable_shards} == {2}
        expected, single = update(state, batch), state
        for start in (state, replicate(state)):
            got = update(start, split)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, expected)
        replicated = replicate(state)
        assert all(x.sharding.is_fully_replicated and len(x.sharding.device_set) == 4
                   for x in jax.tree.leaves(replicated))
        assert isinstance(shard_batch(Dataset(batch)), Dataset)

        with pytest.raises(TypeError, match=r"n_devices must be an integer, got 1\\.0"):
            make_mesh(1.0)
        pair = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
        split = shard_batch(batch, pair)["targets"]
        assert {len(s.data) for s in split.addressable_shards} == {4}
        assert len(replicate(state, pair).step.sharding.device_set) == 4
        for n, sizes in ((10, "8 or 12"), (3, "4")):
            uneven = {"rewards": np.ones(8), "observations": {"x": np.ones((n, 2))}}
            with pytest.raises(
                ValueError, match=f"'observations/x' has {n} samples, which 4 devices .*; {sizes} would"
            ):
                shard_batch(uneven)
    """
    run_script(script, XLA_FLAGS="--xla_force_host_platform_device_count=4")
