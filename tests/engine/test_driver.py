"""Driving a run: interruption, progress, logs, seeds, members, threads, and the agent's attributes."""

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import compilations
from gymnasium_probes import Walk, Walks
from probes import MatchSign
from registry import AGENTS
from saved_runs import CASE, make, outcome_of

from jaxagents import A2C, verify
from jaxagents.checkpoints.records import saved_steps
from jaxagents.engine.executors import OnDevice
from jaxagents.engine.members import MembersOnDevices
from jaxagents.sharding import make_mesh

CASES = {case.name: case for case in AGENTS}
KEY, KEY_3 = jax.random.key(0), jax.random.key(3)


class InterruptingLogger:
    def __init__(self, at=None):
        self.at = at
        self.logged = []

    def log(self, step, metrics):
        self.logged.append((step, metrics))
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_training_returns_what_it_has_and_says_where_it_was(capfd):
    agent = make()
    many = {"n_steps": 100, "loggers": [InterruptingLogger(at=2)]}
    runner, metrics = agent.train(KEY, CASE.hyperparams(), progress=True, **many)
    shown, stopped = capfd.readouterr().err, int(runner.update_step)
    assert 2 < stopped < 100
    assert f"| {stopped}/100 [" in shown.split("REINFORCE on MatchSign, stopped:")[1]
    assert "nothing is lost" not in shown
    np.testing.assert_array_equal(metrics["update_step"], [0, 2])
    assert agent.previous_training_max_step == stopped
    assert agent.eval(KEY)["returns"].shape == (32,)
    whole, _ = agent.train(KEY, CASE.hyperparams(), n_steps=stopped + 3, progress=False)
    resumed, _ = agent.train(None, None, runner, n_steps=3, progress=False)
    trees.assert_equal(whole, resumed)
    agent.train(KEY, CASE.hyperparams(), progress=False, **many)
    assert capfd.readouterr().err == ""


def test_an_interruption_while_programs_are_compiled_is_noted(tmp_path, monkeypatch):
    start = OnDevice.start

    def interrupted(*args):
        os.kill(os.getpid(), signal.SIGINT)
        return start(*args)

    monkeypatch.setattr(OnDevice, "start", interrupted)
    agent = make(tmp_path, restore_agent=False)
    agent.train(KEY, CASE.hyperparams(), n_steps=500, progress=False)
    stopped = agent.previous_training_max_step
    assert stopped < 500
    assert saved_steps(tmp_path)[-1] == stopped


def test_loggers_get_the_mean_of_every_metric_and_a_bar_shows_progress(capfd):
    logger = InterruptingLogger()
    _, metrics = make().train(KEY, CASE.hyperparams(), loggers=[logger])
    assert [step for step, _ in logger.logged] == metrics["update_step"].tolist()
    first, last = logger.logged[0][1], logger.logged[-1][1]
    assert "actor_loss" not in first  # there is none before an update
    assert np.isfinite(list(first.values())).all()
    np.testing.assert_allclose(last["returns"], metrics["returns"][-1].mean(), rtol=1e-6)
    np.testing.assert_allclose(last["actor_loss"], metrics["actor_loss"][-1], rtol=1e-6)
    points = dict(logger.logged)
    assert [points[step]["env_steps"] for step in (0, 6)] == [0, 384]
    assert 0.0 < first["seconds"] < last["seconds"]
    assert "steps_per_second" not in first
    assert last["steps_per_second"] > 0.0
    assert not {"env_steps", "seconds", "steps_per_second"} & metrics.keys()
    shown = capfd.readouterr().err
    assert "REINFORCE on MatchSign: 100%" in shown
    assert "6/6" in shown
    assert shown.count("6 updates x 64 steps = 384 environment steps\n") == 1


def test_shows_progress_inside_of_a_compiled_program_if_asked(capfd):
    case = CASES["BC"]
    agent, hyperparams = case.make(MatchSign, False, n_steps=6, features=()), case.hyperparams()
    silent = jax.jit(agent.train).trace(KEY, hyperparams)
    assert not silent.jaxpr.effects  # nothing is called on the host, and so nothing shown

    @jax.jit
    def train(key):
        return agent.train(key, hyperparams, progress=True)

    bare = agent.train(KEY, hyperparams, progress=False)
    assert capfd.readouterr().err == ""
    trees.assert_equal(bare, jax.block_until_ready(train(KEY)))
    jax.effects_barrier()
    assert "4/4" in capfd.readouterr().err


