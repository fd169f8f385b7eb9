"""Schedules of hyperparameters in trainings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import MatchSign
from registry import AGENTS
from trees import assert_equal

from jaxagents import DQN, DQNLearner, LinearSchedule, PiecewiseSchedule, dqn
from jaxagents.core.schedules import has_schedules
from jaxagents.learners.optimizer import OptimizerParams

CASES = {case.name: case for case in AGENTS}
KEY = jax.random.key(0)
N = 5


def make(name, **fields):
    """A small agent; those of a name are equal, and share programs. Only DQN is evaluated."""
    return CASES[name].make(MatchSign, name == "DQN", **fields)


def ppo_hyperparams(rate, **fields):
    optimizer = OptimizerParams(learning_rate=rate)
    params = {"actor_optimizer_params": optimizer, "critic_optimizer_params": optimizer}
    return CASES["PPO"].agent._hyperparams_type(**params, **fields)


def reached(agent, hyperparams, n_updates=N):
    return agent.advance(agent.start(KEY, hyperparams), n_updates)


def stepwise(agent, hyperparams, n_updates=N):
    """A training whose hyperparameters are replaced by hand before each update."""
    runner = agent.start(KEY, hyperparams.at(0))
    for step in range(n_updates):
        runner = agent.advance(agent.restart(runner, hyperparams.at(step)), 1)
    return runner


def scheduled_ppo(rate):
    """Learning rates from a number to zero, beside another schedule."""
    clip = LinearSchedule(0.2, 0.0, N)
    return ppo_hyperparams(LinearSchedule(rate, 0.0, N), eps_clip=clip)


def scheduled_dqn(rate):
    """Learning rates up to a number and back to zero, beside another schedule."""
    return dqn.HyperParameters(
        epsilon=LinearSchedule(1.0, 0.0, N),
        epsilon_steps=0.0,
        critic_learning_rate=PiecewiseSchedule((0.0, rate, 0.0), (0, 2, N)),
    )


OF_RATE = {"PPO": scheduled_ppo, "DQN": scheduled_dqn}
OF_FUNCTION = CASES["discrete BC"].hyperparams(lambda t: 2.0**-7 * (N - t))
SCHEDULED = {
    "PPO": scheduled_ppo(1e-2),
    "DQN": scheduled_dqn(1e-2),
    "discrete BC": OF_FUNCTION,
}


@pytest.mark.parametrize("name", SCHEDULED)
@pytest.mark.slow_except("DQN")
def test_each_update_has_its_numbers(name):
    agent, hyperparams = make(name), SCHEDULED[name]
    runner, by_hand = reached(agent, hyperparams), stepwise(agent, hyperparams)
    assert_equal(agent.vital_arrays(runner), agent.vital_arrays(by_hand))
    assert has_schedules(runner.hyperparams)


def test_a_learning_rate_of_zero_learns_nothing():
    agent = make("PPO")
    done = reached(agent, SCHEDULED["PPO"])
    params = jax.tree.map(np.asarray, done.actor_training.params)
    assert_equal(params, agent.advance(done, 2).actor_training.params)


def test_agents_train_evaluate_and_act_with_schedules():
    agent = make("DQN")
    runner, metrics = agent.train(KEY, SCHEDULED["DQN"], progress=False)
    assert np.isfinite(metrics["returns"]).all()
    assert np.isfinite(agent.eval(KEY, 2, deterministic=False)["returns"]).all()
    drawing = make("DQN", eval_deterministic=False).program
    assert drawing.shapes_of_metrics(runner)["returns"].shape == metrics["returns"].shape[1:]
    _, obs, _ = agent.env_reset(KEY)
    agent.policy(obs), agent.learner.sample_actions(obs, seed=KEY)
    assert int(agent.learner.n_updates) == int(runner.update_step) == N


@pytest.mark.parametrize("name", ["PPO", "DQN"])
@pytest.mark.slow_except("DQN")
def test_vmapped_trainings_have_schedules_of_their_own(name):
    agent, hyperparams = CASES[name].make(MatchSign, False), OF_RATE[name]

    def train(rate):
        runner, _ = agent.train(KEY, hyperparams(rate))
        return agent.vital_arrays(runner)

    many = jax.vmap(train)(jnp.array([1e-3, 1e-2]))
    alone = agent.vital_arrays(reached(make(name), hyperparams(1e-2)))
    for x, y in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(x[1], y, atol=1e-4)


def test_sweeps_over_the_number_of_a_schedule():
    agent = make("PPO")
    rates = scheduled_ppo(np.array([1e-3, 1e-2]))
    result = CASES["PPO"].make(MatchSign).sweep(KEY[None], rates, progress=False)
    alone = reached(agent, scheduled_ppo(1e-2))
    member = jax.tree.map(lambda x: x[1, 0], result.runners)
    assert_equal(agent.vital_arrays(member), agent.vital_arrays(alone))
    best = result.best_hyperparams.actor_optimizer_params.learning_rate
    assert isinstance(best, LinearSchedule)


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_interrupted_trainings_are_the_same(name, tmp_path):
    hyperparams, folder = SCHEDULED[name], {"checkpoint_dir": tmp_path, "restore_agent": True}
    agent = make(name, **folder)
    agent.train(KEY, hyperparams, n_steps=2, progress=False)
    again = make(name, **folder)
    resumed, _ = again.resume(KEY, hyperparams, progress=False)
    whole = reached(make(name), hyperparams)
    assert_equal(resumed.replace(info={}), whole.replace(info={}))
    restored, _ = make(name, **folder).restore("last")
    assert_equal(restored.hyperparams, whole.hyperparams)
    assert "LinearSchedule" in (tmp_path / "hyperparameters.json").read_text()


@pytest.mark.parametrize("begins_with_numbers", [True, False])
def test_a_training_goes_on_with_numbers_or_schedules(begins_with_numbers, tmp_path):
    both = [ppo_hyperparams(1e-2), SCHEDULED["PPO"]]
    first, second = both if begins_with_numbers else reversed(both)
    agent = make("PPO", checkpoint_dir=tmp_path, restore_agent=True)
    agent.train(KEY, first, n_steps=2, progress=False)
    runner, _ = agent.resume(KEY, second, progress=False)
    assert runner.update_step == N
    assert has_schedules(runner.hyperparams) == has_schedules(second)


def test_a_function_cannot_be_restored_without_it(tmp_path):
    agent = make("discrete BC", checkpoint_dir=tmp_path, restore_agent=True)
    agent.train(KEY, OF_FUNCTION, n_steps=2, progress=False)
    with pytest.raises(ValueError, match=r"learning_rate was a FunctionSchedule .* give the hyper"):
        agent.restore("last")
    agent.restore("last", hyperparams=OF_FUNCTION)


def batch_of(n):
    obs = np.random.default_rng(0).normal(size=(n, 8, 3)).astype(np.float32)
    numbers = np.ones((n, 8), np.float32)
    return {
        "observations": obs,
        "next_observations": obs,
        "actions": np.zeros((n, 8), np.int32),
        "rewards": numbers,
        "masks": numbers,
    }


def test_learners_count_their_own_updates():
    rate = LinearSchedule(1e-2, 0.0, 3)
    kwargs = {"n_actions": 2, "features": (8,), "epsilon": LinearSchedule(1.0, 0.0, 3)}
    learner = DQNLearner.create(0, jnp.zeros(3), 0, critic_learning_rate=rate, **kwargs)
    batches = batch_of(4)
    at_once, _ = learner.update_many(batches)
    for i in range(4):
        expected = rate(i)
        before = learner
        learner, _ = learner.update(jax.tree.map(lambda x, i=i: x[i], batches))
        assert learner.critic.opt_state.hyperparams["learning_rate"] == expected
    assert int(learner.n_updates) == int(at_once.n_updates) == 4
    assert_equal(learner.critic.params, before.critic.params)  # the last rate was zero
    for x, y in zip(*map(jax.tree.leaves, (learner.critic, at_once.critic)), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    obs = jnp.zeros((64, 3))
    np.testing.assert_array_equal(
        learner.sample_actions(obs, seed=KEY), learner.sample_actions(obs)
    )


def test_a_new_buffer_is_filled_at_the_present_epsilon():
    agent = make("DQN", checkpoint_buffer=False)
    assert isinstance(agent, DQN)
    runner = reached(make("DQN"), SCHEDULED["DQN"])
    refilled = jax.jit(agent.refill)(agent.checkpointed(runner))
    assert has_schedules(refilled.hyperparams)
    assert int(refilled.learner.n_updates) == N
