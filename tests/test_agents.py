"""The suite of all agents: whole for one of each family, and for the others where they differ."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import compilations
from probes import BestAction, KnownBest
from registry import AGENTS, FAMILIES, OfflineCase

from jaxagents import load_policy, ops
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
PPO, REINFORCE = (case for case in AGENTS if case.name in ("PPO", "REINFORCE"))
every_agent = pytest.mark.parametrize("case", AGENTS, ids=lambda case: case.name)
WHOLE = [family[0] for family in FAMILIES]
SHARED = [case for case in WHOLE if case.name != "SAC"]
"""Devices collect as in DQN, and learn with an actor and critics as in IQL."""
one_of_each_family = pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.name)
the_smallest = pytest.mark.parametrize("case", [REINFORCE], ids=["REINFORCE"])
KNOWN = [
    (KnownBest.observation(0), 1.0),
    (KnownBest.observation(0, sign=-1.0), 1.0),
    (KnownBest.observation(1), 1.0),
    (KnownBest.observation(1, sign=-1.0), -1.0),
    (KnownBest.observation(2), 0.5),
    (KnownBest.observation(2, time=1.0), 1.0),
    (KnownBest.observation(3), 2.0),
]
"""Observations and their values: of rewards now and later, and over the time limit."""
OBSERVATIONS, VALUES = (np.array(column, np.float32) for column in zip(*KNOWN, strict=True))


def make(case, evaluates=True, **fields):
    """The agent that all tests train, in one environment, so that there is one program of it."""
    fields |= {"max_episode_steps": 3, "n_evals": 32}
    if case in WHOLE:  # also what meets devices, checkpoints and sweeps
        fields |= {"n_groups": 2, "replicated_updates": True, "normalise_observations": True}
        fields |= {} if isinstance(case, OfflineCase) else {"normalise_rewards": True}
        fields |= {"normalise_values": True} if case is PPO else {}
        fields |= {"prioritised_replay": True} if case.name == "DQN" else {}
    return case.make(KnownBest, evaluates, **fields)


@functools.cache
def learnt(case):
    """An agent that has learned, whose programs are kept for the other tests."""
    agent = make(case)
    runner = agent.start(KEY, case.hyperparams())
    agent.collect_training(agent.advance(runner, np.int32(case.updates)), {})
    return agent


@functools.cache
def five_updates(case):
    """The runner and metrics of a short training."""
    learnt(case)
    return make(case).train(KEY, case.hyperparams(), progress=False)


def actions_of(agent):
    """The greedy actions for `OBSERVATIONS`."""
    return np.asarray(jax.jit(jax.vmap(agent.policy))(OBSERVATIONS))


def member(trainings, *index):
    """One of several runs."""
    return jax.tree.map(lambda x: x[index], jax.device_get(trainings))


def stacked(case):
    """Three sets of hyperparameters, which differ in every number."""
    factors = np.float32([1.0, 0.9, 0.8])
    return jax.tree.map(lambda x: np.float32(min(x, 10.0)) * factors, case.hyperparams())


def in_rewards(agent, values):
    """Values in the environment's reward units, for agents that learn normalised values."""
    runner = agent.training_runner
    if getattr(runner, "targets", ()):
        values = ops.denormalise(jnp.asarray(values), runner.targets)
    return values * np.sqrt(runner.returns.variance) if getattr(runner, "returns", ()) else values


@every_agent
def test_learns_a_policy_that_depends_on_the_observation_and_values(case):
    agent = learnt(case)

    @jax.jit
    def actions_and_values(observations):
        values = case.values(agent, observations) if case.learns_values else ()
        return jax.vmap(agent.policy)(observations), values

    actions, values = jax.tree.map(np.asarray, actions_and_values(OBSERVATIONS))
    actions = actions[:2].reshape(2, -1)
    is_one = actions > 0.0 if case.continuous else actions == 1
    np.testing.assert_array_equal(is_one, np.broadcast_to([[True], [False]], is_one.shape))
    for made, in_one_update in case.gradient_steps(agent).values():
        assert made == case.updates * in_one_update
    if case.learns_values:
        found = values.reshape(len(KNOWN), -1)
        np.testing.assert_allclose(in_rewards(agent, found) - VALUES[:, None], 0.0, atol=0.1)


