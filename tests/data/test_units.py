"""The units of actions: where they are stored, and the map between two action ranges."""

import pickle

import gymnasium
import gymnax
import jax
import numpy as np
import pytest
import trees
from gymnasium import spaces

from jaxagents.data import Dataset, DeviceBuffer, ReplayBuffer
from jaxagents.data.units import box_of, from_unit, lie_within, to_unit
from jaxagents.envs.spaces import Box

N = 6
TORQUES = spaces.Box(-2.0, 2.0, (1,), np.float32)
KNOWN = box_of(TORQUES)


def arrays(**others):
    return {
        "observations": np.arange(N, dtype=np.float32)[:, None],
        "actions": np.linspace(-2, 2, N, dtype=np.float32)[:, None],
        "rewards": np.ones(N, np.float32),
        "next_observations": np.arange(1, N + 1, dtype=np.float32)[:, None],
        "masks": np.ones(N, np.float32),
        "ends": np.arange(N) == N - 1,
        **others,
    }


def torques(**others):
    return Dataset(arrays(**others), action_space=TORQUES)


def test_a_box_is_that_of_a_bounded_space_of_whichever_kind():
    pendulum, params = gymnax.make("Pendulum-v1")
    for space in (
        gymnasium.make("Pendulum-v1").action_space,
        pendulum.action_space(params),
        Box(-2.0, 2.0, (1,)),
        (-2, 2),
        ([-2.0], [2.0]),
    ):
        assert Dataset(arrays(), action_space=space).action_space == KNOWN
    assert hash(box_of(Box(-2.0, 2.0, (1,)))) == hash(KNOWN)
    assert box_of((-0.4, 0.4), (1,)) == box_of(spaces.Box(-0.4, 0.4, (1,), np.float32))
    assert box_of((-2, 3), (1,)) != KNOWN != box_of((-2, 2), (2,))
    for space in (
        None,
        spaces.Discrete(3),
        spaces.Tuple([TORQUES]),
        spaces.Box(-np.inf, np.inf, (1,)),
        spaces.Box(np.float32([-1, -np.inf]), np.float32([1, 1])),
        spaces.Box(np.zeros(1), np.zeros(1), dtype=np.float64),  # has no units
    ):
        assert box_of(space) is None
    for wrong in (pendulum.action_space, "rescaled", 2.0):
        with pytest.raises(TypeError, match=r"must be a space, such as .* or a pair of bounds"):
            Dataset(arrays(), action_space=wrong)
    with pytest.raises(ValueError, match=r"Actions have shape \(1,\), but their space has \(2,\)"):
        Dataset(arrays(), action_space=Box(-2.0, 2.0, (2,)))


def test_what_is_made_of_a_dataset_knows_its_units(tmp_path):
    dataset, made = torques(), []
    made += [dataset.get_subset(slice(3)), *dataset.split(0.5), dataset.n_step(2, 0.9)]
    made += [dataset.normalise(["observations"])[0], pickle.loads(pickle.dumps(dataset))]
    made += [jax.tree.map(lambda x: x[:2], dataset), Dataset(dataset)]
    buffer = ReplayBuffer.create_from_initial_dataset(dataset, 9)
    created = ReplayBuffer.create(dict(jax.tree.map(lambda x: x[0], dataset)), 9, 0, TORQUES)
    created.add_transitions(dataset)
    example = jax.tree.map(lambda x: x[0], {**dataset})
    on_device = DeviceBuffer.create(example, 4, action_space=TORQUES).add(dataset_of_one())
    made += [x.to_dataset() for x in (buffer, created, on_device, jax.jit(lambda x: x)(on_device))]
    made += [buffer, pickle.loads(pickle.dumps(buffer)), on_device]
    for name in ("data.npz", "data.h5"):
        dataset.save(tmp_path / name)
        loaded = Dataset.load(tmp_path / name)
        trees.assert_equal({**loaded}, {**dataset})
        made += [loaded, Dataset.load(tmp_path / name, action_space=(-2, 2))]
        with pytest.raises(ValueError, match=r"in the box \(-2, 2\), not \(-1, 1\)"):
            Dataset.load(tmp_path / name, action_space=(-1, 1))
    assert [x.action_space for x in made] == [KNOWN] * len(made)
    assert all("actions in (-2, 2)" in repr(x) for x in made if isinstance(x, Dataset))
    of_uneven = Dataset(arrays(actions=np.ones((N, 2))), 0, ([-2, 0], [1, 0.1]))
    assert "actions in ([-2.0, 0.0], [1.0, 0.1])" in repr(of_uneven)
    of_uneven.save(tmp_path / "uneven.npz")
    assert Dataset.load(tmp_path / "uneven.npz").action_space == of_uneven.action_space
    for lost in (Dataset({**dataset}), dataset.normalise(["actions"])[0]):
        assert lost.action_space is None


def dataset_of_one():
    return {key: x[:1] for key, x in arrays().items()}


def test_files_that_do_not_say_it_and_keys_named_as_bounds(tmp_path):
    nested = {"low": np.zeros(N), "high": np.ones(N)}
    for name in ("data.npz", "data.h5"):
        Dataset(arrays()).save(tmp_path / name)
        assert Dataset.load(tmp_path / name).action_space is None
        assert Dataset.load(tmp_path / name, action_space=TORQUES).action_space == KNOWN
        Dataset(arrays(actions=nested), action_space=TORQUES).save(tmp_path / f"nested_{name}")
        loaded = Dataset.load(tmp_path / f"nested_{name}")
        trees.assert_equal(loaded["actions"], nested)
        assert loaded.action_space is None


def test_actions_are_rescaled_once():
    dataset = torques().n_step(2, 0.9)
    rescaled = dataset.rescale_actions()
    np.testing.assert_array_equal(rescaled["actions"], dataset["actions"] / 2)
    assert rescaled["actions"].dtype == np.float32
    assert rescaled.action_space == box_of((-1, 1), (1,))
    assert rescaled.single_steps is dataset.single_steps
    assert rescaled.rescale_actions() is rescaled
    assert {**rescaled}.keys() == dataset.keys()
    whole = Dataset(arrays(actions=np.arange(N)))
    assert whole.rescale_actions() is whole
    with pytest.raises(ValueError, match="does not know the bounds of its actions"):
        Dataset(arrays()).rescale_actions()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_action_leaves_any_box_by_rounding(dtype):
    rng = np.random.default_rng(0)
    low = rng.uniform(-1, 1, 300).astype(dtype)
    space = spaces.Box(low, low + rng.uniform(0.1, 2, 300).astype(dtype), dtype=dtype)
    ends = np.stack([np.full(300, -1), np.full(300, 1), rng.uniform(-1, 1, 300)])
    for given in (np.float32, np.float64):
        actions = from_unit(ends.astype(given), space)
        assert ((actions >= space.low) & (actions <= space.high)).all()
        np.testing.assert_allclose(actions[:2], [space.low, space.high], atol=1e-6)
        np.testing.assert_allclose(to_unit(actions, space), ends, atol=1e-5)
    on_device = np.asarray(jax.jit(lambda x: from_unit(x, space))(ends.astype(np.float32)))
    assert ((on_device >= space.low) & (on_device <= space.high)).all()
    assert lie_within(on_device, space)
