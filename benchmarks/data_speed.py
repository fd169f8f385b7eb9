"""Measures replay buffers on the host: transitions added, and batches drawn, in a second.

Run it with the machine left alone: `python benchmarks/data_speed.py`.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from jaxagents.data import ReplayBuffer

SIZES = {"Pendulum": (3, 1), "HalfCheetah": (17, 6)}
"""Components of an observation and of an action."""


def transition(observation_dim: int, action_dim: int) -> dict[str, np.ndarray | float | bool]:
    """One transition as an environment's loop has it."""
    rng = np.random.default_rng(0)
    observations, next_observations = rng.normal(size=(2, observation_dim)).astype(np.float32)
    return {
        "observations": observations,
        "actions": rng.uniform(-1.0, 1.0, action_dim).astype(np.float32),
        "rewards": np.float32(1.0),
        "next_observations": next_observations,
        "masks": np.float32(1.0),
        "ends": False,
    }


def calls_per_second(function: Callable[[], object], n_calls: int) -> float:
    """Calls a second, of `n_calls` calls."""
    start = time.perf_counter()
    for _ in range(n_calls):
        function()
    return n_calls / (time.perf_counter() - start)


def measure(name: str, capacity: int, n_batches: int, batch_size: int, n_at_once: int) -> None:
    """Prints the speeds with transitions of one environment's size."""
    one = transition(*SIZES[name])
    buffer = ReplayBuffer.create(one, capacity)
    buffer.add_transitions(
        {key: np.repeat(np.asarray(x)[None], capacity, 0) for key, x in one.items()}
    )
    added = calls_per_second(lambda: buffer.add_transition(one), capacity)
    drawn = calls_per_second(lambda: buffer.sample(batch_size), n_batches)
    many = calls_per_second(
        lambda: buffer.sample_many(n_at_once, batch_size), max(1, n_batches // n_at_once)
    )
    print(
        f"{name:12} {added:10,.0f} transitions added/s, {drawn:8,.0f} batches of {batch_size} drawn/s, "
        f"{many * n_at_once:8,.0f} in calls for {n_at_once} at once"
    )


def main() -> None:
    """Measures every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--at-once", type=int, default=16, help="batches that one call draws")
    args = parser.parse_args()
    for name in SIZES:
        measure(name, args.capacity, args.batches, args.batch_size, args.at_once)


if __name__ == "__main__":
    main()