@one_of_each_family
def test_new_hyperparameters_take_effect_when_going_on(case):
    agent = make(case)
    before = learnt(case).training_runner
    copied = jax.device_put(before, may_alias=False)
    runner = agent.restart(copied, case.hyperparams(learning_rate=0.0))
    after = agent.advance(runner, np.int32(2))
    assert after.update_step == case.updates + 2
    trees.assert_equal(case.acting(before).params, case.acting(after).params)


@every_agent
def test_describes_itself_and_says_which_hyperparameters_are_wrong(case):
    agent = make(case)
    assert str(agent).startswith(f"{case.agent.__name__} on KnownBest")
    assert case.size in str(agent)
    assert f"learning_rate: {case.learning_rate:g}" in agent.log_hyperparams(case.hyperparams())
    mistakes = [(r"learning_rate must lie in \[0, inf\), got -1", {"learning_rate": -1.0})]
    if case.learns_values:
        mistakes.append((r"gamma must lie in \[0, 1\], got 1.5", {"gamma": 1.5}))
    for message, fields in mistakes:
        for begin, keys in ((agent.train, KEY), (agent.sweep, jax.random.split(KEY, 2))):
            with pytest.raises(ValueError, match=message):
                begin(keys, case.hyperparams(**fields))
    with pytest.raises(TypeError, match=r" takes a jaxagents.*Hyper[pP]arameters, got 3"):
        agent.train(KEY, 3)


@one_of_each_family
def test_evaluates_before_training_at_each_frequency_and_at_the_end(case):
    runner, metrics = five_updates(case)
    agent = learnt(case)
    returns = agent.evaluate(agent.training_runner)["returns"]
    # And less than 1 for a choice that does not match the sign.
    np.testing.assert_array_equal(np.unique(returns), [-1.0, 1.0, 3.0])
    np.testing.assert_array_equal(metrics["update_step"], [0, 2, 4, 5])
    assert runner.update_step == 5
    assert metrics["returns"].shape == metrics["final_rewards"].shape == (4, 32)
    assert metrics["terminated"].shape == metrics["lengths"].shape == (4, 32)
    assert np.isnan(metrics[case.loss][0])
    assert np.isfinite(metrics[case.loss][1:]).all()


@one_of_each_family
def test_same_seed_of_any_type_same_run(case):
    expected = five_updates(case)
    for seed in (KEY, 0, jax.random.PRNGKey(0)):
        again = make(case).train(seed, case.hyperparams(), progress=False)
        trees.assert_equal(again, expected)
    other, _ = make(case).train(4, case.hyperparams(), progress=False)
    assert not trees.equal(case.acting(other).params, case.acting(expected[0]).params)


@one_of_each_family
def test_going_on_from_a_runner_or_from_disk_equals_one_run(case, tmp_path):
    whole, metrics = make(case).train(KEY, case.hyperparams(), n_steps=4, progress=False)
    agent = make(case, checkpoint_dir=tmp_path)
    half, _ = agent.train(KEY, case.hyperparams(), n_steps=2, progress=False)
    kept = jax.device_put(half, may_alias=False)
    again = make(case, checkpoint_dir=tmp_path, restore_agent=True)
    runner, history = again.restore("last")
    assert again.agent_trained
    assert again.previous_training_max_step == 2
    np.testing.assert_array_equal(history["update_step"], [0, 2])
    again.train(None, None, runner, n_steps=2, progress=False)
    trees.assert_equal(again.training_runner, whole)
    trees.assert_equal(again.training_metrics, metrics)
    resumed, since = make(case).train(None, None, half, n_steps=2, progress=False)
    trees.assert_equal(resumed, whole)
    trees.assert_equal(half, kept)
    np.testing.assert_array_equal(since["update_step"], [2, 4])


@the_smallest
def test_vmapped_over_keys_and_every_hyperparameter_equals_single(case):
    """As the members of a sweep are, for one of each family below."""
    keys = jax.random.split(KEY, 3)
    runners, metrics = jax.vmap(make(case).train)(keys, stacked(case))
    alone = make(case).train(keys[1], member(stacked(case), 1), progress=False)
    trees.assert_close(member((runners, metrics), 1), alone)


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case.name)
def test_two_devices_that_share_a_training_make_that_of_one(case):
    agent = make(case, evaluates=False)
    shared, _ = agent.train(KEY, case.hyperparams(), progress=False, mesh=make_mesh(2))
    trees.assert_equal(shared, five_updates(case)[0])


