"""Schedules of hyperparameters."""

import jax
import numpy as np
from learner_registry import LEARNERS
from probes import MatchSign
from registry import AGENTS
from trees import assert_close, assert_equal

from jaxagents import LinearSchedule, PiecewiseSchedule, a2c, dqn
from jaxagents.core.hyperparameters import has_schedules
from jaxagents.learners.optimizer import OptimizerParams

CASES = {case.name: case for case in AGENTS}
KEY = jax.random.key(0)
N = 5


def make(name="DQN", **fields):
    """A small agent. Agents of the same name are equal and share programs. Only DQN is evaluated."""
    return CASES[name].make(MatchSign, name == "DQN", **fields)


def scheduled(rate):
    """Learning rates that rise to a number and fall to zero, and another schedule."""
    return dqn.HyperParameters(
        epsilon=LinearSchedule(1.0, 0.0, N),
        epsilon_steps=0.0,
        critic_learning_rate=PiecewiseSchedule((0.0, rate, 0.0), (0, 2, N)),
    )


SCHEDULED = scheduled(1e-2)


def reached(agent, hyperparams, n_updates=N):
    return agent.advance(agent.start(KEY, hyperparams), n_updates)


def stepwise(agent, hyperparams):
    """A run whose hyperparameters are replaced by hand before each update."""
    runner = agent.start(KEY, hyperparams.at(0))
    for step in range(N):
        runner = agent.advance(agent.restart(runner, hyperparams.at(step)), 1)
    return runner


def test_each_update_has_its_numbers():
    agent = make()
    runner, by_hand = reached(agent, SCHEDULED), stepwise(agent, SCHEDULED)
    assert_equal(agent.vital_arrays(runner), agent.vital_arrays(by_hand))
    assert has_schedules(runner.hyperparams)
    params = jax.tree.map(np.asarray, runner.learner.critic.params)
    assert_equal(params, agent.advance(runner, 2).learner.critic.params)  # at a rate of zero


def test_on_policy_agents_have_schedules_in_optimizers_and_losses():
    optimizer = OptimizerParams(learning_rate=LinearSchedule(1e-2, 0.0, 2))
    params = {"actor_optimizer_params": optimizer, "critic_optimizer_params": optimizer}
    hyperparams = a2c.HyperParameters(ent_coeff=LinearSchedule(0.2, 0.0, N), **params)
    agent = make("A2C")
    runner = reached(agent, hyperparams, 2)
    actor = jax.tree.map(np.asarray, runner.actor_training.params)
    after = agent.advance(runner, 1)
    assert_equal(actor, after.actor_training.params)
    assert has_schedules(after.hyperparams)
    for network in (after.actor_training, after.critic_training):
        rates = [
            float(x)
            for path, x in jax.tree_util.tree_leaves_with_path(network.opt_state)
            if "learning_rate" in jax.tree_util.keystr(path)
        ]
        assert rates
        assert not any(rates)


def test_members_of_a_sweep_have_schedules_of_their_own():
    agent = make()
    result = agent.sweep(KEY[None], scheduled(np.array([1e-3, 1e-2])), progress=False)
    member = jax.tree.map(lambda x: x[1, 0], result.runners)
    alone = reached(agent, SCHEDULED)
    assert_equal(agent.vital_arrays(member), agent.vital_arrays(alone))
    assert isinstance(result.best_hyperparams.critic_learning_rate, PiecewiseSchedule)


def test_interrupted_trainings_are_the_same_or_go_on_with_numbers(tmp_path):
    agent = make(checkpoint_dir=tmp_path, restore_agent=True)
    agent.train(KEY, SCHEDULED, n_steps=2, progress=False)
    resumed, metrics = agent.resume(KEY, SCHEDULED, progress=False)
    assert np.isfinite(metrics["returns"]).all()
    whole = reached(make(), SCHEDULED)
    assert_equal(resumed.replace(info={}), whole.replace(info={}))
    restored, _ = agent.restore("last")
    assert_equal(restored.hyperparams, whole.hyperparams)
    assert "PiecewiseSchedule" in (tmp_path / "hyperparameters.json").read_text()
    for hyperparams in (CASES["DQN"].hyperparams(), SCHEDULED):
        restored, _ = make().train(None, hyperparams, restored, n_steps=1, progress=False)
        assert has_schedules(restored.hyperparams) == has_schedules(hyperparams)


def test_learners_count_their_own_updates():
    rate = LinearSchedule(1e-2, 0.0, 3)
    row = LEARNERS["DQN"]
    learner = row.create(critic_learning_rate=rate, epsilon=LinearSchedule(1.0, 0.0, 3))
    batches = row.batch(4, 16)
    at_once, _ = learner.update_many(batches)
    for i in range(4):
        before = learner
        learner, _ = learner.update(jax.tree.map(lambda x, i=i: x[i], batches))
        assert learner.critic.opt_state.hyperparams["learning_rate"] == rate(i)
    assert int(learner.n_updates) == int(at_once.n_updates) == 4
    assert_equal(learner.critic.params, before.critic.params)  # the last rate was zero
    assert_close(learner.critic, at_once.critic)
    obs = batches["observations"][0]
    greedy = learner.sample_actions(obs)  # as all are by now
    np.testing.assert_array_equal(learner.sample_actions(obs, seed=KEY), greedy)


def test_a_new_buffer_is_filled_at_the_present_epsilon():
    agent = make(checkpoint_buffer=False)
    runner = reached(make(), SCHEDULED)  # by when it is zero
    refilled = jax.jit(agent.refill)(agent.checkpointed(runner))
    assert has_schedules(refilled.hyperparams)
    rows = refilled.buffer.to_dataset()
    greedy = np.asarray(refilled.learner.q(rows["observations"])).argmax(axis=-1)
    np.testing.assert_array_equal(rows["actions"], greedy)
