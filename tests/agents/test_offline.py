"""Agents that learn from a dataset: tests that others do not share."""

from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from probes import Allowed, Box, Discrete, Endless, MatchSign, Probe, Target
from registry import VALUE_BASED

from jaxagents import BC, CQL, IQL, SAC, bc, cql, iql, sac, td3bc
from jaxagents.bc import DiscreteBCLearner
from jaxagents.data import Dataset

KEY = jax.random.key(0)
SMALL = {"n_steps": 4, "eval_frequency": 2, "n_evals": 3, "minibatch_size": 8, "features": (8,)}
MODULES = {BC: bc, CQL: cql, IQL: iql}


def small(agent, env, dataset, eval_during_training=True, **fields):
    module = next(module for base, module in MODULES.items() if issubclass(agent, base))
    config = module.AgentConfig(**{**SMALL, **fields})
    return agent(env, None, config, eval_during_training, dataset=dataset)


@pytest.fixture(scope="module", autouse=True)
def plain():
    """The agents of most tests, whose programs are kept meanwhile."""
    return [small(agent, MatchSign(), discrete_data()) for agent in (BC, CQL)]


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
        (lambda sign, time: (sign, time), lambda sign, time: {"0": sign, "1": time}),
        (lambda sign, time: Named(time, sign), lambda sign, time: {"sign": sign, "time": time}),
        (
            lambda sign, time: {"b": (sign, {"a": time})},
            lambda sign, time: {"b": {"0": sign, "1": {"a": time}}},
        ),
    ],
)
@pytest.mark.parametrize("agent", [BC, IQL])
def test_dicts_stand_for_tuples_and_fields_of_observations(agent, structured, in_dicts):
    class Structured(MatchSign):
        def observe(self, state):
            return structured(state.sign[None], state.time[None].astype(float))

    columns = [np.linspace(low, low + 1.0, 32, dtype=np.float32)[:, None] for low in (-1.0, 3.0)]
    observed = dict.fromkeys(("observations", "next_observations"), in_dicts(*columns))
    actions = np.zeros((32, 1), np.float32) if agent is IQL else np.zeros(32, int)
    env = Structured(continuous=agent is IQL)
    learned = small(
        agent, env, discrete_data(**observed, actions=actions), normalise_observations=True
    )
    trees.assert_equal(rows_of(learned)["observations"], structured(*columns))
    means = structured(np.full(1, -0.5), np.full(1, 3.5))
    jax.tree.map(
        lambda mean, of_one: np.testing.assert_allclose(of_one.mean, mean, rtol=1e-6),
        means,
        learned._moments,
    )

    def train(key):
        runner, _ = learned.program.advance(learned.program.start(key, hyperparams(agent)), 1)
        obs = structured(jnp.ones(1), jnp.zeros(1))
        return learned.policy(runner.learner, obs), learned.program.evaluate(runner)

    assert jax.eval_shape(train, KEY)[0].shape == actions.shape[1:]


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
    agent = small(BC, MatchSign(), dataset)  # whose programs are those of a dataset with rewards
    agent.train(KEY, hyperparams(BC), progress=False)


def test_box_actions_become_those_of_the_learner():
    dataset = box_data()
    data = rows_of(small(BC, Target(), dataset))  # from -2 to 1
    np.testing.assert_allclose(data["actions"], (dataset["actions"] + 0.5) / 1.5, atol=1e-6)
    ends = np.array([[-2.0, 1.0], [-0.5, -0.5]], np.float32)
    data = rows_of(small(BC, Target(), box_data(2, actions=ends)))
    np.testing.assert_allclose(data["actions"], [[-1.0, 1.0], [0.0, 0.0]], atol=1e-6)


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
    agent = small(BC, Matrix(), box_data(64, actions=actions), n_steps=400, eval_frequency=400)
    assert rows_of(agent)["actions"].shape == (64, 6)
    flat = np.asarray(rows_of(agent)["actions"])
    np.testing.assert_allclose(
        jax.vmap(agent.behaviour._units.to_environment)(flat), actions, atol=1e-6
    )
    agent.train(KEY, hyperparams(BC, actor_learning_rate=1e-2), progress=False)
    np.testing.assert_allclose(agent.policy(jnp.array([1.0, 0.0])), expected, atol=0.05)


