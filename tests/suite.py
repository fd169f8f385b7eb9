"""The suite that every agent passes: a file that imports all of it has its tests for its `CASES`.

A test takes every agent as `case`, or only those that learn values as `valued_case`. Where the code
under test is that of all agents of a family, it says `one_of_family`, and takes the first. Where most of
it is that, it says `others_are_slow`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import compilations
from probes import BestAction, KnownBest, MatchSign
from registry import Case, others_are_slow

from jaxagents import load_policy
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)


def pytest_generate_tests(metafunc):
    """Gives tests their agents."""
    cases = metafunc.module.CASES
    if metafunc.definition.get_closest_marker("one_of_family"):
        cases = cases[:1]
    valued = [case for case in cases if case.learns_values]
    for name, chosen in {"case": cases, "valued_case": valued}.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chosen, ids=[case.name for case in chosen])


def make(case: Case, *args, **fields):
    """The agent that most tests train, in one environment, so that there is one program of it."""
    return case.make(KnownBest, *args, max_episode_steps=3, **fields)


@functools.partial(jax.jit, static_argnums=1)
def one_of(trainings, index):
    """One of several trainings, taken from all arrays by one program."""
    return jax.tree.map(lambda x: x[index], trainings)


def test_learns_a_policy_that_depends_on_the_observation_and_values(case):
    """Values of rewards now and later, by what is observed, and over the time limit."""
    agent = make(case)
    runner = agent.start(KEY, case.hyperparams())
    runner = agent.advance(runner, np.int32(500 * case.updates))
    agent.collect_training(runner, {})
    returns = agent.eval(jax.random.key(1), n_evals=64)["returns"]
    # And less than 1 for a choice that does not match the sign.
    np.testing.assert_array_equal(np.unique(returns), [-1.0, 1.0, 3.0])
    if not case.learns_values:
        return
    known = [
        (KnownBest.observation(0), 1.0),
        (KnownBest.observation(0, sign=-1.0), 1.0),
        (KnownBest.observation(1), 1.0),
        (KnownBest.observation(1, sign=-1.0), -1.0),
        (KnownBest.observation(2), 0.5),
        (KnownBest.observation(2, time=1.0), 1.0),
        (KnownBest.observation(3), 2.0),
    ]
    observations, values = zip(*known, strict=True)
    learnt = case.values(agent, observations).reshape(len(known), -1)
    np.testing.assert_allclose(
        learnt, np.repeat(values, learnt.shape[1]).reshape(learnt.shape), atol=0.1
    )


@others_are_slow
def test_evaluates_before_training_at_each_frequency_and_at_the_end(case):
    agent = make(case, n_steps=5, eval_frequency=2)
    runner, metrics = agent.train(KEY, case.hyperparams(), progress=False)
    actors = () if case.n_actors is None else (case.n_actors,)
    np.testing.assert_array_equal(metrics["update_step"], [0, 2, 4, 5])
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 2, 4, 5])
    assert runner.update_step == 5
    assert metrics["returns"].shape == metrics["final_rewards"].shape == (4, 3, *actors)
    assert metrics["terminated"].shape == metrics["lengths"].shape == (4, 3)
    assert np.isnan(metrics[case.loss][0])
    assert np.isfinite(metrics[case.loss][1:]).all()


def test_makes_exactly_the_gradient_steps_it_should(case):
    agent = make(case, n_steps=5)
    runner, _ = agent.train(KEY, case.hyperparams(), progress=False)
    for made, in_one_update in case.gradient_steps(runner).values():
        assert made == 5 * in_one_update


def test_same_seed_same_run(case):
    agent = make(case)
    first, second, other = (
        agent.train(jax.random.key(seed), case.hyperparams(), progress=False) for seed in (3, 3, 4)
    )
    trees.assert_equal(first, second)
    assert not trees.equal(case.acting(first[0]).params, case.acting(other[0]).params)


def test_integers_and_raw_keys_give_the_same_run_as_typed_ones(case):
    agent = make(case)
    typed = agent.train(jax.random.key(3), case.hyperparams(), progress=False)
    for seed in (3, jax.random.PRNGKey(3)):
        trees.assert_equal(typed, agent.train(seed, case.hyperparams(), progress=False))


@pytest.mark.one_of_family
def test_vmapped_over_keys_and_every_hyperparameter_equals_single(case):
    agent = make(case)
    keys = jax.random.split(KEY, 2)[np.array([0, 1, 0])]
    factors = np.float32([1.0, 0.9, 0.8])
    stacked = jax.tree.map(lambda x: np.float32(min(x, 10.0)) * factors, case.hyperparams())
    runners, metrics = jax.vmap(agent.train)(keys, stacked)
    (key, hyperparams), member = one_of(((keys, stacked), (runners, metrics)), 1)
    trees.assert_close(member, agent.train(key, hyperparams, progress=False))
    params = jax.tree.map(np.asarray, case.acting(runners).params)
    first, last = (jax.tree.map(lambda x, i=i: x[i], params) for i in (0, 2))
    assert not trees.equal(first, last)


@pytest.mark.one_of_family
def test_two_devices_that_share_a_training_make_that_of_one(case):
    agent = make(case, False, n_groups=2, replicated_updates=True)
    alone, shared = (
        agent.train(KEY, case.hyperparams(), progress=False, mesh=mesh)
        for mesh in (None, make_mesh(2))
    )
    trees.assert_equal(alone, shared)


@pytest.mark.one_of_family
def test_sweep_equals_single_runs(case, capfd):
    agent = make(case)
    keys = jax.random.split(KEY, 2)
    rates = np.float32([1e-2, 0.0, 1e-3])
    hyperparams = case.hyperparams(learning_rate=rates)
    result = agent.sweep(keys, hyperparams)
    shown = capfd.readouterr().err
    assert "5/5" in shown
    assert result.metrics["returns"].shape[:3] == (3, 2, 4)
    key, member = keys[1], one_of((result.runners, result.metrics), (2, 1))
    one = case.hyperparams(learning_rate=rates[2])
    trees.assert_equal(member, agent.train(key, one, progress=False))
    last = result.metrics["returns"][:, :, -1]
    assert result.best == np.argmax(last.reshape(3, -1).mean(axis=1))
    of_members = last.reshape(6, -1).mean(axis=1)
    assert f"returns {of_members.min():.4g} to {of_members.max():.4g}" in shown
    assert case.learning_rate_of(result.best_hyperparams) == rates[result.best]


@others_are_slow
def test_going_on_from_a_runner_equals_one_run(case):
    agent = make(case)
    whole, _ = agent.train(KEY, case.hyperparams(), n_steps=4, progress=False)
    half, _ = agent.train(KEY, case.hyperparams(), n_steps=2, progress=False)
    resumed, metrics = agent.train(None, None, half, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)
    np.testing.assert_array_equal(metrics["update_step"], [2, 4])
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 2, 4])


@others_are_slow
def test_restored_from_disk_equals_one_run(case, tmp_path):
    uninterrupted = make(case)
    whole, metrics = uninterrupted.train(KEY, case.hyperparams(), n_steps=4, progress=False)
    agent = make(case, checkpoint_dir=tmp_path)
    agent.train(KEY, case.hyperparams(), n_steps=2, progress=False)

    again = make(case, checkpoint_dir=tmp_path, restore_agent=True)
    runner, history = again.restore("last")
    assert again.agent_trained
    assert again.previous_training_max_step == 2
    np.testing.assert_array_equal(history["update_step"], [0, 2])
    resumed, _ = again.train(None, case.hyperparams(), runner, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)
    trees.assert_equal(metrics, again.training_metrics)


def test_new_hyperparameters_take_effect_when_going_on(case):
    agent = make(case)
    runner, _ = agent.train(KEY, case.hyperparams(), n_steps=2, progress=False)
    frozen = case.hyperparams(learning_rate=0.0)
    after, _ = agent.train(None, frozen, runner, n_steps=2, progress=False)
    trees.assert_equal(case.acting(runner).params, case.acting(after).params)
    assert all(step > 0 for step, _ in case.gradient_steps(after).values())


def test_the_returned_state_can_be_trained_outside(case):
    agent = make(case)
    runner, _ = agent.train(KEY, case.hyperparams(), n_steps=2, progress=False)
    actor = case.acting(runner)
    ones = jax.tree.map(jnp.ones_like, actor.params)
    moved = jax.jit(type(actor).apply_gradients)(actor, grads=ones)
    assert moved.step == actor.step + 1
    assert not trees.equal(moved.params, actor.params)


@others_are_slow
def test_equal_agents_compile_nothing_new(case):
    def session(learning_rate: float) -> list[str]:
        hyperparams = case.hyperparams(learning_rate=learning_rate)
        agent = make(case)
        with compilations() as made:
            runner, _ = agent.train(KEY, hyperparams, progress=False)
            agent.train(None, hyperparams, runner, n_steps=3, progress=False)
            agent.eval(KEY, n_evals=64)
            agent.sweep(jax.random.split(KEY, 2), hyperparams, progress=False)
        return made

    with compilations() as made:
        jax.jit(lambda x: x + 1.0)(0.0)
    assert made  # it would notice
    session(1e-3)
    assert not session(2e-3)


@others_are_slow
def test_is_frozen_and_equal_by_value(case, tmp_path):
    agent = make(case)
    with pytest.raises(AttributeError, match="frozen: 'config' cannot be set"):
        agent.config = case.config()
    with pytest.raises(AttributeError, match="frozen"):
        del agent.env
    assert agent == make(case)
    assert hash(agent) == hash(make(case))
    assert agent != case.make(BestAction)
    assert agent != make(case, n_steps=6)
    assert agent.program == make(case, checkpoint_dir=tmp_path).program


@others_are_slow
def test_an_exported_policy_acts_as_the_agent(case, tmp_path):
    agent = make(case)
    agent.train(KEY, case.hyperparams(), n_steps=2, progress=False)
    agent.export_policy(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    acting = agent._acting(agent.training_runner)
    reset = jax.jit(jax.vmap(agent.episodes.reset))
    obs, _ = reset(jax.random.split(jax.random.key(3), 5))
    expected = np.asarray(jax.jit(jax.vmap(lambda obs: agent.policy(acting, obs)))(obs))
    one = jnp.asarray(np.asarray(obs)[2])
    trees.assert_close(policy(obs), expected)
    trees.assert_close(policy(np.asarray(one)), expected[2])
    trees.assert_close(agent.policy(one), expected[2])
    trees.assert_close(agent.policy(acting, obs=one), expected[2])
    drawn = policy(obs, jax.random.key(1))
    assert drawn.shape == expected.shape
    trees.assert_equal(drawn, policy(obs, jax.random.key(1)))
    assert policy.metadata["agent"] == type(agent).__name__
    assert policy.metadata["environment"] == "KnownBest"


@others_are_slow
def test_draws_actions_if_asked(case):
    agent = make(case)
    agent.train(KEY, case.hyperparams(0.0), n_steps=2, progress=False)
    greedy, drawn = (
        agent.eval(KEY, n_evals=64, deterministic=deterministic)["returns"]
        for deterministic in (True, False)
    )
    assert greedy.shape == drawn.shape
    assert (greedy != drawn).any()


def test_refuses_to_act_untrained(case):
    agent = case.make(MatchSign)
    for act in (lambda: agent.eval(KEY), lambda: agent.policy(jnp.zeros(2))):
        with pytest.raises(RuntimeError, match="has not been trained"):
            act()


def test_refuses_hyperparameters_out_of_range(case):
    agent = case.make(MatchSign)
    negative = case.hyperparams(learning_rate=-1.0)
    for train in (agent.train, lambda *args: agent.sweep(jax.random.split(*args[:1], 2), args[1])):
        with pytest.raises(ValueError, match=r"learning_rate must lie in \[0, inf\), got -1"):
            train(KEY, negative)


def test_refuses_discounts_out_of_range(valued_case):
    agent = valued_case.make(MatchSign)
    with pytest.raises(ValueError, match=r"gamma must lie in \[0, 1\], got 1.5"):
        agent.train(KEY, valued_case.hyperparams(gamma=1.5))


def test_refuses_hyperparameters_and_keys_that_are_none(case):
    agent = case.make(MatchSign)
    with pytest.raises(TypeError, match=r" takes a jaxagents.*Hyper[pP]arameters, got 3"):
        agent.train(KEY, 3)
    with pytest.raises(
        TypeError, match=r"Expected a random key such as jax.random.key\(0\), got 3.5"
    ):
        agent.train(3.5, case.hyperparams())


def test_describes_itself(case):
    text = str(case.make(MatchSign))
    assert text.startswith(f"{case.agent.__name__} on MatchSign")
    assert case.size in text
    described = case.make(MatchSign).log_hyperparams(case.hyperparams())
    assert f"learning_rate: {case.learning_rate:g}" in described
