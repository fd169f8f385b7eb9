"""Checkpoints: what is kept, restored, verified and refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import optax
import pytest
import trees
from filelock import FileLock
from probes import BestAction, MatchSign
from registry import AGENTS

from jaxagents import verify
from jaxagents.callbacks import Callback
from jaxagents.checkpoints import records
from jaxagents.checkpoints.disk import lock
from jaxagents.checkpoints.records import AgentStore, saved_steps
from jaxagents.checkpoints.writer import Writer
from jaxagents.core.schedules import CosineSchedule, LinearSchedule
from jaxagents.networks import CategoricalActor, StateCritic
from jaxagents.ppo import OptimizerParams

CASE = AGENTS[0]
CASES = [case for case in AGENTS if case.name in ("PPO", "DQN", "BC")]
REINFORCE = next(case for case in AGENTS if case.name == "REINFORCE")
SMALL = CASES[-1]
"""For tests that need programs of their own: its are the smallest."""
KEY = jax.random.key(0)


def make(folder, restore_agent=False, env=MatchSign, **fields):
    fields = {"n_steps": 6, **fields}  # the same of most agents, which share programs then
    return CASE.make(env, checkpoint_dir=folder, restore_agent=restore_agent, **fields)


def small(folder=None, case=SMALL, **fields):
    return case.make(MatchSign, False, n_steps=6, checkpoint_dir=folder, **fields)


def trained(folder, n_steps=6, **fields):
    agent = make(folder, **fields)
    agent.train(KEY, CASE.hyperparams(), n_steps=n_steps, progress=False)
    return agent


def test_keeps_the_latest_and_the_best(tmp_path):
    agent = trained(tmp_path, n_steps=10, keep_checkpoints=2)
    means = agent.training_metrics["returns"].mean(axis=-1)
    steps = saved_steps(tmp_path)
    assert steps[-2:] == [8, 10]
    assert len(steps) <= 3
    kept = np.isin(agent.eval_steps_in_training, steps)
    assert means[kept].max() == means.max()


def test_restores_best_last_and_any_step(tmp_path):
    trained(tmp_path, keep_checkpoints=None)
    assert saved_steps(tmp_path) == [0, 2, 4, 6]
    agent = make(tmp_path, restore_agent=True)
    _, history = agent.restore("last")
    assert agent.previous_training_max_step == 6
    agent.restore(2)
    assert agent.previous_training_max_step == 2
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 2])
    agent.restore("best", best_fn=lambda metrics: np.argmin(metrics["update_step"]))
    assert agent.previous_training_max_step == 0
    agent.restore()
    means = history["returns"].mean(axis=-1)
    best = history["update_step"].tolist().index(agent.previous_training_max_step)
    assert means[best] == means.max()


def test_evaluates_as_before_after_restoring(tmp_path):
    before = trained(tmp_path).eval(KEY)
    agent = make(tmp_path, restore_agent=True)
    agent.restore("last")
    trees.assert_equal(before, agent.eval(KEY))


def test_describes_the_run_and_logs_its_metrics(tmp_path):
    trained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["agent"] == "PPO"
    assert config["environment"] == "MatchSign"
    assert config["config"]["batch_size"] == 8
    hyperparams = json.loads((tmp_path / "hyperparameters.json").read_text())
    assert hyperparams["gamma"] == 0.5
    assert hyperparams["kl_threshold"] == "inf"
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["update_step"] for line in lines] == [0, 2, 4, 6]
    assert "actor_loss" not in lines[0]
    assert isinstance(lines[1]["actor_loss"], float)


def test_descriptions_are_never_overwritten(tmp_path):
    trained(tmp_path)
    first = (tmp_path / "hyperparameters.json").read_text()
    agent = make(tmp_path, restore_agent=True)
    runner, _ = agent.restore("last")
    agent.train(None, CASE.hyperparams(gamma=0.25), runner, progress=False)
    assert (tmp_path / "hyperparameters.json").read_text() == first
    assert json.loads((tmp_path / "hyperparameters-2.json").read_text())["gamma"] == 0.25


def test_refuses_a_filled_folder_unless_restoring(tmp_path):
    trained(tmp_path)
    with pytest.raises(FileExistsError, match="already holds checkpoints, up to update 6"):
        make(tmp_path)
    make(tmp_path, restore_agent=True)


def test_refuses_to_train_behind_the_last_checkpoint(tmp_path):
    agent = trained(tmp_path, keep_checkpoints=None)
    with pytest.raises(FileExistsError, match="starts at update 0"):
        agent.train(KEY, CASE.hyperparams(), progress=False)
    runner, _ = agent.restore(2)
    with pytest.raises(FileExistsError, match="starts at update 2"):
        agent.train(None, None, runner, progress=False)
    assert saved_steps(tmp_path) == [0, 2, 4, 6]


def test_refuses_a_folder_in_use(tmp_path):
    agent = make(tmp_path)
    with FileLock(tmp_path / ".lock"), pytest.raises(FileExistsError, match="Another training"):
        agent.train(KEY, CASE.hyperparams(), progress=False)
    agent.train(KEY, CASE.hyperparams(), progress=False)


def test_a_folder_is_locked_by_one_thread_as_often_as_it_likes(tmp_path):
    first, second = lock(tmp_path), lock(tmp_path)
    second.release()
    with ThreadPoolExecutor(1) as other, pytest.raises(FileExistsError, match="Another training"):
        other.submit(lock, tmp_path).result()
    first.release()
    with ThreadPoolExecutor(1) as other:
        other.submit(lambda: lock(tmp_path).release()).result()


def test_refuses_a_file_as_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"):
        make(file)
    assert file.read_text() == "mine"


def test_leaves_other_files_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "thoughts.txt").write_text("mine too")
    trained(tmp_path, n_steps=10, keep_checkpoints=1)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "checkpoints" / "thoughts.txt").read_text() == "mine too"


def test_refuses_what_is_not_there(tmp_path):
    agent = make(tmp_path, restore_agent=True)
    with pytest.raises(FileNotFoundError, match="holds no checkpoints"):
        agent.restore()
    with pytest.raises(FileNotFoundError, match="no checkpoint_dir"):
        CASE.make(MatchSign).restore()
    trained(tmp_path, keep_checkpoints=None)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint of 3.*\[0, 2, 4, 6\]"):
        agent.restore(3)
    with pytest.raises(FileNotFoundError, match="no checkpoint of 'newest'"):
        agent.restore("newest")
    with pytest.raises(ValueError, match="best_fn gave index 9"):
        agent.restore("best", best_fn=lambda metrics: 9)
    for wrong in (0.5, np.zeros(2, int), True):
        with pytest.raises(TypeError, match=r"best_fn must give the index .*, an integer, got"):
            agent.restore("best", best_fn=lambda metrics, wrong=wrong: wrong)


def test_without_evaluation_there_is_a_last_but_no_best(tmp_path):
    agent = small(tmp_path)
    agent.train(KEY, SMALL.hyperparams(), progress=False)
    agent.restore("last")
    with pytest.raises(ValueError, match="no checkpoint is known to be the best"):
        agent.restore("best")


def test_refuses_another_network_naming_the_first_leaf(tmp_path):
    trained(tmp_path)
    wide = make(tmp_path, True, actor_network=CategoricalActor(2, features=(32,)))
    with pytest.raises(ValueError, match=r"Dense_0/kernel with shape \(16, 2\).*\(32, 2\)"):
        wide.restore("last")
    deep = make(tmp_path, True, critic_network=StateCritic(features=(16, 16)))
    with pytest.raises(ValueError, match=r"does not fit this agent.*critic_training/"):
        deep.restore("last")


def test_refuses_another_environment_or_agent(tmp_path):
    trained(tmp_path)
    with pytest.raises(ValueError, match="is of the environment MatchSign, but this is BestAction"):
        make(tmp_path, True, env=BestAction).restore("last")

    class Other(CASE.agent):
        pass

    other = Other(MatchSign(), None, CASE.config(checkpoint_dir=tmp_path, restore_agent=True))
    with pytest.raises(ValueError, match=r"is of the agent PPO, but this is .*Other"):
        other.restore("last")


class WithMomentum(OptimizerParams):
    b1: float = 0.8


@pytest.mark.slow
def test_hyperparameters_of_an_own_type_have_to_be_given(tmp_path):
    hyperparams = REINFORCE.hyperparams(actor_optimizer_params=WithMomentum())
    agent = small(tmp_path, REINFORCE)
    agent.train(KEY, hyperparams, n_steps=2, progress=False)
    with pytest.raises(ValueError, match="does not fit this agent"):
        agent.restore("last")
    runner, _ = agent.restore("last", hyperparams=hyperparams)
    assert runner.actor_training.opt_state.hyperparams["b1"] == np.float32(0.8)


@pytest.mark.slow
def test_an_optimizer_may_need_parameters_of_an_own_type(tmp_path):
    def needs_b1(learning_rate, b1):
        return optax.adam(learning_rate, b1)

    both = {f"{name}_optimizer_params": WithMomentum() for name in ("actor", "critic")}
    hyperparams = REINFORCE.hyperparams(**both)
    agent = small(tmp_path, REINFORCE, optimizer=needs_b1)
    agent.train(KEY, hyperparams, n_steps=2, progress=False)
    runner, _ = agent.restore("last", hyperparams=hyperparams)
    assert runner.actor_training.opt_state.hyperparams["b1"] == np.float32(0.8)


SCRIPT = """
    import sys
    sys.path.insert(0, {tests!r})
    import jax
    from probes import MatchSign
    from registry import AGENTS

    case = next(case for case in AGENTS if case.name == "REINFORCE")
    fields = {{"n_steps": 100_000, "eval_frequency": 20}}
    agent = case.make(MatchSign, False, checkpoint_dir={folder!r}, **fields)
    runner, _ = agent.train(jax.random.key(0), case.hyperparams(), progress=False)
    print("stopped by itself at", agent.previous_training_max_step, flush=True)
    sys.stdin.readline()
    agent.train(None, None, runner, progress=False)
