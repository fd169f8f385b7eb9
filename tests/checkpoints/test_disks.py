"""Disks that are full or read-only: real ones where they may be mounted, and errors like theirs."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import time

import jax
import pytest
from probes import MatchSign
from registry import AGENTS

from jaxagents import verify
from jaxagents.checkpoints.disk import Troubles
from jaxagents.checkpoints.records import saved_steps

CASE = next(case for case in AGENTS if case.name == "REINFORCE")
KEY = jax.random.key(0)


def command(*arguments):
    try:
        subprocess.run(arguments, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk may be mounted here: {error}")


@contextlib.contextmanager
def mounted(folder, *options):
    command("mount", *options, folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class Disk:
    """A small disk in memory, which may be filled and whose folder may become read-only."""

    def __init__(self, path, stack):
        self.folder = path / "run"
        self._filler = stack.enter_context((path / "filler").open("wb", buffering=0))
        self._read_only = stack.enter_context(contextlib.ExitStack())

    def fill(self):
        with contextlib.suppress(OSError):
            while True:
                self._filler.write(bytes(4096))

    def empty(self):
        os.ftruncate(self._filler.fileno(), 0)
        self._filler.seek(0)

    def lock(self):
        self.folder.mkdir(exist_ok=True)
        self._read_only.enter_context(mounted(self.folder, "--bind", self.folder))
        command("mount", "-o", "remount,bind,ro", self.folder)

    def unlock(self):
        self._read_only.close()


@pytest.fixture
def disk(tmp_path):
    if sys.platform != "linux":
        pytest.skip("disks are mounted on Linux only")
    with contextlib.ExitStack() as stack:
        stack.enter_context(mounted(tmp_path, "-t", "tmpfs", "-o", "size=2m", "tmpfs"))
        yield Disk(tmp_path, stack)


class At:
    """A logger that does something at a step, and first waits for its checkpoint at one."""

    def __init__(self, folder, begin=lambda: None, end=lambda: None):
        self.folder = folder
        self.events = {3: begin, 6: end}

    def log(self, step, metrics):
        while step == 3 and 3 not in saved_steps(self.folder):
            time.sleep(0.01)
        self.events.get(step, lambda: None)()


def make(folder):
    fields = {"n_steps": 8, "eval_frequency": 1, "keep_checkpoints": None}
    return CASE.make(MatchSign, False, checkpoint_dir=folder, restore_agent=True, **fields)


TROUBLES = [("fill", "empty", "the disk is full"), ("lock", "unlock", "the disk is read-only")]


@pytest.mark.parametrize(("begin", "end", "reason"), TROUBLES)
def test_training_goes_on_and_what_is_missing_is_written_later(disk, begin, end, reason, capfd):
    agent = make(disk.folder)
    events = At(disk.folder, getattr(disk, begin), getattr(disk, end))
    with pytest.warns(UserWarning, match=f"could not be written to: {reason}. Training") as said:
        runner, _ = agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[events])
    assert runner.update_step == 8
    assert len(said) == 1
    steps = saved_steps(disk.folder)
    assert steps[:4] == [0, 1, 2, 3]
    assert steps[-1] == 8
    assert len(steps) < 9
    assert not any(verify(disk.folder).values())
    lines = (disk.folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update_step"] for line in lines] == list(range(9))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("begin", "end", "reason"), TROUBLES)
def test_a_disk_that_stays_so_ends_no_training_and_keeps_what_it_has(disk, begin, end, reason):
    agent = make(disk.folder)
    events = At(disk.folder, getattr(disk, begin))
    with pytest.warns(
        UserWarning, match=f"{reason}|The end of the training could not be saved"
    ) as said:
        runner, _ = agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[events])
    assert runner.update_step == 8
    assert len(said) == 2
    steps = saved_steps(disk.folder)
    assert steps[:4] == [0, 1, 2, 3]
    assert not any(verify(disk.folder).values())
    assert f"up to update {steps[-1]}. Before this process ends, make room" in str(said[1].message)
    getattr(disk, end)()
    resumed, _ = make(disk.folder).resume(KEY, CASE.hyperparams(), progress=False)
    assert resumed.update_step == 8
    assert saved_steps(disk.folder)[-1] == 8


def test_the_end_of_a_training_can_be_saved_when_there_is_room_again(disk):
    agent = make(disk.folder)
    events = At(disk.folder, disk.fill)
    with pytest.warns(UserWarning, match="the disk is full|the training could not be saved"):
        runner, _ = agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[events])
    assert saved_steps(disk.folder)[-1] < 8
    disk.empty()
    agent.train(None, CASE.hyperparams(), runner, n_steps=1, progress=False)
    assert saved_steps(disk.folder)[-2:] == [8, 9]


@pytest.mark.parametrize(("begin", "end", "reason"), TROUBLES)
def test_no_training_begins_where_nothing_can_be_written(disk, begin, end, reason):
    agent = make(disk.folder)
    disk.folder.mkdir()
    getattr(disk, begin)()
    with pytest.raises(OSError, match=f"run cannot be written to: {reason}. Nothing was trained"):
        agent.train(KEY, CASE.hyperparams(), progress=False)
    getattr(disk, end)()
    agent.train(KEY, CASE.hyperparams(), n_steps=1, progress=False)
    assert saved_steps(disk.folder) == [0, 1]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.EDQUOT, "the quota of the disk is used up"), (errno.EIO, "the disk does not answer")],
)
def test_troubles_are_known_by_their_number_or_their_text(tmp_path, number, reason):
    text = f"INTERNAL: Error writing: {os.strerror(number)} [os_error_code='{number}']"
    for error in (OSError(number, "raw"), ValueError(text)):
        troubles = Troubles(tmp_path)

        def fail_twice(error=error, troubles=troubles):
            for _ in range(2):
                with troubles.attempt():
                    raise error

        with pytest.warns(UserWarning, match=f"could not be written to: {reason}") as said:
            fail_twice()
        assert len(said) == 1
