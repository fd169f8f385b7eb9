"""Checkpoints of trainings on the host: going on exactly, what is kept, verified and refused."""

import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import gymnasium
import jax
import numpy as np
import pytest
import trees
from compilations import compilations
from damage import damage_arrays, damage_file
from filelock import FileLock
from loops import Clock, Line, Picture, Recorder, Tiny
from probes import MatchSign
from registry import AGENTS

from jaxagents.checkpoints.store import CorruptCheckpointError
from jaxagents.checkpoints.writer import Writer
from jaxagents.data import ReplayBuffer
from jaxagents.host import (
    OfflineConfig,
    OnlineConfig,
    example_transition,
    rescale_actions,
    restore_learner,
    train_offline,
    train_online,
)
from jaxagents.host.checkpoint import HostStore
from jaxagents.host.episodes import as_observation
from jaxagents.host.journal import Journal

ONLINE = OnlineConfig(
    n_steps=60, batch_size=8, buffer_size=100, start_steps=10, eval_frequency=25, n_evals=2,
    log_frequency=10, keep_checkpoints=None,
)  # fmt: skip
OFFLINE = OfflineConfig(
    n_updates=60, batch_size=8, updates_per_call=5, eval_frequency=20, log_frequency=7
)
train_online = functools.partial(train_online, progress=False)
train_offline = functools.partial(train_offline, progress=False)


class Killed(BaseException):
    """Ends a training without a farewell."""


def kill():
    raise Killed


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def learner_for(env):
    observation = as_observation(env.observation_space.sample())
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    n_outputs = env.action_space.n if discrete else env.action_space.shape[0]
    return Tiny.create(observation, int(n_outputs), discrete)


def train(make_env, config, then=None, at=None, **kwargs):
    """Trains, and returns learner, metrics, the buffer's rows and the logs."""
    env = make_env()
    buffer = ReplayBuffer.create(example_transition(rescale_actions(env)), config.buffer_size)
    recorder = Recorder(at, then)
    outcome = train_online(
        learner_for(env),
        env,
        config,
        eval_env=make_env(),
        buffer=buffer,
        loggers=[recorder],
        **kwargs,
    )
    rows = {**buffer.to_dataset()}
    logs = {
        step: {name: value for name, value in metrics.items() if name != "steps_per_second"}
        for step, metrics in recorder.logged.items()
    }
    return *outcome, rows, logs


def trained(folder, n_steps=60, **fields):
    return train(Line, ONLINE.replace(checkpoint_dir=folder, n_steps=n_steps, **fields))


def files(folder):
    return sorted(path.name for path in (folder / "replay").glob("*.npz"))


# Going on.


def pendulum():
    return gymnasium.make("Pendulum-v1")


def inverted_pendulum():
    pytest.importorskip("mujoco")
    return gymnasium.make("InvertedPendulum-v5")


@pytest.mark.parametrize(
    ("make_env", "buffer_size", "then"),
    [
        *itertools.product([Line], [1000, 33, 5], [interrupt, kill]),
        *itertools.product([pendulum, inverted_pendulum, Picture], [33], [interrupt, kill]),
    ],
)
@pytest.mark.slow_except("Line", "Picture-33-kill")
def test_goes_on_as_if_uninterrupted(tmp_path, make_env, buffer_size, then):
    config = ONLINE.replace(n_steps=75, buffer_size=buffer_size, log_frequency=4)
    learner, metrics, rows, logs = train(make_env, config)
    config = config.replace(checkpoint_dir=tmp_path)
    for at in (8, 32, 60):  # among random actions, and twice in the middle of an episode
        try:
            train(make_env, config, then, at, resume=True)
        except Killed:
            assert then is kill
        else:
            assert HostStore(tmp_path).steps()[-1] == at
    resumed, resumed_metrics, resumed_rows, resumed_logs = train(make_env, config, resume=True)
    trees.assert_equal(learner, resumed)
    trees.assert_equal(metrics, resumed_metrics)
    trees.assert_equal(rows, resumed_rows)
    assert resumed_logs == {step: logs[step] for step in resumed_logs}
    assert 64 in resumed_logs


@pytest.mark.parametrize("at", [7, 21, 42])
def test_goes_on_learning_from_a_dataset_as_if_uninterrupted(tmp_path, at):
    data = train(Line, ONLINE)[2]
    learner, metrics = train_offline(learner_for(Line()), data, OFFLINE)
    config = OFFLINE.replace(checkpoint_dir=tmp_path)
    recorder = Recorder(at, interrupt)
    train_offline(learner_for(Line()), data, config, loggers=[recorder])
    assert HostStore(tmp_path).steps()[-1] == at
    assert not (tmp_path / "replay").exists()
    resumed, resumed_metrics = train_offline(learner_for(Line()), data, config, resume=True)
    trees.assert_equal((learner, metrics), (resumed, resumed_metrics))


