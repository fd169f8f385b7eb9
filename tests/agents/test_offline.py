"""Agents that learn from a dataset: tests that others do not share."""

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import compilations
from probes import Allowed, Box, MatchSign, Probe, Target

from jaxagents import BC, CQL, IQL, bc, cql, iql, ops
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


def structured(sign, time):
    return {"b": (Named(time, sign), {"a": time})}


def in_dicts(sign, time):
    return {"b": {"0": {"sign": sign, "time": time}, "1": {"a": time}}}


def test_dicts_stand_for_tuples_and_fields_of_observations():
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


def test_rows_are_dealt_to_groups_and_every_one_is_drawn_and_no_other():
    dataset = discrete_data()  # of 32 rows
    agent = small(BC, MatchSign(), dataset, n_groups=5, minibatch_size=1000)
    np.testing.assert_array_equal(agent.data.sizes, [7, 7, 6, 6, 6])
    for key, groups in agent.data.arrays.items():
        held = [rows[:size] for rows, size in zip(groups, agent.data.sizes, strict=True)]
        np.testing.assert_array_equal(np.concatenate(held), dataset[key])
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


class Matrix(Target):
    def action_space(self, params):
        return Box(-2.0, 1.0, (2, 2))

    def reward(self, state, action):
        assert action.shape == (2, 2)
        return -jnp.square(action).sum()


class Uneven(Target):
    def action_space(self, params):
        return Box(np.array([-2.0, 0.0]), np.array([1.0, 10.0]), (2,))


@pytest.mark.parametrize(
    ("env", "actions", "expected"),
    [
        (Target(), [[-2.0 - 1e-5, 1.0 + 1e-5]], [[-1.0, 1.0]]),  # rounded
        (Uneven(), [[-2.0, 10.0], [1.0, 2.5]], [[-1.0, 1.0], [1.0, -0.5]]),
        (Matrix(), [[[-2.0, 1.0], [-0.5, 0.25]]], [[-1.0, 1.0, 0.0, 0.5]]),
    ],
)
def test_box_actions_become_those_of_the_learner(env, actions, expected):
    agent = small(BC, env, box_data(len(actions), actions=np.float32(actions)))
    np.testing.assert_allclose(rows_of(agent)["actions"], expected, atol=1e-4)


def test_behavioural_cloning_needs_no_rewards_and_actions_may_have_any_shape():
    rest = {"rewards": None, "next_observations": None, "masks": None}
    dataset = discrete_data(**rest, actions=np.full((32, 2, 2), -2.0, np.float32))
    trained_as_shapes(small(BC, Matrix(), dataset))


def test_actions_in_whichever_box_become_those_of_the_learner():
    torques = box_data()
    agents = [small(BC, Target(), torques)]
    unit = np.asarray(rows_of(agents[0])["actions"])
    for space, actions in (
        (Target().action_space(None), torques["actions"]),
        ((-1, 1), unit),
        (([-4, 0], [4, 20]), unit * [4, 10] + [0, 10]),
    ):
        arrays = {**torques, "actions": np.float32(actions)}
        agents.append(small(BC, Target(), Dataset(arrays, action_space=space)))
        np.testing.assert_allclose(rows_of(agents[-1])["actions"], unit, atol=1e-6)
    trees.assert_equal(rows_of(agents[1]), rows_of(agents[0]))
    np.testing.assert_array_equal(rows_of(agents[2])["actions"], unit)


class Narrow(Probe):
    """Returns the sum of ten actions between -0.4 and 0.4, as Humanoid's are."""

    n_steps = 10

    def action_space(self, params):
        return Box(-0.4, 0.4, (1,))

    def reward(self, state, action):
        return action.sum()


def test_a_constant_expert_in_a_narrow_box_is_imitated():
    rescaled = {**box_data(), "actions": np.ones((32, 1), np.float32)}
    with pytest.raises(ValueError, match=r"\(-0.4, 0.4\): they seem to be rescaled to \(-1, 1\)"):
        small(BC, Narrow(), Dataset(rescaled))
    own = {**rescaled, "actions": np.full((32, 1), 0.4, np.float32)}
    with pytest.warns(
        UserWarning, match=r"lie in \[0.4, 0.4\], and Narrow's action_space is \(-0.4"
    ):
        taken_for_own = small(BC, Narrow(), Dataset(own))
    agent = small(BC, Narrow(), Dataset(rescaled, action_space=(-1, 1)), n_steps=200)
    trees.assert_equal(rows_of(agent), rows_of(taken_for_own))
    agent.train(KEY, hyperparams(BC, actor_learning_rate=0.05), progress=False)
    np.testing.assert_allclose(agent.eval(KEY, n_evals=2)["returns"], 4.0, atol=0.1)