"""


def start_training(folder):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    script = textwrap.dedent(SCRIPT.format(tests=tests, folder=str(folder)))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", script], **pipes)
    wait_for_checkpoints(process, folder, after=20)
    return process


def wait_for_checkpoints(process, folder, after):
    deadline = time.monotonic() + 300
    while max(saved_steps(folder), default=0) <= after:
        assert process.poll() is None, "the training ended by itself"
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.05)


def assert_goes_on_as_if_uninterrupted(folder):
    fields = {"n_steps": 100_000, "eval_frequency": 20}
    agent = REINFORCE.make(MatchSign, False, **fields, checkpoint_dir=folder, restore_agent=True)
    runner, _ = agent.restore("last")
    step = agent.previous_training_max_step
    resumed, _ = agent.train(None, None, runner, n_steps=20, progress=False)
    uninterrupted = REINFORCE.make(MatchSign, False, **fields)
    whole, _ = uninterrupted.train(KEY, REINFORCE.hyperparams(), n_steps=step + 20, progress=False)
    trees.assert_equal(whole, resumed)


@pytest.mark.slow
def test_an_interrupted_training_loses_nothing_and_a_terminated_one_ends_as_such(tmp_path):
    with start_training(tmp_path / "run") as process:
        process.send_signal(signal.SIGINT)
        stopped = process.stdout.readline().strip()
        step = saved_steps(tmp_path / "run")[-1]
        shutil.copytree(tmp_path / "run", tmp_path / "interrupted")
        process.stdin.write("\n")
        process.stdin.flush()
        wait_for_checkpoints(process, tmp_path / "run", after=step + 20)
        process.terminate()
        process.communicate(timeout=300)
    assert stopped == f"stopped by itself at {step}"
    assert process.returncode == -signal.SIGTERM
    for folder in ("interrupted", "run"):
        assert_goes_on_as_if_uninterrupted(tmp_path / folder)


def test_an_interruption_does_not_displace_the_best(tmp_path):
    class Interrupting:
        def log(self, step, metrics):
            if step == 0:
                os.kill(os.getpid(), signal.SIGINT)

    agent = make(tmp_path, keep_checkpoints=1)
    agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[Interrupting()])
    stopped = agent.previous_training_max_step
    assert saved_steps(tmp_path) == [0, stopped]
    agent.restore("best")
    assert agent.previous_training_max_step == 0


def test_resume_completes_a_training_and_then_does_nothing(tmp_path):
    whole, metrics = CASE.make(MatchSign, n_steps=6).train(KEY, CASE.hyperparams(), progress=False)
    trained(tmp_path, n_steps=2)
    for _ in range(2):
        agent = make(tmp_path, restore_agent=True, n_steps=6)
        resumed, history = agent.resume(KEY, CASE.hyperparams(), progress=False)
        trees.assert_equal(whole, resumed)
        trees.assert_equal(metrics, history)
    elsewhere = make(tmp_path / "elsewhere", restore_agent=True, n_steps=6)
    fresh, _ = elsewhere.resume(KEY, CASE.hyperparams(), progress=False)
    trees.assert_equal(whole, fresh)


def test_resume_refuses_another_key_than_the_training_began_with(tmp_path):
    trained(tmp_path, n_steps=2)
    agent = make(tmp_path, restore_agent=True)
    runner, _ = agent.restore("last")
    agent.train(None, None, runner, n_steps=2, progress=False)
    before = contents(tmp_path)
    agent = make(tmp_path, restore_agent=True)
    with pytest.raises(ValueError, match=r"first random key is \[0, 0\], and this one's \[0, 1\]"):
        agent.resume(jax.random.key(1), CASE.hyperparams(), progress=False)
    assert contents(tmp_path) == before
    assert not agent.agent_trained
    agent.resume(jax.random.PRNGKey(0), CASE.hyperparams(), progress=False)
    agent.resume(None, CASE.hyperparams(), progress=False)


def test_checkpoints_without_notes_of_keys_are_gone_on_from(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(records, "_FIRST_KEY", "something else")
        patch.setattr(records, "_KEYS", "another thing")
        trained(tmp_path, n_steps=2)
    make(tmp_path, restore_agent=True).resume(jax.random.key(1), None, progress=False)
    assert saved_steps(tmp_path)[-1] == 6


def test_the_evaluation_that_an_interruption_left_out_is_saved_once(tmp_path):
    class Ending(Callback):
        def on_chunk(self, progress):
            return progress.step == 6

    agent = make(tmp_path)
    agent.train(KEY, CASE.hyperparams(), progress=False, callbacks=[Ending()])
    _, history = make(tmp_path, restore_agent=True).restore("last")
    np.testing.assert_array_equal(history["update_step"], [0, 2, 4])
    _, metrics = make(tmp_path, restore_agent=True).resume(KEY, CASE.hyperparams(), progress=False)
    agent = make(tmp_path, restore_agent=True)
    _, history = agent.restore("last")
    trees.assert_equal(metrics, history)
    np.testing.assert_array_equal(history["update_step"], [0, 2, 4, 6])
    means = AgentStore(tmp_path).mean_returns()
    assert means[6] == history["returns"][-1].mean()
    before = contents(tmp_path)
    agent.resume(KEY, CASE.hyperparams(), progress=False)
    assert contents(tmp_path) == before
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["update_step"] for line in lines] == [0, 2, 4, 6]


def contents(folder):
    """When each file of the checkpoints was written, by its path."""
    files = (path for path in (folder / "checkpoints").rglob("*") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in files}


LINEAR, COSINE = (kind(0.5, 0.25, 8) for kind in (LinearSchedule, CosineSchedule))


@pytest.mark.parametrize(("first", "then"), [(0.5, 0.25), (LINEAR, COSINE), (0.5, LINEAR)])
def test_hyperparameters_given_at_a_checkpoint_are_saved_with_it(tmp_path, first, then):
    agent = small(tmp_path)
    agent.train(KEY, SMALL.hyperparams(first), n_steps=2, progress=False)
    changed = SMALL.hyperparams(then)
    went_on, _ = agent.train(None, changed, agent.training_runner, n_steps=2, progress=False)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 2, 4])
    agent = small(tmp_path, restore_agent=True)
    trees.assert_equal(agent.replay(2, n_updates=2).runner, went_on)
    runner, history = agent.restore(2)
    np.testing.assert_array_equal(history["update_step"], [0, 2])
    assert repr(runner.hyperparams) == repr(went_on.hyperparams)  # also the kinds of schedules
    assert not any(verify(tmp_path).values())


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
@pytest.mark.slow_except("rbg")
def test_keys_of_another_implementation_come_back_as_such(tmp_path, implementation):
    key = jax.random.key(0, impl=implementation)
    agent = small(tmp_path)
    agent.train(key, SMALL.hyperparams(), n_steps=2, progress=False)
    agent = small(tmp_path, restore_agent=True)
    resumed, _ = agent.resume(key, SMALL.hyperparams(), progress=False)
    whole, _ = small().train(key, SMALL.hyperparams(), progress=False)
    trees.assert_equal(whole, resumed)
    assert resumed.rng.dtype == key.dtype
    trees.assert_equal(agent.replay(2, n_updates=4).runner, whole)


def test_a_history_that_is_not_given_is_not_lost(tmp_path):
    agent = trained(tmp_path)
    stranger = jax.tree.map(jax.numpy.copy, agent.training_runner)
    agent.train(None, CASE.hyperparams(gamma=0.25), stranger, n_steps=1, progress=False)
    runner, history = agent.restore(6)
    assert runner.hyperparams.gamma == 0.25
    np.testing.assert_array_equal(history["update_step"], [0, 2, 4, 6])


@pytest.mark.parametrize("gamma", [0.5, LINEAR])
@pytest.mark.slow_except("0.5")
def test_going_on_without_a_change_writes_nothing_anew(tmp_path, gamma):
    agent = small(tmp_path, REINFORCE, keep_checkpoints=None)
    agent.train(KEY, REINFORCE.hyperparams(), progress=False)
    hyperparams = REINFORCE.hyperparams(gamma=gamma)
    agent.train(None, hyperparams, agent.training_runner, n_steps=2, progress=False)
    before = contents(tmp_path)
    for given in (None, hyperparams):
        agent = small(tmp_path, REINFORCE, restore_agent=True, keep_checkpoints=None)
        runner, _ = agent.restore("last")
        agent.train(None, given, runner, n_steps=2, progress=False)
        assert before.items() <= contents(tmp_path).items()
        before = contents(tmp_path)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.slow_except("PPO")
def test_the_metrics_go_on_from_copies_and_with_other_hyperparameters(case, tmp_path):
    def make(**fields):
        return case.make(MatchSign, n_steps=6, checkpoint_dir=tmp_path, **fields)

    agent, other = make(), case.hyperparams(learning_rate=0.125)
    one = {"n_steps": 1, "progress": False}
    runner, _ = agent.train(KEY, case.hyperparams(), **one)
    runner, _ = agent.train(None, None, agent.restart(runner, other), **one)
    agent.train(None, None, jax.device_get(runner), **one)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 1, 2, 3])
    restored = make(restore_agent=True)
    runner, metrics = restored.restore("last")
    np.testing.assert_array_equal(metrics["update_step"], [0, 1, 2, 3])
    restored.train(None, None, restored.restart(runner, other), **one)
    np.testing.assert_array_equal(restored.restore("last")[1]["update_step"], [0, 1, 2, 3, 4])


def test_the_metrics_of_another_training_begin_anew_with_a_warning(tmp_path):
    agent = trained(tmp_path, n_steps=2)
    stranger, _ = CASE.make(MatchSign, n_steps=6).train(
        jax.random.key(1), CASE.hyperparams(), n_steps=2, progress=False
    )
    with pytest.warns(
        UserWarning, match=r"begin anew\. They go on from the runner of agent.restore"
    ):
        agent.train(None, None, stranger, n_steps=1, progress=False)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [2, 3])
    with pytest.warns(UserWarning, match="not at the end of the training that the agent remembers"):
        agent.train(None, None, agent.advance(agent.training_runner, 1), n_steps=1, progress=False)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [4, 5])


def test_arrays_without_numbers_and_large_ones_are_saved_as_well(tmp_path):
    tree = {"empty": np.zeros((0, 3)), "large": np.arange(200_000), "small": np.float32(2)}
    history = {"update_step": np.array([0, 4]), "nothing": np.zeros((2, 0))}
    store = AgentStore(tmp_path)
    with Writer(store, {"agent": "any"}, keep=None, start=0, descriptions={}) as writer:
        writer.save(4, tree, history, mean_return=None, notes={"more": [1, 2]})
    restored = store.read(4, {"agent": "any"}, tree)
    trees.assert_equal(restored.tree, jax.tree.map(jax.numpy.asarray, tree))
    trees.assert_equal(restored.history, history)
    assert restored.notes["more"] == [1, 2]