@one_of_each_family
def test_a_sweep_over_keys_and_every_hyperparameter_equals_single_runs(case, capfd):
    agent, keys, hyperparams = make(case), jax.random.split(KEY, 2), stacked(case)
    result = agent.sweep(keys, hyperparams)
    shown = capfd.readouterr().err
    assert "5/5" in shown
    assert result.metrics["returns"].shape[:3] == (3, 2, 4)
    alone = agent.train(keys[1], member(hyperparams, 2), progress=False)
    trees.assert_equal(member((result.runners, result.metrics), 2, 1), tuple(alone))
    params = case.acting(result.runners).params
    assert not trees.equal(member(params, 0, 1), member(params, 2, 1))
    last = result.metrics["returns"][:, :, -1]
    assert result.best == np.argmax(last.reshape(3, -1).mean(axis=1))
    of_members = last.reshape(6, -1).mean(axis=1)
    assert f"returns {of_members.min():.4g} to {of_members.max():.4g}" in shown
    rates = case.learning_rate_of(hyperparams)
    assert case.learning_rate_of(result.best_hyperparams) == rates[result.best]


@one_of_each_family
def test_equal_agents_compile_nothing_new(case):
    def session(factor):
        hyperparams = case.hyperparams(learning_rate=1e-3 * factor)
        members = jax.tree.map(lambda x: factor * x, stacked(case))
        agent, keys = make(case), jax.random.split(KEY, 2)
        with compilations() as made:
            runner, _ = agent.train(KEY, hyperparams, progress=False)
            agent.train(None, hyperparams, runner, n_steps=3, progress=False)
            agent.eval(KEY, deterministic=False)
            agent.sweep(keys, members, progress=False)
        return made

    with compilations() as made:
        jax.jit(lambda x: x + 1.0)(0.0)
    assert made  # it would notice
    session(1.0)
    assert not session(np.float32(0.9))


@one_of_each_family
def test_is_frozen_and_equal_by_value(case, tmp_path):
    agent = make(case)
    with pytest.raises(AttributeError, match="frozen: 'config' cannot be set"):
        agent.config = case.config()
    with pytest.raises(AttributeError, match="frozen"):
        del agent.env
    assert agent == make(case)
    assert hash(agent) == hash(make(case))
    assert isinstance(case, OfflineCase) or agent != case.make(BestAction)
    assert agent != make(case, n_steps=6)
    assert agent.program == make(case, checkpoint_dir=tmp_path).program


@one_of_each_family
def test_draws_actions_if_asked(case):
    agent = make(case)
    agent.collect_training(*five_updates(case))
    drawn = agent.eval(KEY, deterministic=False)["returns"]
    greedy = agent.training_metrics["returns"][-1]  # of the same episodes
    assert drawn.shape == greedy.shape
    assert (drawn != greedy).any()


@one_of_each_family
def test_an_exported_policy_acts_as_the_agent(case, tmp_path):
    agent = learnt(case)
    agent.export_policy(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    expected = actions_of(agent)
    trees.assert_close(policy(OBSERVATIONS), expected)
    trees.assert_close(policy(OBSERVATIONS[2]), expected[2])
    drawn = policy(OBSERVATIONS, KEY)
    assert drawn.shape == expected.shape
    trees.assert_equal(drawn, policy(OBSERVATIONS, KEY))
    assert policy.metadata["agent"] == type(agent).__name__
    assert policy.metadata["environment"] == "KnownBest"


@one_of_each_family
def test_updates_are_lowered_for_accelerators(case):
    agent = make(case)
    runner = jax.eval_shape(agent.program.start, KEY, case.hyperparams())
    data = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), agent.data)

    def advance(runner, n_updates, data):
        return agent.program.with_data(data).advance(runner, n_updates)

    traced = jax.jit(advance).trace(runner, np.int32(1), data)
    assert "stablehlo.while" in traced.lower(lowering_platforms=("cuda", "tpu")).as_text()


@the_smallest
def test_vmapped_seeds_decompose_one_matrix_at_a_time(case):
    """A batched QR decomposition can freeze XLA's CPU backend."""
    keys = jax.random.split(KEY, (2, 3))
    start = jax.vmap(jax.vmap(make(case).start, (0, None)), (0, None))
    program = jax.jit(start).lower(keys, case.hyperparams()).as_text()
    decompositions = re.findall(r"@lapack_sgeqrf.*-> \(tensor<([0-9x]+)xf32>", program)
    assert decompositions
    assert all(shape.count("x") == 1 for shape in decompositions)
