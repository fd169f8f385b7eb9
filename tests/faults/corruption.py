"""Damages the files of a run at random, and checks what restoring does.

    python tests/faults/corruption.py --number 1000

Restores the last, the best or a given checkpoint, resumes from the last one, and compares the outcome
with the report of `verify`.
"""

import argparse
import collections
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np
from gymnasium_probes import Walk, Walks
from probes import MatchSign
from registry import AGENTS

from jaxagents import verify
from jaxagents.checkpoints.records import AgentStore, CorruptCheckpointError, saved_steps
from jaxagents.checkpoints.store import best_first

HARMLESS, FELL_BACK, REFUSED = "harmless", "fell back and said so", "refused by name"
SILENT, RAW, MISDIAGNOSED = "silent", "raw", "misdiagnosed"
ALLOWED = {HARMLESS, FELL_BACK, REFUSED}
KEY = jax.random.key(0)
MODES = ("last", "last", "best", "step")


class Subject(NamedTuple):
    """The folder of an agent."""

    name: str
    env: Any

    def make(self, folder):
        case = next(case for case in AGENTS if case.name == self.name)
        fields = {"n_steps": 6, "keep_checkpoints": None, "restore_agent": True}
        return case.agent(self.env, None, case.config(checkpoint_dir=folder, **fields))

    def train(self, folder):
        self.make(folder).train(KEY, progress=False)

    def restore(self, folder, mode):
        """The step and the contents of what is restored."""
        runner, metrics = self.make(folder).restore(mode)
        return int(runner.update_step), contents((runner, metrics))

    def go_on(self, folder):
        """The contents of the runner after update 7, going on from the last checkpoint."""
        agent = self.make(folder)
        runner, _ = agent.restore("last")
        n_steps = 7 - int(runner.update_step)
        return contents(agent.train(None, None, runner, n_steps=n_steps, progress=False)[0])


SUBJECTS = {"agent": Subject("PPO", MatchSign()), "host": Subject("DQN", Walks(Walk))}


def contents(tree):
    """The bytes of a pytree."""
    leaves = jax.tree.leaves(jax.tree.map(as_numpy, tree))
    return tuple((leaf.dtype.str, leaf.shape, leaf.tobytes()) for leaf in leaves)


def as_numpy(x):
    is_key = isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def newest(folder):
    """The folder of the newest checkpoint."""
    return max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))


def files(folder, rng):
    """Files in random order; half of the time, files of the newest checkpoint come first."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    found = rng.sample(found, len(found))
    aim = str(newest(folder))
    aims = rng.random() < 0.5
    return sorted(found, key=lambda path: aims and not str(path).startswith(aim))


def rewriting(change):
    """A kind of damage that rewrites a file that is not empty."""

    def rewrite(folder, rng):
        path = next(path for path in files(folder, rng) if path.stat().st_size)
        path.write_bytes(change(bytearray(path.read_bytes()), rng))
        return path

    return rewrite


def flip(data, rng):
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def delete(folder, rng):
    path = files(folder, rng)[0]
    path.unlink()
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


def forget(folder, rng):
    """Empties the metadata of the newest checkpoint, which restoring always detects."""
    path = newest(folder) / "meta" / "metadata"
    path.write_bytes(b"")
    return path


HARMS = (
    *2 * [rewriting(flip)],
    rewriting(lambda data, rng: data[: rng.randrange(len(data))]),
    rewriting(lambda data, rng: bytes(len(data))),
    rewriting(lambda data, rng: data + rng.randbytes(rng.choice([1, 40]))),
    rewriting(lambda data, rng: b""),
    *(delete, swap, swap_steps, rename),
)


class Expected(NamedTuple):
    """The contents of the whole folder.

    Attributes:
        contents: The restored contents, by step.
        best_first: The steps, in order of decreasing mean return.
        end: The contents after resuming from the last checkpoint.
    """

    contents: dict[int, Any]
    best_first: list[int]
    end: Any

    @classmethod
    def of(cls, subject, folder, copy):
        steps = saved_steps(folder)
        restored = {step: subject.restore(folder, step)[1] for step in steps}
        returns = AgentStore(folder).mean_returns()
        known = {step: mean for step, mean in returns.items() if mean is not None}
        return cls(restored, best_first(known), subject.go_on(shutil.copytree(folder, copy)))

    def first_choice(self, mode):
        """The step that a mode names in the whole folder."""
        if mode == "last":
            return max(self.contents)
        return self.best_first[0] if mode == "best" else mode


def outcome(subject, folder, expected, mode):
    """The outcome of restoring a checkpoint of a damaged folder, and of resuming from the last one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            damages = verify(folder)
            step, found = subject.restore(folder, mode)
            end = subject.go_on(folder) if mode == "last" else expected.end
        except (CorruptCheckpointError, FileNotFoundError) as error:
            return (REFUSED, "") if names(error, folder) else (MISDIAGNOSED, repr(error))
        except (FileExistsError, ValueError) as error:
            return MISDIAGNOSED, repr(error)
        except Exception as error:
            return RAW, repr(error)
    first = expected.first_choice(mode)
    if expected.contents.get(step) != found or end != expected.end:
        return SILENT, f"step {step}"
    is_damaged = {at: damage is not None for at, damage in damages.items()}
    if is_damaged.get(step, True) or is_damaged.get(first, True) != (step != first):
        return MISDIAGNOSED, f"restored {step}, where verify says {damages}"
    if step == first:
        return HARMLESS, ""
    said = any(names(warning.message, folder) for warning in caught)
    return (FELL_BACK, "") if said else (SILENT, f"fell back to {step}")


def names(message, folder):
    """Whether a message names the folder or the steps."""
    return str(folder) in str(message) or "There is no checkpoint of" in str(message)


def attack(subject, number, seed=0, harms=HARMS):
    """Damages copies of a folder, with each kind of damage in turn.

    Files have random names, so the same seed does not always damage the same ones.

    Returns:
        The number of each outcome, and the damage whose outcome is not allowed.
    """
    rng = random.Random(seed)
    counts, faults = collections.Counter(), []
    with tempfile.TemporaryDirectory() as directory:
        whole, harmed = Path(directory) / "whole", Path(directory) / "harmed"
        subject.train(whole)
        expected = Expected.of(subject, whole, Path(directory) / "copy")
        for i in range(number):
            shutil.copytree(whole, harmed)
            harm = harms[i % len(harms)]
            path = harm(harmed, rng)
            mode = "last" if harm is forget else rng.choice(MODES)
            mode = rng.choice(sorted(expected.contents)) if mode == "step" else mode
            seen, why = outcome(subject, harmed, expected, mode)
            counts[seen] += 1
            if seen not in ALLOWED:
                faults.append(
                    f"{harm.__name__} of {path.relative_to(harmed)}, {mode}: {seen}: {why}"
                )
            shutil.rmtree(harmed)
    return counts, faults


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=1000, help="harms of each kind of folder")
    for name, subject in SUBJECTS.items():
        counts, faults = attack(subject, parser.parse_args().number)
        print(f"{name}: {dict(counts)}", *faults, sep="\n  ")
