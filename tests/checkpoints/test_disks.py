"""Disks that are full or read-only: real ones where they may be mounted, and errors like theirs."""

import contextlib
import errno
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from saved_runs import CASE, KEY, MatchSign
from scripts import run_script

from jaxagents import verify
from jaxagents.checkpoints.disk import DiskErrors
from jaxagents.checkpoints.records import saved_steps


class Disk(NamedTuple):
    """A disk that can be full for a while."""

    folder: Path
    reason: str
    begin: Callable[[], object]
    end: Callable[[], object]


@contextlib.contextmanager
def mounted(folder, *options):
    if sys.platform != "linux":
        pytest.skip("disks are mounted on Linux only")
    mount(*options, folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def mount(*options):
    try:
        subprocess.run(["mount", *options], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk may be mounted here: {error}")


@contextlib.contextmanager
def read_only(path):
    """A folder that becomes read-only."""
    with contextlib.ExitStack() as stack:
        folder = path / "run"

        def begin():
            stack.enter_context(mounted(folder, "--bind", folder))
            mount("-o", "remount,bind,ro", folder)

        yield Disk(folder, "Read-only file system", begin, stack.close)


@contextlib.contextmanager
def limited(path, n_bytes=100):
    """A limit on file sizes, which simulates a full disk on any machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def set_limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    reason = "File too large"
    try:
        yield Disk(path / "run", reason, lambda: set_limit(n_bytes), lambda: set_limit(soft))
    finally:
        set_limit(soft)


@pytest.fixture(params=[read_only, limited])
def disk(request, tmp_path):
    with request.param(tmp_path) as disk:
        yield disk


def train(disk, begins_at=None, ends_at=None):
    """Trains while the disk is full between two steps; returns the agent and the runner."""

    class Events:
        def log(self, step, metrics):
            if step == begins_at:
                while step not in saved_steps(disk.folder):
                    time.sleep(0.01)
                disk.begin()
            if step == ends_at:
                disk.end()

    fields = {"n_steps": 8, "eval_frequency": 1, "keep_checkpoints": None}
    agent = CASE.make(MatchSign, False, checkpoint_dir=disk.folder, restore_agent=True, **fields)
    return agent, agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[Events()])[0]


def test_training_goes_on_and_what_is_missing_is_written_later(disk, capfd):
    expected = f"could not be written to: {disk.reason}. Training continues"
    with pytest.warns(UserWarning, match=expected) as said:
        _, runner = train(disk, begins_at=3, ends_at=6)
    assert runner.update_step == 8
    assert len(said) == 1
    steps = saved_steps(disk.folder)
    assert steps[:4] == [0, 1, 2, 3]
    assert steps[-1] == 8
    assert len(steps) < 9
    assert not any(verify(disk.folder).values())
    assert not list((disk.folder / "checkpoints").glob("*tmp*"))
    lines = (disk.folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update_step"] for line in lines] == list(range(9))
    assert capfd.readouterr().err == ""


def test_a_disk_that_stays_so_ends_no_training_and_the_end_can_be_saved_later(tmp_path):
    with limited(tmp_path) as disk:
        expected = f"{disk.reason}|The end of the run could not be saved"
        with pytest.warns(UserWarning, match=expected) as said:
            agent, runner = train(disk, begins_at=3)
        assert runner.update_step == 8
        assert len(said) == 2
        assert saved_steps(disk.folder) == [0, 1, 2, 3]
        assert "up to update 3. Before this process ends, make room" in str(said[1].message)
        disk.end()
        agent.train(None, CASE.hyperparams(), runner, n_steps=1, progress=False)
    assert saved_steps(disk.folder) == [0, 1, 2, 3, 8, 9]
    assert not any(verify(disk.folder).values())


def test_no_training_begins_where_nothing_can_be_written(disk):
    disk.folder.mkdir()
    disk.begin()
    with pytest.raises(OSError, match=f"cannot be written to: {disk.reason}. Nothing was trained"):
        train(disk)
    disk.end()
    train(disk)
    assert saved_steps(disk.folder) == list(range(9))


def test_a_checkpoint_that_cannot_be_written_again_stays(tmp_path):
    with limited(tmp_path, 1500) as disk:
        agent, runner = train(disk)
        disk.begin()
        with pytest.warns(UserWarning, match="could not be (written to|saved)"):
            agent.train(None, CASE.hyperparams(gamma=0.25), runner, n_steps=1, progress=False)
    assert not any(verify(disk.folder).values())
    assert agent.restore(8)[0].hyperparams.gamma == 0.5
    assert {path.name for path in disk.folder.glob("checkpoints/*")} == set("012345678")


@pytest.mark.slow  # in a process of its own, as orbax leaves tasks behind
def test_errors_of_orbax_itself_end_no_training_either(tmp_path):
    script = f"""
        import pathlib, sys, warnings
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from jaxagents.checkpoints import writer
        from test_disks import limited, saved_steps, train

        writer.probe = lambda *args: None
        warnings.simplefilter("always")
        with limited(pathlib.Path({str(tmp_path)!r}), 1500) as disk, warnings.catch_warnings(
            record=True
        ) as said:
            agent, runner = train(disk, begins_at=3)
        print(runner.update_step, saved_steps(disk.folder), list(disk.folder.glob("*/*tmp*")))
        print(*(warning.message for warning in said))
    """
    steps, said = run_script(script).splitlines()
    assert steps == "8 [0, 1, 2, 3] []"
    assert "could not be written to" in said
    assert said.count("The end of the run could not be saved") == 1


def fail_twice(troubles, error):
    for _ in range(2):
        with troubles.attempt():
            raise error


def test_troubles_are_known_by_their_number_or_their_text(tmp_path):
    for number, reason in (
        (errno.EDQUOT, "Disk quota exceeded"),
        (errno.EIO, "Input/output error"),
    ):
        text = f"INTERNAL: Error writing: {os.strerror(number)} [os_error_code='{number}']"
        for error in (OSError(number, "raw"), ValueError(text)):
            with pytest.warns(UserWarning, match=f"be written to: {reason}") as said:
                fail_twice(DiskErrors(tmp_path), error)
            assert len(said) == 1
