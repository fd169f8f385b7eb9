"""Checkpoints whose files a disk, a user, another process or a kill has harmed, renamed or removed."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import trees
from faults import corruption, kill
from saved_runs import CASE, KEY, damage_arrays, make, trained

from jaxagents import verify
from jaxagents.checkpoints import notes
from jaxagents.checkpoints.disk import lock
from jaxagents.checkpoints.records import AgentStore, CorruptCheckpointError, saved_steps
from jaxagents.checkpoints.store import best_first


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def notes_of(folder, step=6):
    return folder / "checkpoints" / str(step) / "meta" / "metadata"


def change_notes(folder, step, **changes):
    """Changes the metadata of a checkpoint and updates its digest."""
    path = notes_of(folder, step)
    changed = {**json.loads(path.read_text()), **changes}
    mean_return = changed["mean_return"]
    own = ("digest", "format", "step", "mean_return")
    others = {name: value for name, value in changed.items() if name not in own}
    path.write_text(json.dumps(notes.sealed(others, changed["step"], mean_return)))


@pytest.mark.slow  # many restores
@pytest.mark.parametrize("name", corruption.SUBJECTS)
def test_harm_of_any_kind_is_noticed(name):
    harms = [*corruption.HARMS, corruption.forget]
    counts, faults = corruption.attack(corruption.SUBJECTS[name], len(harms), harms=harms)
    assert not faults
    assert counts[corruption.FELL_BACK]  # the last harm is certain to be noticed


def test_the_best_checkpoint_stays_when_a_training_goes_on(folder):
    for step, mean in {0: 5.0, 2: 1.0, 4: np.nan, 6: np.inf}.items():
        change_notes(folder, step, mean_return=mean)
    agent = make(folder, keep_checkpoints=1)
    runner, _ = agent.restore("last")
    for last in (8, 10):
        agent.train(None, None, runner, n_steps=2, progress=False)
        runner = agent.training_runner
        assert saved_steps(folder) == [0, last]
    agent.restore("best")
    assert agent.previous_training_max_step == 0


def test_only_a_finite_return_is_the_best(folder):
    assert best_first({0: 1.0, 2: np.nan, 4: np.inf, 6: 3.0, 8: 3.0, 10: -np.inf}) == [8, 6, 0]
    for step in saved_steps(folder):
        change_notes(folder, step, mean_return=np.nan)
    with pytest.raises(ValueError, match="has a finite mean return"):
        make(folder).restore("best")
    make(folder).restore("last")


def flip(place):
    def harm(folder):
        data = bytearray(notes_of(folder).read_bytes())
        data[place] ^= 1
        notes_of(folder).write_bytes(bytes(data))

    return harm


def write(contents):
    return lambda folder: notes_of(folder).write_text(contents)


def empty(folder, step=6):
    for file in (folder / "checkpoints" / str(step)).rglob("*"):
        if file.is_file():
            file.unlink()


def damage(folder, step=6):
    damage_arrays(folder / "checkpoints" / str(step) / "runner")


def exchange(folder):
    """Makes the arrays of a checkpoint differ from their digests."""
    tree = json.loads(notes_of(folder).read_text())["tree"]
    change_notes(folder, 6, tree=[{**leaf, "crc32": leaf["crc32"] ^ 1} for leaf in tree])


IN_NOTES = [flip(3), flip(200), flip(-40)]
IN_NOTES += [write(text) for text in ("{}", '{"tree": 3, "history": []}', "[]", "null")]


@pytest.mark.parametrize("harm", [*IN_NOTES, empty, damage, exchange])
def test_falls_back_from_a_harmed_checkpoint(folder, harm):
    harm(folder)
    agent = make(folder)
    places = {damage: "its arrays|it has changed at", exchange: "it has changed at"}
    where = places.get(harm, "its notes")
    expected = rf"update 6 in .* is damaged: ({where}) .* Falling back to another checkpoint"
    with pytest.warns(UserWarning, match=expected):
        agent.restore("last")
    assert agent.previous_training_max_step == 4
    with pytest.raises(CorruptCheckpointError, match="update 6"):
        agent.restore(6)


def test_goes_on_past_a_harmed_checkpoint_and_keeps_it_aside(folder):
    empty(folder)
    agent = make(folder, keep_checkpoints=None)
    with pytest.warns(UserWarning, match="Falling back"):
        runner, _ = agent.restore("last")
    with pytest.warns(UserWarning, match="update 6 .* set aside"):
        agent.train(None, None, runner, n_steps=4, progress=False)
    assert names_in(folder / "checkpoints") == {"0", "2", "4", "6", "6.damaged-1", "8"}
    assert not any(verify(folder).values())


def test_refusing_to_train_behind_a_whole_checkpoint_leaves_a_harmed_one_where_it_is(folder):
    empty(folder, 4)
    agent = make(folder)
    runner, _ = agent.restore(2)
    with pytest.raises(FileExistsError, match=r"checkpoint of update 6.*Nothing was changed"):
        agent.train(None, None, runner, n_steps=4, progress=False)
    assert names_in(folder / "checkpoints") == {"0", "2", "4", "6"}


def test_a_folder_with_the_name_of_another_step_is_damage_and_others_are_passed_over(folder):
    checkpoints = folder / "checkpoints"
    shutil.copytree(checkpoints / "4", checkpoints / "kept")
    (checkpoints / "6").rename(checkpoints / "99999")
    for name in ("²", "007", "plots"):
        (checkpoints / name).mkdir()
    agent = make(folder)
    assert saved_steps(folder) == [0, 2, 4, 99999]
    with pytest.warns(UserWarning, match="it is the checkpoint of 6, and was renamed") as said:
        agent.restore("last")
    assert len(said) == 1
    assert agent.previous_training_max_step == 4


@pytest.mark.parametrize("name", ["²", "6.bak", "the best"])
def test_a_checkpoint_that_was_renamed_is_passed_over_with_a_warning(folder, name):
    (folder / "checkpoints" / "6").rename(folder / "checkpoints" / name)
    agent = make(folder)
    with pytest.warns(
        UserWarning, match="is the checkpoint of update 6, and was renamed"
    ) as warned:
        agent.restore("last")
    assert len(warned) == 1
    assert agent.previous_training_max_step == 4
    with pytest.warns(UserWarning, match="rename it to 6 to use it again"):
        assert 6 not in verify(folder)
    for step in (0, 2, 4):  # if all were renamed, no training begins anew silently
        (folder / "checkpoints" / str(step)).rename(folder / "checkpoints" / f"step-{step}")
    with pytest.warns(UserWarning, match=r"update \d, and was renamed"):
        make(folder)


def test_a_last_checkpoint_that_was_taken_away_is_missed(folder, tmp_path):
    (folder / "checkpoints" / "6").rename(tmp_path / "6")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"update_st')  # as if it had been killed
    with pytest.warns(
        UserWarning, match="reaches update 6, but the newest checkpoint is of update 4"
    ):
        make(folder).restore("last")


def test_a_checkpoint_of_a_later_release_is_refused(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(notes, "FORMAT", 9)
        change_notes(folder, 6)
    with pytest.raises(ValueError, match=r"has the format 9 .* reads those up to 2"):
        make(folder).restore("last")


def test_verifies_each_checkpoint_and_restores_the_best_of_the_others(folder):
    assert verify(folder) == dict.fromkeys([0, 2, 4, 6])
    damage(folder)
    agent = make(folder)
    with pytest.warns(UserWarning, match="update 6 .* skipped"):
        agent.restore("best", best_fn=lambda metrics: -1)
    assert agent.previous_training_max_step == 4
    damage(folder, 2)
    with pytest.warns(match="update 6"), pytest.raises(CorruptCheckpointError, match="update 2"):
        agent.restore("best", best_fn=lambda metrics: 1)
    notes_of(folder, 4).unlink()
    damages = verify(folder)
    assert [step for step, damage in damages.items() if damage] == [2, 4, 6]
    assert "its notes cannot be read (FileNotFoundError" in damages[4]


@pytest.fixture
def at_first_look(monkeypatch):
    """Calls a function when the metadata of a checkpoint is first read, as if by another process."""

    def prepare(step, act):
        read, acts = notes.read, iter([act])

        def read_after_it(folder):
            if folder.name == str(step):
                for act in acts:
                    act()
            return read(folder)

        monkeypatch.setattr(notes, "read", read_after_it)

    return prepare


def test_checkpoints_that_a_training_removes_meanwhile_are_no_damage(
    folder, at_first_look, recwarn
):
    for step, mean in {0: 3.0, 2: 2.0, 4: 1.0, 6: 0.0}.items():
        change_notes(folder, step, mean_return=mean)
    at_first_look(2, lambda: shutil.rmtree(folder / "checkpoints" / "2"))
    assert verify(folder) == dict.fromkeys([0, 4, 6])
    at_first_look(6, lambda: shutil.rmtree(folder / "checkpoints" / "6"))
    agent = make(folder)
    with pytest.warns(
        UserWarning, match="reaches update 6, but the newest checkpoint is of update 4"
    ):
        agent.restore("last")
    assert agent.previous_training_max_step == 4
    at_first_look(0, lambda: shutil.rmtree(folder / "checkpoints" / "0"))
    agent.restore("best")
    assert agent.previous_training_max_step == 4
    renamed = folder / "checkpoints" / "4-2"
    at_first_look(4, lambda: (folder / "checkpoints" / "4").rename(renamed))  # written again
    agent.restore(4)
    assert names_in(folder / "checkpoints") == {"4-2"}
    assert not recwarn


def test_a_relative_folder_stays_the_same_when_a_script_changes_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = make("run")
    monkeypatch.chdir(os.sep)
    agent.train(KEY, CASE.hyperparams(), n_steps=1, progress=False)
    assert saved_steps(tmp_path / "run") == [0, 1]
    for path in ("", b"run", 3):
        with pytest.raises(ValueError, match="checkpoint_dir must be the path of a folder"):
            make(path)


class AtStep4:
    """A logger that calls a function at step 4."""

    def __init__(self, act):
        self.act = act

    def log(self, step, metrics):
        if step == 4:
            self.act()


@pytest.mark.parametrize("is_locked_already", [False, True])
def test_a_folder_that_vanishes_is_made_anew(tmp_path, is_locked_already):
    folder = tmp_path / "run"
    agent = make(folder)
    outer = lock(folder) if is_locked_already else None

    def remove():
        while 4 not in saved_steps(folder):
            time.sleep(0.01)
        while folder.exists():  # a thread may be writing to it
            shutil.rmtree(folder, ignore_errors=True)

    loggers = [AtStep4(remove)]
    with pytest.warns(UserWarning, match="was gone, and is created again"):
        agent.train(KEY, CASE.hyperparams(), n_steps=8, progress=False, loggers=loggers)
    assert saved_steps(folder)[-1] == 8
    assert (folder / "config.json").exists()
    assert (folder / ".lock").exists()
    assert outer is None or not outer.is_locked
    make(folder).restore("last")


def test_metrics_do_not_follow_a_link(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").symlink_to(mine)
    with pytest.warns(UserWarning, match="Too many levels of symbolic links"):
        trained(tmp_path / "run", n_steps=1)
    assert mine.read_text() == "mine"


def test_an_error_in_a_logger_loses_nothing(whole, tmp_path):
    def fail():
        raise RuntimeError("the logger's own")

    agent = make(tmp_path)
    with pytest.raises(RuntimeError, match="the logger's own"):
        agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[AtStep4(fail)])
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 2, 4])
    assert saved_steps(tmp_path) == [0, 2, 4]
    resumed, _ = agent.train(None, None, agent.training_runner, n_steps=2, progress=False)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update_step"] for line in lines] == [0, 2, 4, 6]
    trees.assert_equal(whole.training_runner, resumed)


def times_of_changes(folder):
    """The time of the last change of each path, passing over those that a thread removes meanwhile."""
    times = {}
    for directory, folders, files in os.walk(folder):
        for path in (Path(directory, name) for name in folders + files):
            with contextlib.suppress(FileNotFoundError):
                times[path] = path.stat().st_mtime_ns
    return times


@pytest.mark.slow  # fifty copies of a folder
def test_a_kill_while_a_checkpoint_is_written_anew_leaves_the_old_or_the_new_one(tmp_path):
    agent = trained(tmp_path / "run", n_steps=1)
    copies, states, writing, alone = [], [None], True, threading.RLock()

    def copy():
        with alone:  # no thread of Python changes the folder meanwhile
            state = times_of_changes(tmp_path / "run")
            if writing and state != states[-1]:
                states.append(state)
                copies.append(tmp_path / f"killed-{len(copies)}")
                with contextlib.suppress(shutil.Error):  # of files that other threads remove
                    shutil.copytree(tmp_path / "run", copies[-1])

    kill.on_touch(tmp_path / "run" / "checkpoints", copy)
    changed = CASE.hyperparams(gamma=0.25)
    agent.train(None, changed, agent.training_runner, n_steps=1, progress=False)
    writing = False
    gammas = []
    for folder in copies:
        runner, history = make(folder).restore(1)
        gammas.append(float(runner.hyperparams.gamma))
        np.testing.assert_array_equal(history["update_step"], [0, 1])
        assert AgentStore(folder).damage(1) is None
    assert gammas == sorted(gammas, reverse=True)
    assert set(gammas) == {0.5, 0.25}
    last_old = copies[gammas.index(0.25) - 1]
    agent = make(last_old)
    runner, _ = agent.restore("last")
    agent.train(None, changed, runner, n_steps=1, progress=False)
    assert names_in(last_old / "checkpoints") == {"0", "1-2", "2"}


def test_a_checkpoint_that_is_written_anew_takes_the_place_of_the_old_one(folder):
    agent = make(folder)
    runner, _ = agent.restore("last")
    agent.train(None, CASE.hyperparams(gamma=0.25), runner, n_steps=1, progress=False)
    assert names_in(folder / "checkpoints") == {"0", "2", "4", "6-2", "7"}
    assert not any(verify(folder).values())


def test_a_kill_while_an_old_checkpoint_is_removed_harms_none(tmp_path, monkeypatch):
    def half(folder, *args, **kwargs):
        for file in list(Path(folder).rglob("*"))[::2]:
            if file.is_file():
                file.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", half)
        trained(tmp_path, n_steps=10, keep_checkpoints=1)
    assert not any(verify(tmp_path).values())
    agent = make(tmp_path, keep_checkpoints=1)
    runner, _ = agent.restore("last")
    agent.train(None, None, runner, n_steps=2, progress=False)
    assert all(path.name.isdecimal() for path in (tmp_path / "checkpoints").iterdir())


@pytest.mark.slow
def test_six_kills_lose_nothing():
    command = [sys.executable, kill.__file__, "--number", "6", "--subjects", "host", "PPO"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("killed 3 times") == 2