def test_numbers_of_double_precision_become_those_of_single_precision():
    dataset = box_data()
    doubled = Dataset({key: np.float64(x) for key, x in dataset.items()})
    single, double = (rows_of(small(BC, Target(), x)) for x in (dataset, doubled))
    trees.assert_close(single, double)
    assert single["observations"].dtype == double["observations"].dtype == jnp.float32
    assert single["actions"].dtype == double["actions"].dtype == jnp.float32


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


# Where the dataset is.


def test_the_dataset_is_neither_in_runners_nor_in_checkpoints_nor_in_programs(tmp_path):
    dataset = discrete_data(100_000)
    agent = small(BC, MatchSign(), dataset, False, checkpoint_dir=tmp_path, keep_checkpoints=1)
    runner, _ = agent.train(KEY, hyperparams(BC), progress=False)
    in_folder = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    size = n_bytes(agent.data)
    assert size > 1_000_000
    assert n_bytes(runner) < 0.1 * size
    assert in_folder < 0.2 * size
    other = small(BC, MatchSign(), discrete_data(100_000, seed=1), eval_during_training=False)
    of_other, _ = other.train(KEY, hyperparams(BC), progress=False)
    assert not trees.equal(runner.learner.actor.params, of_other.learner.actor.params)
    with compilations() as made:
        again, _ = other.with_data(agent.data).train(KEY, hyperparams(BC), progress=False)
    assert not made
    trees.assert_equal(runner.learner.actor.params, again.learner.actor.params)
    with pytest.raises(TypeError, match="'dataset'"):
        BC(MatchSign(), None, bc.AgentConfig(**SMALL, checkpoint_dir=tmp_path))


def test_trainings_at_once_share_the_dataset():
    agent = small(BC, MatchSign(), discrete_data(54_321), eval_during_training=False)

    def train(keys, data):
        return jax.vmap(agent.with_data(data).train, (0, None))(keys, hyperparams(BC))

    program = jax.jit(train).lower(jax.random.split(KEY, 4), agent.data).as_text()
    assert "tensor<1x54321x" in program
    assert not re.search("tensor<4x[0-9x]*54321x", program)


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


def test_whole_numbers_have_the_type_of_the_environment_and_are_normalised_as_reals_are():
    class Whole(MatchSign):
        def observe(self, state):
            return super().observe(state).astype(jnp.int32)

    whole = np.random.default_rng(0).integers(-5, 6, (32, 2))
    dataset = discrete_data(observations=whole, next_observations=whole + 1)
    for env, dtype in ((Whole(), jnp.int32), (MatchSign(), jnp.float32)):
        assert rows_of(small(CQL, env, dataset))["observations"].dtype == dtype
    agent = small(BC, MatchSign(), dataset, normalise_observations=True)
    (moments,) = moments_of(agent)
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.variance, whole.var(axis=0), rtol=1e-5)


def test_agents_are_equal_if_they_have_one_dataset():
    dataset = box_data()
    agent = small(BC, Target(), dataset)
    assert agent == small(BC, Target(), dataset)
    assert hash(agent) == hash(small(BC, Target(), dataset))
    for other in (box_data(rewards=np.ones(32, np.float32)), box_data(33), box_data()):
        assert agent != small(BC, Target(), other)


# Bad input.


def with_actions(actions):
    return discrete_data(actions=actions)


WIDE = box_data(actions=np.zeros((32, 3), np.float32))


@pytest.mark.parametrize(
    ("agent", "env", "dataset", "message"),
    [
        (BC, MatchSign(), with_actions(np.ones(32, bool)), "actions must be integers, got type"),
        (
            BC,
            MatchSign(),
            with_actions(np.zeros((32, 1), int)),
            r"actions have shape \(1,\), but Mat",
        ),
        (BC, Uneven(), box_data(1, actions=np.float32([[2.0, 5.0]])), "not inside Uneven's act"),
        (BC, Target(), WIDE, r"actions have shape \(3,\), but Target's have"),
        (IQL, MatchSign(), discrete_data(), "IQL supports continuous actions, but MatchSign"),
    ],
)
def test_datasets_and_spaces_that_do_not_serve_are_refused(agent, env, dataset, message):
    with pytest.raises((TypeError, ValueError), match=message):
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
