"""Harms the files of a training at random, and sees what restoring makes of it.

    python tests/faults/corruption.py --number 1000

Prints how often each outcome was seen, and the harms behind those that must not be.
"""

import argparse
import collections
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np
from loops import Line, Tiny
from probes import MatchSign
from registry import AGENTS

from jaxagents.checkpoints.records import CorruptCheckpointError
from jaxagents.host import OnlineConfig, restore_learner, train_online

HARMLESS, FELL_BACK, REFUSED = "harmless", "fell back and said so", "refused by name"
SILENT, RAW, MISDIAGNOSED = "silent", "raw", "misdiagnosed"
ALLOWED = {HARMLESS, FELL_BACK, REFUSED}
KEY = jax.random.key(0)


class Agent:
    """The folder of an agent."""

    def make(self, folder):
        case = AGENTS[0]
        fields = {"n_steps": 6, "keep_checkpoints": None, "restore_agent": True}
        return case.make(MatchSign, checkpoint_dir=folder, **fields)

    def train(self, folder):
        self.make(folder).train(KEY, AGENTS[0].hyperparams(), progress=False)

    def restore(self, folder, mode, go_on=False):
        """The step and the contents of what is restored, from which a training may go on."""
        agent = self.make(folder)
        runner, metrics = agent.restore(mode)
        found = int(runner.update_step), contents((runner, metrics))
        if go_on:
            agent.train(None, None, runner, n_steps=1, progress=False)
        return found


class Host:
    """The folder of a training on the host, with a replay buffer."""

    config = OnlineConfig(
        n_steps=40,
        batch_size=4,
        start_steps=10,
        buffer_size=25,
        eval_frequency=10,
        log_frequency=10,
        n_evals=1,
        keep_checkpoints=None,
    )

    def train(self, folder, resume=False, **fields):
        learner = Tiny.create(np.zeros(2), 1, discrete=False)
        config = self.config.replace(checkpoint_dir=folder, **fields)
        return train_online(learner, Line(), config, progress=False, resume=resume)

    def restore(self, folder, mode, go_on=False):
        """The step and the contents of what is restored, from which a training may go on."""
        learner = Tiny.create(np.zeros(2), 1, discrete=False)
        learner, metrics = restore_learner(learner, folder, mode)
        if go_on:
            self.train(folder, resume=True, n_steps=41)
        return int(metrics["step"][-1]), contents((learner, metrics))


def contents(tree):
    """The bytes of a pytree."""
    leaves = jax.tree.leaves(jax.tree.map(as_numpy, tree))
    return tuple((leaf.dtype.str, leaf.shape, leaf.tobytes()) for leaf in leaves)


def as_numpy(x):
    is_key = isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def files(folder, rng):
    """Files whose contents restoring may read, in a random order."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return rng.sample(found, len(found))


def flip(folder, rng):
    path = next(path for path in files(folder, rng) if path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))
    return path


def truncate(folder, rng):
    path = next(path for path in files(folder, rng) if path.stat().st_size)
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])
    return path


def delete(folder, rng):
    path = files(folder, rng)[0]
    path.unlink()
    return path


def zero(folder, rng):
    path = next(path for path in files(folder, rng) if path.stat().st_size)
    path.write_bytes(bytes(path.stat().st_size))
    return path


def swap(folder, rng):
    path = files(folder, rng)[0]
    others = [other for other in files(folder, rng) if other.name == path.name and other != path]
    other = (others or files(folder, rng))[0]
    data = path.read_bytes(), other.read_bytes()
    path.write_bytes(data[1])
    other.write_bytes(data[0])
    return path


def swap_steps(folder, rng):
    steps = rng.sample(sorted((folder / "checkpoints").iterdir()), 2)
    aside = folder / "aside"
    steps[0].rename(aside)
    steps[1].rename(steps[0])
    aside.rename(steps[1])
    return steps[0]


def rename(folder, rng):
    path = rng.choice([*files(folder, rng)[:1], *(folder / "checkpoints").iterdir()])
    path.rename(path.with_name(rng.choice(["99999", "²", "x", path.name + "0"])))
    return path


def append(folder, rng):
    path = files(folder, rng)[0]
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.choice([1, 40])))
    return path


def empty(folder, rng):
    path = files(folder, rng)[0]
    path.write_bytes(b"")
    return path


HARMS = (flip, flip, truncate, delete, zero, swap, swap_steps, rename, append, empty)


def outcome(subject, folder, expected):
    """The outcome of restoring the last checkpoint of a harmed folder, and of going on from it."""
    names = [path.name for path in (folder / "checkpoints").iterdir()]
    # A checkpoint that is not there any more cannot be told from one that was never made.
    last = max(int(name) for name in names if name.isdecimal())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            step, found = subject.restore(folder, "last", go_on=True)
        except (CorruptCheckpointError, FileNotFoundError) as error:
            return (REFUSED, "") if str(folder) in str(error) else (MISDIAGNOSED, repr(error))
        except FileExistsError as error:
            return MISDIAGNOSED, repr(error)
        except ValueError as error:
            return MISDIAGNOSED, repr(error)
        except Exception as error:
            return RAW, repr(error)
    if expected.get(step) != found:
        return SILENT, f"step {step}"
    if step == max(expected):
        return HARMLESS, ""
    said = any("Falling back" in str(warning.message) for warning in caught)
    return (FELL_BACK, "") if said or step == last else (SILENT, f"fell back to {step}")


def attack(subject, number, seed=0):
    """Harms copies of a folder.

    Returns:
        How often each outcome was seen, and the harms whose outcome is not allowed.
    """
    rng = random.Random(seed)
    counts, faults = collections.Counter(), []
    with tempfile.TemporaryDirectory() as directory:
        whole, harmed = Path(directory) / "whole", Path(directory) / "harmed"
        subject.train(whole)
        steps = sorted(int(path.name) for path in (whole / "checkpoints").iterdir())
        expected = {step: subject.restore(whole, step)[1] for step in steps}
        for i in range(number):
            shutil.copytree(whole, harmed)
            harm = HARMS[i % len(HARMS)]
            path = harm(harmed, rng)
            seen, why = outcome(subject, harmed, expected)
            counts[seen] += 1
            if seen not in ALLOWED:
                faults.append(f"{harm.__name__} of {path.relative_to(harmed)}: {seen}: {why}")
            shutil.rmtree(harmed)
    return counts, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=1000, help="harms of each kind of folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for subject in (Agent(), Host()):
        counts, faults = attack(subject, options.number, options.seed)
        print(f"{type(subject).__name__}: {dict(counts)}")
        for fault in faults:
            print(f"  {fault}")


if __name__ == "__main__":
    main()
