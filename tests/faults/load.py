"""Trains, resumes, sweeps and evaluates in a loop, and checks whether the process grows.

    python tests/faults/load.py --minutes 60

Every other round has new configurations and environments. The script prints the memory and the objects
that the process holds, and at the end how much each of them grew in the second half.
"""

import argparse
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
CASES = [case for case in AGENTS if case.name in ("PPO", "DQN", "SAC", "BC")]
LARGEST = 0.02
"""The largest relative growth allowed in the second half of the rounds."""


def go_round(number):
    """One round: with equal configurations if its number is even, and otherwise with new ones."""
    is_new, case = number % 2, CASES[number // 2 % len(CASES)]
    env = type(f"MatchSign{number}", (MatchSign,), {}) if is_new else MatchSign
    fields = {"n_evals": 4 + number % 7} if is_new else {}
    hyperparams = case.hyperparams()
    with tempfile.TemporaryDirectory() as directory:
        files = {"checkpoint_dir": f"{directory}/run", "restore_agent": True, **fields}
        case.make(env, n_steps=3, **files).train(KEY, hyperparams, progress=False)
        agent = case.make(env, n_steps=5, **files)
        agent.resume(KEY, hyperparams, progress=False)
        agent.eval(KEY, 4)
        agent = case.make(env, n_steps=2, checkpoint_dir=f"{directory}/sweep", **fields)
        rates = case.hyperparams(learning_rate=jnp.array([1e-3, 1e-2]))
        agent.sweep(jax.random.split(KEY, 2), rates, progress=False)
    registry._collected.cache_clear()  # datasets of environments that are not seen again


def held():
    """Counts of the objects that the process holds, by name."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "MiB": int(status["VmRSS"].split()[0]) / 1024,
        "blocks of Python": sys.getallocatedblocks(),
        "mappings": Path("/proc/self/maps").read_text().count("\n"),
        "threads": threading.active_count(),
        "threads of the system": int(status["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
        "programs": len(jax.devices()[0].client.live_executables()),
        "arrays": len(jax.live_arrays()),
    }


def growth(values):
    """The relative growth from the third quarter of the values to the last."""
    third, last = np.array_split(values[len(values) // 2 :], 2)
    return (np.mean(last) - np.mean(third)) / max(np.mean(third), 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    end, rounds, lines = time.monotonic() + 60 * parser.parse_args().minutes, 0, []
    while time.monotonic() < end:
        go_round(rounds)
        rounds += 1
        if rounds % (2 * len(CASES)) == 0:  # after which rounds are of the same kinds again
            lines.append(held())
            told = ", ".join(f"{name} {number:,.0f}" for name, number in lines[-1].items())
            print(f"round {rounds}: {told}", flush=True)
    if len(lines) < 8:
        print("Too few lines to say whether anything grows.")
        return
    for name in lines[0]:
        share = growth([line[name] for line in lines])
        said = "flat" if share < LARGEST else "GROWS"
        print(f"{name}: {said}, {100 * share:+.1f} % from the third quarter to the last")


if __name__ == "__main__":
    main()
