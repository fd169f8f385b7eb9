"""The settings of the benchmark of off-policy agents, and how one process measures one library.

Every worker calls `main` in its library's virtual environment, with this folder on its path. It passes a
trainer class, created from a task. `train(seed, n_updates)` of the trainer trains from scratch without
evaluation, and returns the final state.
"""

import argparse
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import worker

N_FIRST_UPDATES = 2_000
GAMMA = 0.99
TAU = 0.01
LEARNING_RATE = 2.5e-4
LEARNING_STARTS = 1_000
HIDDEN_LAYERS = (64, 64)  # with ReLU; rejax has no others in DQN


class Work(NamedTuple):
    """A task.

    Attributes:
        algorithm: DDQN in CartPole-v1, or SAC in Pendulum-v1.
        n_envs: Number of environments, each of which takes one step before an update.
        batch_size: Transitions per update.
        buffer_size: Capacity of the replay buffer.
        n_seeds: Number of simultaneous seeds.
    """

    algorithm: str
    n_envs: int
    batch_size: int
    buffer_size: int
    n_seeds: int = 1


WORKS = {
    "DDQN, 1 environment, batch 256": Work("ddqn", 1, 256, 131_072),
    "DDQN, 10 environments, batch 128": Work("ddqn", 10, 128, 10_240),
    "DDQN, 10 environments, batch 128, 16 seeds": Work("ddqn", 10, 128, 10_240, 16),
    "SAC, 1 environment, batch 256": Work("sac", 1, 256, 10_240),
    "SAC, 1 environment, batch 256, buffer of 1M": Work("sac", 1, 256, 1_048_576),
    "DDQN, 1,024 environments, batch 1,024": Work("ddqn", 1_024, 1_024, 131_072),
}


def main(library: str, make_trainer: Callable[[Work], Any]) -> None:
    """Measures a library, given the name of its package, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--work", choices=WORKS, required=True)
    add("--seconds", type=float, default=3.0, help="approximate length of a timed call")
    add("--updates", type=int, help="updates per timed call, instead of --seconds")
    add("--seed", type=int, default=0)
    args = parser.parse_args()
    work = WORKS[args.work]
    trainer = make_trainer(work)

    def train(n_updates: int) -> None:
        jax.block_until_ready(trainer.train(args.seed, n_updates))

    first = worker.seconds(train, N_FIRST_UPDATES)
    steady = min(worker.seconds(train, N_FIRST_UPDATES) for _ in range(2))
    n_updates = args.updates or math.ceil(N_FIRST_UPDATES * args.seconds / steady)
    train(n_updates)  # compiles again where the number of updates is compiled in
    measured = {
        "compile_seconds": first - steady,
        "memory_mib": worker.peak_memory_mib(),
        "steps_of_a_turn": work.n_seeds * n_updates * work.n_envs,
    }
    worker.report(library, measured, "gymnax")
    worker.take_turns(functools.partial(train, n_updates))