def test_an_integer_is_a_seed_wherever_a_key_is(tmp_path):
    given = KEY_3, CASE.agent._hyperparams_type()  # those that are taken where none are given
    alone = make()
    trees.assert_equal(alone.train(3, progress=False), alone.train(*given, progress=False))
    trees.assert_equal(alone.start(3), alone.start(*given))
    agent = make(tmp_path)
    runner, _ = agent.resume(3, progress=False)
    trees.assert_equal(agent.resume(KEY_3, progress=False)[0], runner)
    trees.assert_equal(agent.eval(3), agent.eval(KEY_3))
    trees.assert_equal(agent.env_reset(3), agent.env_reset(KEY_3))
    seeds = agent.sweep([3, 4], n_steps=1, progress=False)
    keys = jnp.stack([KEY_3, jax.random.key(4)])
    trees.assert_equal(seeds.metrics, agent.sweep(keys, n_steps=1, progress=False).metrics)
    with pytest.raises(ValueError, match="is of another run"):
        agent.resume(4)


@jax.jit
def first_of(tree):
    return jax.tree.map(lambda x: x[0], tree)


def test_one_training_of_a_stack_is_taken():
    agent = make()
    result = agent.sweep(jax.random.split(KEY, 3), CASE.hyperparams(), progress=False)
    stacked = first_of((result.runners, result.metrics))
    runner, metrics = first_of(stacked)
    with pytest.raises(ValueError, match=r"must come from one run, .* got one of \(3, 4\)"):
        agent.collect_training(runner, stacked[1])
    agent.collect_training(runner, metrics)
    assert agent.agent_trained
    assert agent.previous_training_max_step == 6
    assert agent.summarize(agent.training_metrics["returns"]).mean.shape == (4,)


def test_metrics_that_are_given_are_copies(tmp_path):
    agent = make(tmp_path, restore_agent=False)
    _, metrics = agent.train(KEY, CASE.hyperparams(), n_steps=1, progress=False)
    returns = metrics["returns"].copy()
    metrics["returns"] /= 500
    agent.training_metrics["returns"][:] = -1
    agent.train(None, None, agent.training_runner, n_steps=1, progress=False)
    again = make(tmp_path)
    _, history = again.restore("last")
    np.testing.assert_array_equal(history["returns"][:2], returns)
    history["returns"][:] = -1
    for made in (agent, again):
        np.testing.assert_array_equal(made.training_metrics["returns"][:2], returns)


def test_the_keys_of_the_evaluations_are_configured():
    """They may be raw, and are as many as configured, as they are without a key in the suite."""
    agent = make(n_evals=64, eval_rng=jax.random.PRNGKey(1))
    assert agent.evaluate(agent.start(KEY, CASE.hyperparams()))["lengths"].shape == (64,)


class Mistaken(A2C):
    def _trajectory_returns(self, runner, traj):
        raise ZeroDivisionError("in a hook")


def members():
    """Keys and sets of hyperparameters of two members."""
    hyperparams = CASES["A2C"].hyperparams()
    return jax.random.split(KEY, 2), jax.tree.map(lambda x: np.full(2, x, np.float32), hyperparams)


FORMS = {
    "device": lambda agent: agent.train(KEY, progress=False),
    "mesh": lambda agent: agent.train(KEY, progress=False, mesh=make_mesh(2)),
    "members": lambda agent: agent.sweep([0, 1], progress=False),
    "members on devices": lambda agent: MembersOnDevices(agent, jax.devices()[:2]).compile(
        *members()
    ),
    "host": lambda agent: agent.train(KEY, progress=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_mistakes_in_hooks_are_found_before_anything_is_compiled(form):
    env = Walks(Walk) if form == "host" else MatchSign()
    agent = Mistaken(env, None, CASES["A2C"].config(n_groups=2))
    with compilations() as made, pytest.raises(ZeroDivisionError, match="in a hook"):
        FORMS[form](agent)
    assert not [event for event in made if "backend_compile" in event and "start" in event]


def test_threads_train_at_once(tmp_path):
    names = ["REINFORCE", "BC"]
    folders = [tmp_path / name for name in names]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(outcome_of, names, folders))
    for name, folder, run in zip(names, folders, together, strict=True):
        trees.assert_equal(run, outcome_of(name))
        assert saved_steps(folder)[-1] == 6
        assert not any(verify(folder).values())


@pytest.mark.slow
def test_a_spawned_process_trains_as_this_one():
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as processes:
        spawned = processes.submit(outcome_of, "REINFORCE")
        trees.assert_equal(spawned.result(timeout=300), outcome_of("REINFORCE"))
