"""Agents that learn from a dataset: tests that others do not share."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from probes import Allowed, Box, Discrete, MatchSign, Probe, Target

from jaxagents import BC, CQL, IQL, SAC, bc, cql, iql, ops, sac
from jaxagents.bc import DiscreteBCLearner
from jaxagents.data import Dataset

KEY = jax.random.key(0)
SMALL = {"n_steps": 4, "eval_frequency": 2, "n_evals": 3, "minibatch_size": 8, "features": (8,)}
MODULES = {BC: bc, CQL: cql, IQL: iql}


def small(agent, env, dataset, eval_during_training=True, **fields):
    module = next(module for base, module in MODULES.items() if issubclass(agent, base))
    config = module.AgentConfig(**{**SMALL, **fields})
    return agent(env, None, config, eval_during_training, dataset=dataset)


def hyperparams(agent, **fields):
    return agent._hyperparams_type(**fields)


def arrays(n_rows=32, seed=0, **others):
    """Transitions of the probes, with discrete actions; those that are `None` are left out."""
    rng = np.random.default_rng(seed)
    sign, time = rng.choice([-1.0, 1.0], size=n_rows), np.zeros(n_rows)
    transitions = {
        "observations": np.stack([sign, time], axis=-1).astype(np.float32),
        "actions": rng.integers(2, size=n_rows),
        "rewards": rng.normal(size=n_rows).astype(np.float32),
        "next_observations": np.stack([sign, time + 1.0], axis=-1).astype(np.float32),
        "masks": np.zeros(n_rows, np.float32),
        **others,
    }
    return {key: x for key, x in transitions.items() if x is not None}


def discrete_data(*args, **others):
    return Dataset(arrays(*args, **others))


def box_data(n_rows=32, low=-2.0, high=1.0, **others):
    actions = np.random.default_rng(1).uniform(low, high, size=(n_rows, 2)).astype(np.float32)
    return Dataset(arrays(n_rows, **{"actions": actions, **others}))


def n_bytes(tree):
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


# What is taken of a dataset.


def rows_of(agent):
    """The arrays of an agent of one group."""
    return jax.tree.map(lambda x: x[0], agent.data.arrays)


def trained_as_shapes(agent):
    """The shapes of a runner after an update, for which nothing is compiled."""
    program = agent.program

    def train(key):
        return program.advance(program.start(key, hyperparams(type(agent))), 1)[0]

    return jax.eval_shape(train, KEY)


def test_arrays_that_the_learner_needs_are_on_the_device():
    dataset = discrete_data(discounts=np.ones(32, np.float32), ends=np.ones(32, bool))
    needed = {"observations", "actions", "rewards", "next_observations", "masks", "discounts"}
    assert rows_of(small(CQL, MatchSign(), dataset)).keys() == needed
    agent = small(BC, MatchSign(), dataset)
    assert rows_of(agent).keys() == {"observations", "actions", "discounts"}
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(agent.data))
    trees.assert_equal(rows_of(agent), {key: dataset[key] for key in rows_of(agent)})


class Named(NamedTuple):
    """Fields that are not in the order of their names, in which dicts are flattened."""

    time: Any
    sign: Any


@pytest.mark.parametrize(
    ("structured", "in_dicts"),
    [
        (lambda sign, time: Named(time, sign), lambda sign, time: {"sign": sign, "time": time}),
        (
            lambda sign, time: {"b": (sign, {"a": time})},
            lambda sign, time: {"b": {"0": sign, "1": {"a": time}}},
        ),
    ],
)
def test_dicts_stand_for_tuples_and_fields_of_observations(structured, in_dicts):
    class Structured(MatchSign):
        def observe(self, state):
            return structured(state.sign[None], state.time[None].astype(float))

    columns = [np.linspace(low, low + 1.0, 32, dtype=np.float32)[:, None] for low in (-1.0, 3.0)]
    observed = dict.fromkeys(("observations", "next_observations"), in_dicts(*columns))
    dataset = discrete_data(**observed, actions=np.zeros((32, 1), np.float32))
    env = Structured(continuous=True)
    agent = small(IQL, env, dataset, normalise_observations=True)
    trees.assert_equal(rows_of(agent)["observations"], structured(*columns))
    means = structured(np.full(1, -0.5), np.full(1, 3.5))
    for mean, found in zip(jax.tree.leaves(means), moments_of(agent), strict=True):
        np.testing.assert_allclose(found.mean, mean, rtol=1e-6)

    def train(key):
        runner, _ = agent.program.advance(agent.program.start(key, hyperparams(IQL)), 1)
        obs = structured(jnp.ones(1), jnp.zeros(1))
        return agent.policy(runner.learner, obs), agent.program.evaluate(runner)

    assert jax.eval_shape(train, KEY)[0].shape == (1,)


def moments_of(agent):
    """The moments of each array of its observations."""
    return jax.tree.leaves(agent._moments, is_leaf=lambda x: isinstance(x, ops.Moments))


def test_dicts_of_other_names_are_no_observations():
    class Pairs(MatchSign):
        def observe(self, state):
            return state.sign[None], state.time[None].astype(float)

    column = np.zeros((32, 1), np.float32)
    for names in (["0", "2"], ["0", "1", "2"]):
        with pytest.raises(ValueError, match="observations have shape"):
            small(BC, Pairs(), discrete_data(observations=dict.fromkeys(names, column)))


def test_rows_are_dealt_to_groups():
    dataset = discrete_data()  # of 32 rows
    data = small(BC, MatchSign(), dataset, n_groups=5, minibatch_size=10).data
    np.testing.assert_array_equal(data.sizes, [7, 7, 6, 6, 6])
    for key, groups in data.arrays.items():
        held = [rows[:size] for rows, size in zip(groups, data.sizes, strict=True)]
        np.testing.assert_array_equal(np.concatenate(held), dataset[key])
    with pytest.raises(
        ValueError, match="has 32 rows; it needs at least one for each of 33 groups"
    ):
        small(BC, MatchSign(), dataset, n_groups=33, minibatch_size=66)


def test_every_row_of_every_group_is_drawn_and_no_other():
    dataset = discrete_data()
    agent = small(BC, MatchSign(), dataset, n_groups=5, minibatch_size=1000)
    filled = np.array(agent.data.arrays["observations"])
    for group, size in enumerate(agent.data.sizes):
        filled[group, size:] = np.nan
    data = agent.data._replace(arrays={**agent.data.arrays, "observations": filled})
    sample = jax.jit(lambda data, keys: agent.behaviour.with_data(data)._sample(keys))
    drawn = np.asarray(sample(data, jax.random.split(KEY, 5))["observations"])
    assert drawn.shape == (1000, 2)
    np.testing.assert_array_equal(
        np.unique(drawn, axis=0), np.unique(dataset["observations"], axis=0)
    )
    for part, rows in zip(drawn.reshape(5, 200, 2), filled, strict=True):
        assert np.isin(part, rows).all()


def test_behavioural_cloning_needs_no_rewards():
    dataset = discrete_data(rewards=None, next_observations=None, masks=None)
    trained_as_shapes(small(BC, MatchSign(), dataset))


class Matrix(Target):
    def action_space(self, params):
        return Box(-2.0, 1.0, (2, 3))

    def reward(self, state, action):
        assert action.shape == (2, 3)
        return -jnp.square(action).sum()


class Uneven(Target):
    def action_space(self, params):
        return Box(np.array([-2.0, 0.0]), np.array([1.0, 10.0]), (2,))


def test_actions_of_any_shape_are_cloned_in_the_units_of_the_environment():
    expected = np.linspace(-1.4, 0.7, 6, dtype=np.float32).reshape(2, 3)
    actions = np.tile(expected, (64, 1, 1))
    agent = small(BC, Matrix(), box_data(64, actions=actions), False, gradient_steps=2)
    assert rows_of(agent)["actions"].shape == (64, 6)
    runner = agent.start(KEY, hyperparams(BC, actor_learning_rate=1e-2))
    runner = agent.advance(runner, np.int32(200))
    assert runner.update_step == 200
    assert runner.learner.actor.step == 2 * 200
    obs = jnp.array([1.0, 0.0])
    np.testing.assert_allclose(agent.policy(runner.learner, obs), expected, atol=0.05)


@pytest.mark.parametrize(
    ("env", "actions", "expected"),
    [
        (Target(), [[-2.0, 1.0], [-0.5, 0.25]], [[-1.0, 1.0], [0.0, 0.5]]),
        (Target(), [[-2.0 - 1e-5, 1.0 + 1e-5]], [[-1.0, 1.0]]),  # rounded
        (Uneven(), [[-2.0, 10.0], [1.0, 2.5]], [[-1.0, 1.0], [1.0, -0.5]]),
    ],
)
def test_box_actions_become_those_of_the_learner(env, actions, expected):
    data = rows_of(small(BC, env, box_data(len(actions), actions=np.float32(actions))))
    np.testing.assert_allclose(data["actions"], expected, atol=1e-4)


def test_every_component_has_bounds_of_its_own():
    with pytest.raises(ValueError, match="is not inside of Uneven's action_space"):
        small(BC, Uneven(), box_data(1, actions=np.float32([[2.0, 5.0]])))


@pytest.mark.parametrize("box", [False, True], ids=["discrete", "box"])
def test_numbers_of_double_precision_become_those_of_single_precision(box):
    env, dataset = (Target(), box_data()) if box else (MatchSign(), discrete_data())
    doubled = {
        key: np.float64(x) if np.issubdtype(x.dtype, np.floating) else x
        for key, x in dataset.items()
    }
    single, double = (rows_of(small(BC, env, Dataset(x))) for x in ({**dataset}, doubled))
    trees.assert_close(single, double)
    assert [x.dtype for x in jax.tree.leaves(single)] == [x.dtype for x in jax.tree.leaves(double)]
    assert single["observations"].dtype == jnp.float32
    assert single["actions"].dtype == (jnp.float32 if box else jnp.int32)


class Images(Probe):
    """Shows the sign in an image of bytes, beside a number."""

    def observe(self, state):
        image = jnp.broadcast_to(jnp.where(state.sign > 0, 255, 0), (5, 5, 1))
        return {"image": image.astype(jnp.uint8), "time": state.time}


def test_images_stay_bytes():
    images = np.zeros((32, 5, 5, 1), np.uint8)
    dataset = discrete_data(observations={"image": images, "time": np.zeros(32, np.int32)})
    agent = small(BC, Images(), dataset)
    assert rows_of(agent)["observations"]["image"].dtype == jnp.uint8
    trained_as_shapes(agent)


# Learning.


def test_every_gradient_step_draws_rows_of_its_own():
    drawn = []

    class Recorded(DiscreteBCLearner):
        def _update(self, batch):
            numbers = jnp.stack([batch["observations"][:, 1], batch["actions"].astype(float)])
            jax.debug.callback(lambda x: drawn.append(np.asarray(x)), numbers)
            return super()._update(batch)

    class Recording(BC):
        _discrete_learner = Recorded

    rows = np.arange(32)
    observations = np.stack([np.ones(32), rows], axis=-1).astype(np.float32)
    dataset = discrete_data(observations=observations, actions=rows % 2)
    agent = small(Recording, MatchSign(), dataset, False, gradient_steps=2)
    agent.advance(agent.start(KEY, hyperparams(BC)), np.int32(30))
    jax.effects_barrier()
    numbers, actions = np.moveaxis(drawn, 1, 0)
    assert numbers.shape == (60, 8)
    np.testing.assert_array_equal(actions, numbers % 2)
    np.testing.assert_array_equal(np.unique(numbers), rows)
    assert len(np.unique(numbers, axis=0)) == 60


def test_box_actions_of_another_agent_keep_their_meaning():
    config = sac.AgentConfig(
        n_steps=2, batch_size=4, buffer_size=64, learning_starts=32, features=(8,)
    )
    behaviour = SAC(Target(), None, config, eval_during_training=False)
    runner = jax.jit(behaviour.program.start)(KEY, sac.HyperParameters())  # after random actions
    data = rows_of(small(CQL, Target(), runner.buffer.to_dataset()))
    taken = -0.5 + 1.5 * data["actions"]
    distance = np.square(taken - 0.5 * data["observations"][:, :1]).sum(axis=-1)
    np.testing.assert_allclose(data["rewards"], -distance, atol=1e-4)


# Where the dataset is.


def test_the_dataset_is_neither_in_runners_nor_in_checkpoints(tmp_path):
    dataset = discrete_data(100_000)
    agent = small(BC, MatchSign(), dataset, False, checkpoint_dir=tmp_path, keep_checkpoints=1)
    runner, _ = agent.train(KEY, hyperparams(BC), progress=False)
    in_folder = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    size = n_bytes(agent.data)
    assert size > 1_000_000
    assert n_bytes(runner) < 0.1 * size
    assert in_folder < 0.2 * size
    with pytest.raises(TypeError, match="'dataset'"):
        BC(MatchSign(), None, bc.AgentConfig(**SMALL, checkpoint_dir=tmp_path))


def test_trainings_at_once_share_the_dataset():
    agent = small(BC, MatchSign(), discrete_data(100_000), eval_during_training=False)

    def train(keys, data):
        return jax.vmap(agent.with_data(data).train, (0, None))(keys, hyperparams(BC))

    keys = jax.random.split(KEY, 4)
    memory = jax.jit(train).lower(keys, agent.data).compile().memory_analysis()
    in_all = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    assert n_bytes(agent.data) < in_all < 2 * n_bytes(agent.data)


def test_agents_of_equal_datasets_share_programs():
    traced = []

    class Counting(BC):
        def _learn(self, *args):
            traced.append(1)
            return super()._learn(*args)

    def session(dataset):
        agent = small(Counting, MatchSign(), dataset, eval_during_training=False)
        traced.clear()
        runner, _ = agent.train(KEY, hyperparams(BC), progress=False)
        agent.train(None, None, runner, n_steps=3, progress=False)
        agent.sweep(jax.random.split(KEY, 2), hyperparams(BC), progress=False)
        return len(traced), runner.learner.actor.params

    n_traced, params = session(discrete_data())
    assert n_traced > 0
    n_traced, other_params = session(discrete_data(seed=1))
    assert n_traced == 0
    assert not trees.equal(params, other_params)


def test_datasets_whose_arrays_were_changed_in_place_are_copied_anew():
    dataset = discrete_data()
    before = small(CQL, MatchSign(), dataset)
    taken = np.array(rows_of(before)["rewards"])
    dataset["rewards"][:] += 1.0
    after = small(CQL, MatchSign(), dataset)
    np.testing.assert_array_equal(rows_of(after)["rewards"], dataset["rewards"])
    np.testing.assert_array_equal(rows_of(before)["rewards"], taken)
    assert after != before
    assert small(CQL, MatchSign(), dataset) == after
    dataset["rewards"][3] = np.nan
    with pytest.raises(ValueError, match="'rewards' is NaN"):
        small(CQL, MatchSign(), dataset)


def test_whole_numbers_are_normalised_as_reals_are():
    whole = np.random.default_rng(0).integers(-5, 6, (32, 2))
    dataset = box_data(observations=whole, next_observations=whole)
    agent = small(BC, Target(), dataset, normalise_observations=True)
    (moments,) = moments_of(agent)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.variance, whole.var(axis=0), rtol=1e-5)
    assert rows_of(agent)["observations"].dtype == jnp.float32


def test_agents_have_one_dataset_in_the_types_of_their_own_environments():
    class Whole(MatchSign):
        def observe(self, state):
            return super().observe(state).astype(jnp.int32)

    whole = np.random.default_rng(0).integers(-5, 6, (32, 2))
    dataset = discrete_data(observations=whole, next_observations=whole + 1)
    for env, dtype in ((Whole(), jnp.int32), (MatchSign(), jnp.float32)):
        assert small(CQL, env, dataset).data.arrays["observations"].dtype == dtype


def test_agents_are_equal_if_they_have_one_dataset():
    dataset = box_data()
    agent = small(BC, Target(), dataset)
    assert agent == small(BC, Target(), dataset)
    assert hash(agent) == hash(small(BC, Target(), dataset))
    for other in (box_data(rewards=np.ones(32, np.float32)), box_data(33), box_data()):
        assert agent != small(BC, Target(), other)


# Bad input.


@pytest.mark.parametrize("missing", [["masks"], ["rewards", "next_observations"], ["actions"]])
def test_keys_that_are_missing_are_named(missing):
    dataset = discrete_data(**dict.fromkeys(missing))
    names = ", ".join(f"'{key}'" for key in missing)
    with pytest.raises(
        KeyError, match=rf"CQL learns from .*, but the dataset lacks \[{names}\]; it"
    ):
        small(CQL, MatchSign(), dataset)


def observations_of(shape):
    return discrete_data(observations=np.zeros((32, *shape), np.float32))


def out_of_place(action):
    return discrete_data(actions=np.where(np.arange(32) == 7, action, 0))


def spread(low, high):
    return box_data(actions=np.linspace(low, high, 64, dtype=np.float32).reshape(32, 2))


SHAPE = r"dataset's observations have shape {}, but the environment's have \(2,\)"
INTEGERS = "Discrete actions must be integers, got type"
DISCRETE = r"actions lie in {}, which is not inside of MatchSign's action_space Discrete"
BOX = (
    r"actions lie in \[{}\], which is not inside of Target's action_space "
    r"Box\(low=-2.0, high=1.0, shape=\(2,\).*must be in the environment's units"
)


@pytest.mark.parametrize(
    ("agent", "env", "dataset", "error", "message"),
    [
        (BC, MatchSign(), observations_of((3,)), ValueError, SHAPE.format(r"\(3,\)")),
        (BC, MatchSign(), observations_of(()), ValueError, SHAPE.format(r"\(\)")),
        (
            BC,
            MatchSign(),
            discrete_data(observations={"state": np.zeros((32, 2), np.float32)}),
            ValueError,
            SHAPE.format(r"\{'state': \(2,\)\}"),
        ),
        (BC, MatchSign(), discrete_data(actions=np.ones(32, bool)), TypeError, INTEGERS),
        (BC, MatchSign(), discrete_data(actions=np.ones(32, np.float32)), TypeError, INTEGERS),
        (CQL, MatchSign(), out_of_place(2), ValueError, DISCRETE.format(r"\[0, 2\]")),
        (CQL, MatchSign(), out_of_place(-1), ValueError, DISCRETE.format(r"\[-1, 0\]")),
        (BC, Target(), spread(-2.0, 1.1), ValueError, BOX.format("-2, 1.1")),
        (BC, Target(), spread(-2.1, 1.0), ValueError, BOX.format("-2.1, 1")),
        (BC, Target(), spread(-2.0, np.nan), ValueError, "The dataset's actions"),
        (
            BC,
            MatchSign(),
            discrete_data(actions=np.zeros((32, 1), int)),
            ValueError,
            r"actions have shape \(1,\), but MatchSign's have",
        ),
        (
            BC,
            Target(),
            box_data(actions=np.zeros((32, 3), np.float32)),
            ValueError,
            r"actions have shape \(3,\), but Target's have",
        ),
        (BC, MatchSign(), discrete_data(0), ValueError, "no rows"),
        (
            IQL,
            MatchSign(),
            discrete_data(),
            ValueError,
            r"IQL acts in box spaces, but MatchSign.action_space is Disc",
        ),
        (BC, MatchSign(2), discrete_data(), ValueError, "BC trains one actor, but MatchSign has 2"),
    ],
)
def test_datasets_and_spaces_that_do_not_serve_are_refused(agent, env, dataset, error, message):
    with pytest.raises(error, match=message):
        small(agent, env, dataset)


def test_actions_that_the_masks_forbid_are_refused():
    masks = np.tile([True, True, False, False], (32, 1))
    masks[9] = False  # where an episode is over
    observations = {"observation": np.zeros((32, 2), np.float32), "action_mask": masks}
    small(BC, Allowed(None), discrete_data(observations=observations))
    actions = np.where(np.arange(32) < 7, 0, 3)
    message = r"takes action 3 in row 7.*allows only \[0, 1\].*24 of 32 rows"
    for agent in (BC, CQL):
        data = discrete_data(
            observations=observations, next_observations=observations, actions=actions
        )
        with pytest.raises(ValueError, match=message):
            small(agent, Allowed(None), data)


class Three(MatchSign):
    def action_space(self, params):
        return Discrete(3)


def test_the_number_of_actions_is_that_of_the_environment():
    learner = trained_as_shapes(small(CQL, Three(), discrete_data())).learner  # of data of two
    assert jax.eval_shape(lambda learner: learner.critic(jnp.zeros(2)), learner).shape == (3,)