def test_more_steps_can_be_made_later(tmp_path):
    learner, metrics, rows, _ = train(Line, ONLINE)
    trained(tmp_path, n_steps=40)
    config = ONLINE.replace(checkpoint_dir=tmp_path)
    resumed, resumed_metrics, resumed_rows, _ = train(Line, config, resume=True)
    trees.assert_equal((learner, rows), (resumed, resumed_rows))
    np.testing.assert_array_equal(metrics["step"], [0, 25, 50, 60])
    np.testing.assert_array_equal(resumed_metrics["step"], [0, 25, 40, 50, 60])
    np.testing.assert_array_equal(resumed_metrics["returns"][[0, 1, 3, 4]], metrics["returns"])
    again, metrics_again, _, logs = train(Line, config, resume=True)
    trees.assert_equal((resumed, resumed_metrics), (again, metrics_again))
    assert logs == {}


def test_going_on_without_a_change_writes_no_checkpoint_anew(tmp_path):
    trained(tmp_path, n_steps=40)
    arrays = {path: path.stat().st_mtime_ns for path in tmp_path.glob("checkpoints/*/learner*")}
    train(Line, ONLINE.replace(checkpoint_dir=tmp_path, n_steps=50), resume=True)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("checkpoints/*/learner*")}
    assert arrays.items() < after.items()


def test_resuming_in_an_empty_folder_begins(tmp_path):
    config = ONLINE.replace(checkpoint_dir=tmp_path / "new")
    trees.assert_equal(train(Line, ONLINE)[:3], train(Line, config, resume=True)[:3])


SCRIPT = """
    import sys
    sys.path.insert(0, {tests!r})
    import numpy as np
    from loops import Line, Tiny
    from jaxagents.host import OnlineConfig, train_online

    class Ready:
        def log(self, step, metrics):
            print(step, flush=True)

    config = OnlineConfig(
        n_steps=1_000_000, batch_size=8, buffer_size=100, start_steps=10, log_frequency=10,
        checkpoint_dir={folder!r},
    )
    train_online(Tiny.create(np.zeros(2), 1), Line(), config, loggers=[Ready()], progress=False)
"""


@pytest.mark.bits_of_jax
def test_a_terminated_training_saves_and_goes_on_as_if_uninterrupted(tmp_path):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    script = textwrap.dedent(SCRIPT.format(tests=tests, folder=str(tmp_path)))
    arguments = [sys.executable, "-c", script]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        while process.stdout.readline().strip() not in ("30", ""):
            pass
        process.terminate()
        process.communicate(timeout=300)
    assert process.returncode == -signal.SIGTERM
    step = HostStore(tmp_path).steps()[-1]
    assert step >= 30
    config = OnlineConfig(
        n_steps=step + 9, batch_size=8, buffer_size=100, start_steps=10, log_frequency=10
    )
    learner, _ = train_online(learner_for(Line()), Line(), config)
    config = config.replace(checkpoint_dir=tmp_path)
    resumed, _ = train_online(learner_for(Line()), Line(), config, resume=True)
    trees.assert_equal(learner, resumed)


def test_an_environment_that_no_seed_determines_goes_on_with_a_new_episode(tmp_path):
    config = ONLINE.replace(checkpoint_dir=tmp_path)
    *_, rows, _ = train(Clock, config, interrupt, 30)
    assert not rows["ends"][29]
    for _ in range(2):  # from the first checkpoint, and from one after it
        with pytest.warns(UserWarning, match="took another course.*with a new episode") as warned:
            *_, resumed, _ = train(Clock, config, interrupt, 50, resume=True)
        assert [warning.filename for warning in warned] == [__file__]
        assert resumed["ends"][29]
        assert resumed["observations"][30, 0] == 2  # a new clock, after the two actions taken again
        trees.assert_equal(
            {key: value[:29] for key, value in rows.items()},
            {key: value[:29] for key, value in resumed.items()},
        )
        config = config.replace(n_steps=70)


# What is kept.


