"""The work of the benchmark, and how one library is measured at it in one process.

Every worker calls `main` from its library's own virtual environment, with this folder on its path.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

import jax
import process

ENVIRONMENT = "CartPole-v1"
ROLLOUT_LENGTH = 128
N_EPOCHS = 4
N_MINIBATCHES = 4
HIDDEN_LAYERS = (64, 64)  # with tanh, for the actor and for the critic
LEARNING_RATE = 2.5e-4
ENTROPY_COEFFICIENT = 0.01

N_FIRST_STEPS = 100_000
N_CALLS = 5
N_STEPS_PER_SEED = 250_000
N_LEARNING_ENVS = 64
N_LEARNING_STEPS = 500_000
N_EPISODES = 128


class Trainer(Protocol):
    """PPO of one library, made for a number of environments."""

    def train(self, seed: int, n_updates: int) -> Any:
        """Trains afresh, without evaluation, and returns what was learned."""
        ...

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        """Makes several trainings that differ in their seeds, the library's fastest way."""
        ...

    def greedy_returns(self, trained: Any, seed: int, n_episodes: int) -> Any:
        """Returns of episodes in which the most probable action is always taken."""
        ...


def main(library: str, make_trainer: Callable[[int], Trainer]) -> None:
    """Measures a library and prints one line of JSON.

    Args:
        library: Name of its distribution.
        make_trainer: Makes its trainer for a number of environments.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--parallel-seeds", type=int, default=1)
    args = parser.parse_args()

    speed = _speed if args.parallel_seeds == 1 else _speed_of_seeds
    result = {
        "library": library,
        "versions": process.versions(library, "gymnax"),
        **speed(make_trainer(args.envs), args),
        **_learning(make_trainer(N_LEARNING_ENVS), args.seed),
    }
    print(json.dumps(result))


def _speed(trainer: Trainer, args: argparse.Namespace) -> dict[str, float]:
    def timed(n_updates: int) -> float:
        return _seconds(trainer.train, args.seed, n_updates)

    steps_per_update = args.envs * ROLLOUT_LENGTH
    n_first = math.ceil(N_FIRST_STEPS / steps_per_update)
    first = timed(n_first)
    steady = statistics.median(timed(n_first) for _ in range(3))
    memory = process.peak_memory_mib()  # before anything that only the benchmark needs is compiled
    n_updates = max(n_first, math.ceil(n_first * args.seconds / steady))
    timed(n_updates)  # compiles again where the number of updates is compiled in
    elapsed = statistics.median(timed(n_updates) for _ in range(N_CALLS))
    return {
        "steps_per_second": n_updates * steps_per_update / elapsed,
        "compile_seconds": first - steady,
        "memory_mib": memory,
    }


def _speed_of_seeds(trainer: Trainer, args: argparse.Namespace) -> dict[str, float]:
    steps_per_update = args.envs * ROLLOUT_LENGTH
    n_updates = N_STEPS_PER_SEED // steps_per_update

    def timed() -> float:
        return _seconds(trainer.train_seeds, args.seed, args.parallel_seeds, n_updates)

    first = timed()
    steady = statistics.median(timed() for _ in range(3))
    return {
        "steps_per_second": args.parallel_seeds * n_updates * steps_per_update / steady,
        "compile_seconds": first - steady,
        "memory_mib": process.peak_memory_mib(),
    }


def _seconds(train: Callable[..., Any], *args: int) -> float:
    began = time.perf_counter()
    jax.block_until_ready(train(*args))
    return time.perf_counter() - began


def _learning(trainer: Trainer, seed: int) -> dict[str, float]:
    n_updates = N_LEARNING_STEPS // (N_LEARNING_ENVS * ROLLOUT_LENGTH)
    trained = trainer.train(seed, n_updates)
    returns = trainer.greedy_returns(trained, seed, N_EPISODES)
    return {
        "learning_steps": n_updates * N_LEARNING_ENVS * ROLLOUT_LENGTH,
        "mean_return": float(returns.mean()),
    }