def test_every_component_has_bounds_of_its_own():
    agent = small(BC, Uneven(), box_data(2, actions=np.float32([[-2.0, 10.0], [1.0, 2.5]])))
    np.testing.assert_allclose(rows_of(agent)["actions"], [[-1.0, 1.0], [1.0, -0.5]], atol=1e-6)
    with pytest.raises(ValueError, match="is not inside of Uneven's action_space"):
        small(BC, Uneven(), box_data(1, actions=np.float32([[2.0, 5.0]])))


def test_rounding_errors_at_the_bounds_are_no_mistake():
    actions = np.float32([[-2.0 - 1e-5, 1.0 + 1e-5]])
    agent = small(BC, Target(), box_data(1, actions=actions))
    np.testing.assert_allclose(rows_of(agent)["actions"], [[-1.0, 1.0]], atol=1e-4)


@pytest.mark.parametrize("box", [False, True], ids=["discrete", "box"])
def test_numbers_of_double_precision_become_those_of_single_precision(box):
    env, dataset = (Target(), box_data()) if box else (MatchSign(), discrete_data())
    doubled = {
        key: np.float64(x) if np.issubdtype(x.dtype, np.floating) else x
        for key, x in dataset.items()
    }
    agents = [small(BC, env, Dataset(x)) for x in ({**dataset}, doubled)]
    assert rows_of(agents[1])["observations"].dtype == jnp.float32
    assert rows_of(agents[1])["actions"].dtype == (jnp.float32 if box else jnp.int32)
    outcomes = [agent.train(KEY, hyperparams(BC), progress=False) for agent in agents]
    trees.assert_close(*outcomes)


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


@pytest.mark.parametrize("gradient_steps", [1, 3])
def test_an_update_step_makes_as_many_gradient_steps_as_configured(gradient_steps):
    agent = small(CQL, MatchSign(), discrete_data(), gradient_steps=gradient_steps)
    runner = agent.advance(agent.start(KEY, hyperparams(CQL)), np.int32(2))
    assert runner.update_step == 2
    assert runner.learner.critic.step == 2 * gradient_steps


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


@pytest.mark.parametrize("agent", [CQL, IQL])
def test_discounts_of_the_dataset_take_the_place_of_gamma(agent):
    """Three rewards of 1 at a discount of 0.5, and so on for ever, are worth 2."""
    ones, box = np.ones((300, 2), np.float32), agent is IQL
    actions = np.random.default_rng(0).integers(2, size=300)
    transitions = arrays(
        300,
        observations=ones,
        next_observations=ones,
        actions=np.float32(2 * actions - 1)[:, None] if box else actions,
        rewards=np.ones(300, np.float32),
        masks=np.ones(300, np.float32),
        ends=np.arange(300) % 30 == 29,
    )
    dataset = Dataset(transitions).n_step(3, 0.5)
    trained = small(
        agent,
        Endless(None, box),
        dataset,
        eval_during_training=False,
        n_steps=600,
        minibatch_size=32,
        eval_frequency=600,
    )
    fields = {"gamma": 0.0, "tau": 0.1, "critic_learning_rate": 1e-2}
    fields |= {"value_learning_rate": 1e-2} if box else {"conservative_weight": 0.0}
    trained.train(KEY, hyperparams(agent, **fields), progress=False)
    obs = jnp.ones(2)
    values = trained.learner.value(obs) if box else trained.learner.critic(obs)
    np.testing.assert_allclose(values, 2.0, atol=0.1)


