"""Kills trainings and sweeps at random moments, and compares the end with one that was left alone.

    python tests/faults/kill.py --number 200

Prints, for each kind of training, how far it came; a difference is an error.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
import trees
from loops import Line, Tiny
from probes import MatchSign
from registry import AGENTS

from jaxagents import verify
from jaxagents.checkpoints.records import saved_steps
from jaxagents.checkpoints.sweep_records import SWEEP
from jaxagents.host import OnlineConfig, train_online

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
FOR_EVER = 10**9


class Agent:
    """Trainings of an agent."""

    def __init__(self, name):
        self.case = CASES[name]

    def train(self, folder, n_steps):
        """Goes on until so many updates were made, or begins."""
        fields = {"checkpoint_dir": folder, "restore_agent": True, "eval_frequency": 20}
        agent = self.case.make(MatchSign, n_steps=n_steps, **fields)
        return agent.resume(KEY, self.case.hyperparams(), progress=False)


class Sweep(Agent):
    """Sweeps of an agent."""

    def train(self, folder, n_steps):
        """Goes on until so many updates were made, or begins."""
        fields = {"checkpoint_dir": folder, "restore_agent": True, "eval_frequency": 20}
        agent = self.case.make(MatchSign, **fields)
        hyperparams = self.case.hyperparams(gamma=jnp.array([0.5, 0.9]))
        return agent.sweep(jax.random.split(KEY, 2), hyperparams, n_steps=n_steps, progress=False)


class Host:
    """Trainings of a learner on the host, with a replay buffer."""

    def train(self, folder, n_steps):
        """Goes on until so many steps were made, or begins."""
        sizes = {"batch_size": 4, "start_steps": 10, "buffer_size": 50, "n_evals": 1}
        frequencies = {"eval_frequency": 40, "log_frequency": 20}
        config = OnlineConfig(n_steps=n_steps, checkpoint_dir=folder, **sizes, **frequencies)
        learner = Tiny.create(np.zeros(2), 1, discrete=False)
        return train_online(learner, Line(), config, progress=False, resume=folder is not None)


SUBJECTS = {"PPO": Agent("PPO"), "DQN": Agent("DQN"), "sweep": Sweep("PPO"), "host": Host()}


def records_of(name, folder):
    """The folder of the checkpoints of a subject that is given a folder."""
    return folder / SWEEP if name == "sweep" else folder


def live(name, folder, seconds):
    """Trains until this process is killed, so long after the first new checkpoint."""
    records = records_of(name, folder)
    known = saved_steps(records)

    def kill():
        while saved_steps(records) == known:
            time.sleep(0.002)
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    SUBJECTS[name].train(folder, FOR_EVER)


def attack(name, folder, number, seed=0):
    """Lets a training live so many times, and then end.

    Returns:
        The steps that it had made at the end of each life.
    """
    rng, steps, records = random.Random(seed), [], records_of(name, folder)
    for _ in range(number):
        command = [sys.executable, __file__, "--live", name, folder, str(rng.uniform(0.0, 0.5))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == -signal.SIGKILL, done.stderr
        steps.append(saved_steps(records)[-1])
        damages = verify(records)
        assert not any(damages.values()), damages
    assert steps == sorted(set(steps)), steps
    n_steps = steps[-1] + 30
    trees.assert_equal(SUBJECTS[name].train(folder, n_steps), alone(name, n_steps))
    return steps


def alone(name, n_steps):
    """The same training, which nobody disturbs."""
    if name == "host":
        return SUBJECTS[name].train(None, n_steps)
    with tempfile.TemporaryDirectory() as directory:
        return SUBJECTS[name].train(Path(directory), n_steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=200, help="kills in all")
    parser.add_argument("--live", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live:
        name, folder, seconds = options.live
        live(name, Path(folder), float(seconds))
        return
    for name in SUBJECTS:
        with tempfile.TemporaryDirectory() as directory:
            os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", f"{directory}/programs")
            steps = attack(name, Path(directory), -(-options.number // len(SUBJECTS)))
        print(
            f"{name}: killed {len(steps)} times, at step {steps[-1]} in the end: the same bit for bit"
        )


if __name__ == "__main__":
    main()