def test_restores_best_last_and_any_step(tmp_path):
    learner, metrics, *_ = trained(tmp_path)
    blank = learner_for(Line())
    trees.assert_equal(restore_learner(blank, tmp_path, "last"), (learner, metrics))
    restored, history = restore_learner(blank, tmp_path, 25)
    assert restored.n_updates == 15
    np.testing.assert_array_equal(history["step"], [0, 25])
    _, history = restore_learner(blank, tmp_path)
    assert history["step"][-1] == metrics["step"][metrics["returns"].mean(axis=1).argmax()]
    _, history = restore_learner(blank, tmp_path, best_fn=lambda metrics: 2)
    assert history["step"][-1] == 50
    with pytest.raises(FileNotFoundError, match=r"'best', 'last' or one of the steps \[0, 25, 50"):
        restore_learner(blank, tmp_path, 30)
    with pytest.raises(FileNotFoundError, match="holds no checkpoints"):
        restore_learner(blank, tmp_path / "elsewhere")


@pytest.mark.parametrize("n_kept", [1, 2])  # and the best
def test_transitions_are_written_once_and_kept_while_a_checkpoint_needs_them(tmp_path, n_kept):
    made = []

    class BestAt175(Line):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, float(len(made[0].taken) == 175), *rest

    def make_env():
        made.append(BestAt175())
        return made[-1]

    sizes = {"n_steps": 200, "buffer_size": 40, "keep_checkpoints": n_kept}
    train(make_env, ONLINE.replace(checkpoint_dir=tmp_path, **sizes))
    store = HostStore(tmp_path)
    steps = store.steps()
    needed = {name for step in steps for name in store.files(step)}
    assert steps[-2:] == [175, 200]
    assert {"150.npz", "175.npz", "200.npz"} <= needed
    assert needed <= set(files(tmp_path))
    assert "100.npz" not in set(files(tmp_path)) - needed
    with np.load(tmp_path / "replay" / "175.npz") as file:
        assert file["transitions/rewards"].shape == (25,)


def test_leaves_other_files_alone(tmp_path):
    (tmp_path / "replay").mkdir()
    mine = [tmp_path / "notes.txt", tmp_path / "replay" / "25.npz", tmp_path / "replay" / "a.txt"]
    for file in mine:
        file.write_text("mine")
    trained(tmp_path, n_steps=200, buffer_size=30, keep_checkpoints=1)
    assert all(file.read_text() == "mine" for file in mine)


def listed(folder):
    return (folder / "replay" / ".written").read_text().split()


def test_what_a_kill_leaves_behind_is_removed(tmp_path, monkeypatch):
    trained(tmp_path, n_steps=50)
    config = ONLINE.replace(checkpoint_dir=tmp_path, n_steps=100, keep_checkpoints=None)
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "save", lambda *args: kill())  # before the checkpoint, after its file
        with pytest.raises(Killed):
            train(Line, config, resume=True)
    assert files(tmp_path) == ["0.npz", "25.npz", "50.npz", "75.npz"]
    unfinished, mine = tmp_path / "replay" / "75.unfinished", tmp_path / "replay" / "80.npz"
    unfinished.write_text("half")
    np.savez(mine, **{"transitions/ends": np.zeros(1)})
    expected = train(Line, ONLINE.replace(n_steps=60))
    outcome = train(Line, config.replace(n_steps=60), resume=True)
    trees.assert_equal((expected[0], expected[2]), (outcome[0], outcome[2]))
    assert files(tmp_path) == ["0.npz", "25.npz", "50.npz", "60.npz", "80.npz"]
    assert not unfinished.exists()
    assert sorted(listed(tmp_path)) == ["0.npz", "25.npz", "50.npz", "60.npz"]


def test_only_its_own_files_are_removed(tmp_path):
    trained(tmp_path, n_steps=50)
    replay = tmp_path / "replay"
    text, arrays = replay / "7.npz", replay / "8.npz"
    text.write_text("mine")
    np.savez(arrays, mine=np.zeros(3))
    (tmp_path / "outside.npz").write_text("mine")
    with (replay / ".written").open("a") as file:
        file.write("7.npz\n8.npz\n../outside.npz\n9.npz\n")
    train(Line, ONLINE.replace(checkpoint_dir=tmp_path), resume=True)
    assert text.read_text() == (tmp_path / "outside.npz").read_text() == "mine"
    assert arrays.exists()


def test_transitions_are_kept_without_their_checkpoints(tmp_path):
    trained(tmp_path, n_steps=50)
    shutil.rmtree(tmp_path / "checkpoints")
    for n_steps in (50, 60):
        config = ONLINE.replace(checkpoint_dir=tmp_path, n_steps=n_steps)
        train(Line, config, resume=True)
    assert {"0.npz", "25.npz", "50.npz", "0-2.npz", "60.npz"} <= set(files(tmp_path))