@pytest.mark.parametrize(("agent", "loss"), [(BC, "actor_loss"), (CQL, "critic_loss")])
def test_weights_of_the_dataset_count(agent, loss):
    unweighed, weighed = (
        small(agent, MatchSign(), discrete_data(weights=weights))
        for weights in (None, np.zeros(32, np.float32))
    )
    losses = [
        float(trained.train(KEY, hyperparams(agent), progress=False)[0].info[loss])
        for trained in (unweighed, weighed)
    ]
    assert losses[0] > losses[1] == 0.0


def test_learns_from_what_another_agent_did():
    case = next(case for case in VALUE_BASED if case.name == "DQN")
    behaviour = case.make(MatchSign)
    runner = behaviour.start(KEY, case.hyperparams(epsilon=1.0))
    dataset = behaviour.advance(runner, np.int32(50)).buffer.to_dataset()
    sizes = {"n_steps": 200, "minibatch_size": 32, "n_evals": 32}
    agent = small(CQL, MatchSign(), dataset, eval_during_training=False, **sizes)
    fields = {"critic_learning_rate": 1e-2, "conservative_weight": 0.1}
    agent.train(KEY, hyperparams(CQL, **fields), progress=False)
    returns = agent.eval(jax.random.key(1), n_evals=32)["returns"]
    np.testing.assert_array_equal(returns, 1.0)


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


def test_going_on_from_a_checkpoint_needs_the_dataset_again(tmp_path):
    uninterrupted = small(CQL, MatchSign(), discrete_data())
    whole, metrics = uninterrupted.train(KEY, hyperparams(CQL), progress=False)
    agent = small(CQL, MatchSign(), discrete_data(), checkpoint_dir=tmp_path)
    agent.train(KEY, hyperparams(CQL), n_steps=2, progress=False)

    fields = {**SMALL, "checkpoint_dir": tmp_path, "restore_agent": True}
    with pytest.raises(TypeError, match="'dataset'"):
        CQL(MatchSign(), None, cql.AgentConfig(**fields))
    again = small(CQL, MatchSign(), discrete_data(), checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = again.restore("last")
    resumed, _ = again.train(None, None, runner, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)
    trees.assert_equal(metrics, again.training_metrics)


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

    def session(dataset, in_all_ways=True):
        agent = small(Counting, MatchSign(), dataset, eval_during_training=False)
        traced.clear()
        runner, _ = agent.train(KEY, hyperparams(BC), progress=False)
        if in_all_ways:
            agent.train(None, None, runner, n_steps=3, progress=False)
            agent.sweep(jax.random.split(KEY, 2), hyperparams(BC), progress=False)
            jax.vmap(agent.train, (0, None))(jax.random.split(KEY, 2), hyperparams(BC))
        return len(traced), runner.learner.actor.params

    n_traced, params = session(discrete_data())
    assert n_traced > 0
    n_traced, same_params = session(discrete_data())
    assert n_traced == 0
    trees.assert_equal(params, same_params)
    n_traced, other_params = session(discrete_data(seed=1))
    assert n_traced == 0
    assert not trees.equal(params, other_params)
    n_traced, _ = session(discrete_data(33), in_all_ways=False)
    assert n_traced > 0


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
    env, env_params = gymnax.make("Pendulum-v1")
    whole = np.random.default_rng(0).integers(-5, 6, (32, 3))
    outcomes = []
    for observations in (whole, whole.astype(np.float32)):
        dataset = box_data(
            actions=np.zeros((32, 1), np.float32),
            observations=observations,
            next_observations=observations,
        )
        agent = td3bc.TD3BC(env, env_params, td3bc.AgentConfig(**SMALL), False, dataset=dataset)
        outcomes.append(agent.train(KEY, hyperparams(td3bc.TD3BC), progress=False))
    trees.assert_close(*outcomes)
    (moments,) = outcomes[0][0].learner.actor.extra_variables["observed"]["statistics"]["moments"]
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-6)


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


def test_agents_of_several_datasets_are_not_equal():
    agent = small(BC, MatchSign(), discrete_data())
    for other in (discrete_data(seed=1), discrete_data(33), discrete_data()):
        assert agent != small(BC, MatchSign(), other)


