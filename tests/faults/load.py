"""Goes round training, resuming, sweeping and evaluating, and says whether the process grows.

    python tests/faults/load.py --minutes 60

Every other round is of configurations and environments that were never seen before. Prints the memory
and the other things that the process holds, and at the end how each of them grew in the second half.
"""

import argparse
import ctypes
import gc
import os
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
import registry
from probes import MatchSign
from registry import AGENTS

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
NAMES = ["PPO", "DQN", "SAC", "BC"]
LARGEST = 0.02
"""The most by which something flat may grow in the second half of the rounds, as a share of itself."""


def fresh_environment(number):
    """A class of environments that was never seen before."""
    return type(f"MatchSign{number}", (MatchSign,), {})


def train_and_resume(case, env, folder, **fields):
    """A training, which another agent goes on from, and episodes."""
    fields = {"checkpoint_dir": folder, "restore_agent": True, **fields}
    hyperparams = case.hyperparams()
    case.make(env, n_steps=3, **fields).train(KEY, hyperparams, progress=False)
    agent = case.make(env, n_steps=5, **fields)
    agent.resume(KEY, hyperparams, progress=False)
    agent.eval(KEY, 4)


def sweep(case, env, folder, **fields):
    """A sweep of two sets and two seeds."""
    agent = case.make(env, checkpoint_dir=folder / "sweep", n_steps=2, **fields)
    rates = case.hyperparams(learning_rate=jnp.array([1e-3, 1e-2]))
    agent.sweep(jax.random.split(KEY, 2), rates, progress=False)


def go_round(number):
    """One round: with equal configurations if its number is even, and otherwise with new ones."""
    is_new = number % 2
    name = NAMES[number // 2 % len(NAMES)]
    env = fresh_environment(number) if is_new else MatchSign
    fields = {"n_evals": 4 + number % 7} if is_new else {}
    with tempfile.TemporaryDirectory() as directory:
        train_and_resume(CASES[name], env, Path(directory) / "run", **fields)
        sweep(CASES[name], env, Path(directory), **fields)
    registry._collected.cache_clear()  # datasets of environments that are not seen again


class MallInfo(ctypes.Structure):
    """The heap, as glibc's `mallinfo2` describes it."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split(" ")]


def heap():
    """MiB that `malloc` has given out, and MiB that were freed but are kept by it."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo
    info = mallinfo()
    return (info.uordblks + info.hblkhd) / 2**20, info.fordblks / 2**20


def held():
    """Numbers of things that the process holds, by name."""
    gc.collect()
    used, kept = heap()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    client = jax.devices()[0].client
    return {
        "MiB": int(status["VmRSS"].split()[0]) / 1024,
        "MiB in use by malloc": used,
        "MiB kept by malloc": kept,
        "blocks of Python": sys.getallocatedblocks(),
        "mappings": Path("/proc/self/maps").read_text().count("\n"),
        "threads": threading.active_count(),
        "threads of the system": int(status["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
        "programs": len(client.live_executables()),
        "arrays": len(jax.live_arrays()),
    }


def print_leftovers():
    """Prints what is held when memory that was freed is given back, and what JAX keeps is freed."""
    trim = ctypes.CDLL(None).malloc_trim
    trim(0)
    print(f"with malloc_trim: {in_words(held())}")
    jax.clear_caches()
    held()  # collects what is freed
    trim(0)
    print(f"with jax.clear_caches as well: {in_words(held())}", flush=True)


def in_words(numbers):
    return ", ".join(f"{name} {number:,.0f}" for name, number in numbers.items())


def growth(values):
    """By what share of itself something grows from the third quarter of its values to the last."""
    third, last = np.array_split(values[len(values) // 2 :], 2)
    return (np.mean(last) - np.mean(third)) / max(np.mean(third), 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    each = 2 * len(NAMES)  # after which rounds are of the same kinds again
    parser.add_argument("--every", type=int, default=each, help="rounds between two lines")
    options = parser.parse_args()
    end, rounds, lines = time.monotonic() + 60 * options.minutes, 0, []
    while time.monotonic() < end:
        go_round(rounds)
        rounds += 1
        if rounds % options.every == 0:
            lines.append(held())
            print(f"round {rounds}: {in_words(lines[-1])}", flush=True)
    print_leftovers()
    if len(lines) < 8:
        print("Too few lines to say whether anything grows.")
        return
    for name in lines[0]:
        share = growth([line[name] for line in lines])
        said = "flat" if share < LARGEST else "GROWS"
        print(f"{name}: {said}, {100 * share:+.1f} % from the third quarter to the last")


if __name__ == "__main__":
    main()
