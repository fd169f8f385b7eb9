"""How one process measures recurrent PPO of one library.

The settings are those of purejaxrl's `ppo_rnn.py`. A worker calls `main` with a function of the
command-line options that returns a compiled training function of the seed.
"""

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import worker

ROLLOUT_LENGTH, N_ENVS, N_MINIBATCHES, N_EPOCHS, WIDTH = 128, 4, 4, 4, 128
LEARNING_RATE, ADAM_EPS, MAX_GRADIENT_NORM = 2.5e-4, 1e-5, 0.5
GAMMA, GAE_LAMBDA, CLIP = 0.99, 0.95, 0.2
ENTROPY_COEFFICIENT, VALUE_COEFFICIENT = 0.01, 0.5


def main(library: str, make: Callable[[argparse.Namespace], Callable[[int], Any]]) -> None:
    """Measures a library, given the name of its package, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--environment", required=True)
    add("--updates", type=int, required=True, help="updates per timed call")
    add("--seed", type=int, default=0)
    add("--checkout", type=Path, help="checkout of purejaxrl's repository")
    args = parser.parse_args()
    began = time.perf_counter()
    train = make(args)
    compiled = time.perf_counter() - began
    found = {
        "compile_seconds": compiled,
        "memory_mib": worker.peak_memory_mib(),
        "steps_of_a_turn": args.updates * ROLLOUT_LENGTH * N_ENVS,
    }
    worker.report(library, found, "gymnax", "distrax")
    worker.take_turns(functools.partial(train, args.seed))
