"""Kills runs and sweeps at random moments, and compares the end with an undisturbed run.

    python tests/faults/kill.py --number 200

Every life is a process forked before JAX starts, so that imports happen once. It checks the checkpoints
of the last life, resumes, and is killed: alternately when it touches a file of the run's folder, and
after a random time. The script prints how far each kind of run came; a difference is an error.
"""

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import orbax.checkpoint  # noqa: F401  (imported once, before lives are forked)
import trees
from gymnasium_probes import Walk, Walks
from probes import MatchSign
from registry import AGENTS

from jaxagents import verify
from jaxagents.checkpoints.records import SWEEP, saved_steps

CASES = {case.name: case for case in AGENTS}
FOR_EVER = 10**5
TOUCHES = 200
"""Maximum number of file accesses before a life is killed at a file access."""
SECONDS = 0.6
"""Maximum seconds between the first file access and the kill, in a life killed after a time."""
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}


class Subject(NamedTuple):
    """Runs of an agent, or sweeps of it."""

    name: str
    env: Any = MatchSign()
    sweeps: bool = False

    def records(self, folder):
        """The folder of the checkpoints."""
        return folder / SWEEP if self.sweeps else folder

    def train(self, folder, n_steps):
        """Goes on until so many updates were made, or begins."""
        case, key = CASES[self.name], jax.random.key(0)
        fields = {"restore_agent": True, "keep_checkpoints": 1, "eval_frequency": 20}
        config = case.config(n_steps=n_steps, checkpoint_dir=folder, **fields)
        agent = case.agent(self.env, None, config)
        if not self.sweeps:
            return agent.resume(key, case.hyperparams(), progress=False)
        sets = case.hyperparams(gamma=jnp.array([0.5, 0.9]))
        return agent.sweep(jax.random.split(key, 2), sets, progress=False)


SUBJECTS = {
    "PPO": Subject("PPO"),
    "DQN": Subject("DQN"),
    "sweep": Subject("PPO", sweeps=True),
    "host": Subject("DQN", Walks(Walk)),
}


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def is_change(event, arguments):
    """Whether a Python audit event changes a file or a folder, or opens a file for writing."""
    if event != "open":
        return event in CHANGES
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def place(event, arguments):
    """The path that a Python audit event changes, if it is known."""
    path, is_below = str(arguments[0]), event in {"os.remove", "os.rmdir"} and arguments[1] >= 0
    return os.path.join(os.readlink(f"/proc/self/fd/{arguments[1]}"), path) if is_below else path


def on_touch(folder, act):
    """From now on, calls a function whenever this process is about to change a file in a folder."""

    def hook(event, arguments):
        if is_change(event, arguments) and place(event, arguments).startswith(str(folder)):
            act()

    sys.addaudithook(hook)


def live(subject, folder, number, rng):
    """Checks what the last life left, and trains until this process is killed."""
    assert_whole(subject, folder)
    if number % 2 == 0:  # also the first, which compiles for those to come
        touches = itertools.count(1)
        last = rng.randrange(1, TOUCHES)
        on_touch(folder, lambda: next(touches) == last and die())
    else:
        timers = iter([threading.Timer(rng.uniform(0.0, SECONDS), die)])
        on_touch(folder, lambda: [timer.start() for timer in timers])
    subject.train(folder, FOR_EVER)


def end(subject, folder):
    """Trains a little further, and compares with an undisturbed run."""
    assert_whole(subject, folder)
    n_steps = saved_steps(subject.records(folder))[-1] + 30
    with tempfile.TemporaryDirectory() as directory:
        alone = subject.train(Path(directory), n_steps)
        trees.assert_equal(subject.train(folder, n_steps), alone)


def assert_whole(subject, folder):
    if saved_steps(subject.records(folder)):
        damages = verify(subject.records(folder))
        assert not any(damages.values()), damages


def in_a_process(act, *arguments):
    """The signal that ended a forked process that does something, or 0; its errors are printed."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            act(*arguments)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) or status == 0, "see the error above"
    return os.WTERMSIG(status)


def attack(subject, folder, number, seed=0):
    """Gives a run a number of lives, and then lets it finish.

    Returns:
        The step of the newest checkpoint at the end of each life.
    """
    rng, steps = random.Random(seed), [-1]
    for i in range(number):
        assert in_a_process(live, subject, folder, i, random.Random(rng.random())) == signal.SIGKILL
        steps.append(max(saved_steps(subject.records(folder)), default=-1))
        assert steps[-1] >= steps[-2], f"checkpoints were lost: {steps}"
    assert steps[-1] >= 0, "no life made a checkpoint"
    assert in_a_process(end, subject, folder) == 0
    return steps[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=200, help="kills in all")
    parser.add_argument("--subjects", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for i, name in enumerate(options.subjects):
        number = len(range(i, options.number, len(options.subjects)))
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            jax.config.update("jax_compilation_cache_dir", f"{directory}/programs")
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            steps = attack(SUBJECTS[name], Path(directory) / "run", number, options.seed)
        print(
            f"{name}: killed {number} times, at step {steps[-1]} in the end: the same bit for bit "
            f"({time.monotonic() - began:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