def test_says_what_an_interruption_leaves(tmp_path, capsys, monkeypatch):
    def said(folder, **kwargs):
        config = ONLINE.replace(checkpoint_dir=folder)
        recorder = Recorder(30, interrupt)
        train_online.func(learner_for(Line()), Line(), config, loggers=[recorder], **kwargs)
        return capsys.readouterr().err

    text = said(None)
    assert "Interrupted after 30 of 60 steps." in text
    assert "Nothing was saved." in text
    assert "What was learned so far is returned." in text
    assert f"All of it is in {tmp_path / 'whole'}: resume=True goes on" in said(tmp_path / "whole")
    for folder in (None, tmp_path / "quiet"):
        assert said(folder, progress=False) == ""

    def full(writer, step, *args):
        if step == 30:
            raise OSError("No space left on device")
        save(writer, step, *args)

    save = Writer.save
    monkeypatch.setattr(Writer, "save", full)
    with pytest.warns(UserWarning, match="the disk is full|the training could not be saved"):
        text = said(tmp_path / "full")
    assert f"checkpoint of step 25 in {tmp_path / 'full'} is the last: what came after" in text
    assert "All of it" not in text


def test_an_interrupted_evaluation_is_kept_once(tmp_path, capsys):
    config = ONLINE.replace(checkpoint_dir=tmp_path, log_frequency=7)
    recorder = Recorder(25, interrupt)
    learner = learner_for(Line())
    _, metrics = train_online.func(learner, Line(), config, eval_env=Line(), loggers=[recorder])
    np.testing.assert_array_equal(metrics["step"], [0, 25])
    assert "Interrupted after 25 of 60 steps." in capsys.readouterr().err
    assert HostStore(tmp_path).steps() == [0, 25]
    assert files(tmp_path) == ["0.npz", "25.npz"]


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.slow_except("True")
def test_says_what_a_termination_leaves(progress):
    script = SCRIPT.replace("checkpoint_dir={folder!r},", "").replace(
        "progress=False", f"progress={progress}"
    )
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    script = textwrap.dedent(script.format(tests=tests))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.stdout.readline().strip() not in ("30", ""):
            pass
        process.terminate()
        _, text = process.communicate(timeout=300)
    assert ("Nothing was saved." in text) == progress
    assert "is returned" not in text


def test_describes_the_training(tmp_path):
    trained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["learner"] == "Tiny"
    assert config["environment"] == "Line"
    assert config["config"]["start_steps"] == 10
    assert "checkpoint_dir" not in config["config"]


def test_a_journal_brings_a_buffer_back(tmp_path):
    def empty(size):
        return ReplayBuffer.create({"x": {"y": np.float32(0)}, "ends": np.False_}, size)

    for size in (5, 12, 100):
        buffer, number = empty(size), 0
        journal = Journal(tmp_path / str(size), buffer)
        for step, n_new in enumerate([0, 3, 1, 30, 7, 4]):
            for _ in range(n_new):
                buffer.add_transition({"x": {"y": number}, "ends": False})
                number += 1
            parts = journal.write(step, {"extra": {"step": np.int64(step)}})
            again = empty(size)
            journal_again = Journal(tmp_path / str(size), again)
            extras = journal_again.read(json.loads(json.dumps(parts)))
            assert extras["extra"]["step"] == step
            trees.assert_equal(
                buffer.state_dict()["transitions"], again.state_dict()["transitions"]
            )
            assert again.state_dict()["n_added"] == number
        journal_again.end_episodes([0])
        parts = journal_again.write(6, {})
        journal.read(parts)
        ends = buffer.to_dataset()["ends"]
        assert ends[-1]
        assert not ends[:-1].any()
        assert buffer.to_dataset()["x"]["y"][-1] == number - 1


# Refusals and damage.


def test_refuses_a_filled_folder_unless_resuming(tmp_path):
    trained(tmp_path)
    with pytest.raises(FileExistsError, match=r"up to step 60. Give resume=True"):
        trained(tmp_path)
    with pytest.raises(FileExistsError, match=r"up to step 60. Give resume=True"):
        train_offline(
            learner_for(Line()), train(Line, ONLINE)[2], OFFLINE.replace(checkpoint_dir=tmp_path)
        )


def test_refuses_a_folder_in_use(tmp_path):
    with FileLock(tmp_path / ".lock"), pytest.raises(FileExistsError, match="Another training"):
        trained(tmp_path)
    trained(tmp_path)