# Bad input.


@pytest.mark.parametrize("missing", [["masks"], ["rewards", "next_observations"], ["actions"]])
def test_keys_that_are_missing_are_named(missing):
    dataset = discrete_data(**dict.fromkeys(missing))
    names = ", ".join(f"'{key}'" for key in missing)
    with pytest.raises(
        KeyError, match=rf"CQL learns from .*, but the dataset lacks \[{names}\]; it"
    ):
        small(CQL, MatchSign(), dataset)


@pytest.mark.parametrize(
    ("observations", "shape"),
    [
        (np.zeros((32, 3), np.float32), r"\(3,\)"),
        (np.zeros(32, np.float32), r"\(\)"),
        ({"state": np.zeros((32, 2), np.float32)}, r"\{'state': \(2,\)\}"),
    ],
)
def test_observations_of_another_shape_are_refused(observations, shape):
    message = (
        rf"dataset's observations have shape {shape}, but those of the environment have \(2,\)"
    )
    with pytest.raises(ValueError, match=message):
        small(BC, MatchSign(), discrete_data(observations=observations))


@pytest.mark.parametrize("dtype", [np.float32, bool])
def test_discrete_actions_that_are_no_integers_are_refused(dtype):
    with pytest.raises(TypeError, match="Discrete actions must be integers, got type"):
        small(BC, MatchSign(), discrete_data(actions=np.ones(32, dtype)))


@pytest.mark.parametrize(("action", "found"), [(2, r"\[0, 2\]"), (-1, r"\[-1, 0\]")])
def test_discrete_actions_that_do_not_exist_are_refused(action, found):
    actions = np.zeros(32, np.int64)
    actions[7] = action
    message = rf"actions lie in {found}, which is not inside of MatchSign's action_space Discrete"
    with pytest.raises(ValueError, match=message):
        small(CQL, MatchSign(), discrete_data(actions=actions))


@pytest.mark.parametrize(("low", "high"), [(-2.0, 1.1), (-2.1, 1.0), (-100.0, 100.0)])
def test_actions_outside_of_the_box_are_refused(low, high):
    actions = np.linspace(low, high, 64, dtype=np.float32).reshape(32, 2)
    message = (
        rf"actions lie in \[{low:g}, {high:g}\], which is not inside of Target's action_space "
        r"Box\(low=-2.0, high=1.0, shape=\(2,\).*must be in the environment's units"
    )
    with pytest.raises(ValueError, match=message):
        small(BC, Target(), box_data(actions=actions))


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


def test_actions_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"actions have shape \(1,\), but those of MatchSign have"):
        small(BC, MatchSign(), discrete_data(actions=np.zeros((32, 1), int)))
    with pytest.raises(ValueError, match=r"actions have shape \(3,\), but those of Target have"):
        small(BC, Target(), box_data(actions=np.zeros((32, 3), np.float32)))


def test_actions_that_are_no_numbers_are_refused():
    actions = np.zeros((32, 2), np.float32)
    actions[7, 1] = np.nan
    with pytest.raises(ValueError, match="The dataset's actions"):
        small(BC, Target(), box_data(actions=actions))


def test_a_dataset_without_rows_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        small(BC, MatchSign(), discrete_data(0))


def test_spaces_that_the_learner_cannot_act_in_are_refused():
    with pytest.raises(
        ValueError, match=r"IQL acts in box spaces, but MatchSign.action_space is Disc"
    ):
        small(IQL, MatchSign(), discrete_data())
    with pytest.raises(ValueError, match=r"BC trains one actor, but MatchSign has 2"):
        small(BC, MatchSign(2), discrete_data())


class Three(MatchSign):
    def action_space(self, params):
        return Discrete(3)


def test_the_number_of_actions_is_that_of_the_environment():
    learner = trained_as_shapes(small(CQL, Three(), discrete_data())).learner  # of data of two
    assert jax.eval_shape(lambda learner: learner.critic(jnp.zeros(2)), learner).shape == (3,)