def test_refuses_to_go_on_from_something_else(tmp_path):
    class Other(Tiny):
        pass

    trained(tmp_path)
    config = ONLINE.replace(checkpoint_dir=tmp_path)

    def refuses(match, learner=None, env=None, config=config, eval_env=None):
        with pytest.raises(ValueError, match=match):
            train_online(
                learner or learner_for(Line()),
                env or Line(),
                config,
                eval_env=eval_env or Line(),
                resume=True,
            )

    refuses("is of the learner Tiny, but this is .*Other", Other.create(np.zeros(2), 1))
    refuses("is of the seed 0, but this is 1", config=config.replace(seed=1))
    refuses("buffer size 100, but this is 50", config=config.replace(buffer_size=50))
    refuses("evaluation episodes 2, but this is 3", config=config.replace(n_evals=3))
    refuses("environment Line, but this is Pendulum-v1", learner_for(pendulum()), pendulum(),
            eval_env=pendulum())  # fmt: skip
    with pytest.raises(ValueError, match=r"weights with shape \(2, 1\).*\(3, 1\)"):
        restore_learner(Tiny.create(np.zeros(3), 1), tmp_path)
    assert HostStore(tmp_path).steps() == [0, 25, 50, 60]


@pytest.mark.filterwarnings("error")
def test_refuses_the_checkpoints_of_an_agent(tmp_path):
    case = next(case for case in AGENTS if case.name == "REINFORCE")
    agent = case.make(MatchSign, checkpoint_dir=tmp_path)
    agent.train(jax.random.key(0), case.hyperparams(), n_steps=2, progress=False)
    learner = learner_for(Line())
    for mode in ("best", "last", 2):
        with pytest.raises(ValueError, match=r"of an agent .*, and of no learner") as info:
            restore_learner(learner, tmp_path, mode)
        assert not isinstance(info.value, CorruptCheckpointError)
    with pytest.raises(ValueError, match="checkpoints of an agent"):
        train_online(learner, Line(), ONLINE.replace(checkpoint_dir=tmp_path), resume=True)


@pytest.mark.filterwarnings("error")
def test_an_agent_refuses_the_checkpoints_of_a_learner(tmp_path):
    trained(tmp_path, n_steps=25)
    agent = AGENTS[0].make(MatchSign, checkpoint_dir=tmp_path, restore_agent=True)
    for mode in ("best", "last", 25):
        with pytest.raises(ValueError, match=r"of a learner .*, and of no agent") as info:
            agent.restore(mode)
        assert not isinstance(info.value, CorruptCheckpointError)


def test_restores_no_class_of_learners(tmp_path):
    with pytest.raises(TypeError, match="the class Tiny"):
        restore_learner(Tiny, tmp_path)


@pytest.mark.parametrize("harmed", ["replay/50.npz", "replay/25.npz", "checkpoints/50"])
def test_goes_on_from_before_the_damage(tmp_path, harmed):
    trained(tmp_path, n_steps=50)
    learner, metrics, rows, _ = train(Line, ONLINE)
    path = tmp_path / harmed
    damage_file(path) if path.is_file() else damage_arrays(path)
    config = ONLINE.replace(checkpoint_dir=tmp_path)
    falls_back = pytest.warns(UserWarning, match="Falling back to another checkpoint")
    with falls_back, pytest.warns(UserWarning, match="set aside"):
        resumed, resumed_metrics, resumed_rows, _ = train(Line, config, resume=True)
    trees.assert_equal((learner, metrics, rows), (resumed, resumed_metrics, resumed_rows))
    assert HostStore(tmp_path).steps()[-2:] == [50, 60]
    assert (tmp_path / "checkpoints" / "50.damaged-1").exists()


def test_a_missing_file_is_damage(tmp_path):
    trained(tmp_path)
    (tmp_path / "replay" / "0.npz").unlink()
    with pytest.raises(CorruptCheckpointError, match=r"0.npz cannot be read \(FileNotFoundError"):
        HostStore(tmp_path).verify(0)


def test_a_disk_that_is_full_does_not_stop_training(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("No space left on device")

    expected = train(Line, ONLINE)[0]
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.warns(
            UserWarning, match="could not be (written to: the disk is full|saved)"
        ) as said:
            learner, *_ = trained(tmp_path)
    assert "no checkpoint. What is not saved is in the learner" in str(said[-1].message)
    trees.assert_equal(expected, learner)
    assert HostStore(tmp_path).steps() == []
    assert files(tmp_path) == []


def test_going_on_compiles_nothing_again(tmp_path):
    trained(tmp_path, n_steps=40)
    with compilations() as made:
        train(Line, ONLINE.replace(checkpoint_dir=tmp_path), resume=True)
    assert not any("_update" in event for event in made)
