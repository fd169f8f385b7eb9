"""How PPO of one library is measured in one process.

Every worker calls `main` from its library's own virtual environment, with this folder on its path.
Some of these have old packages or no JAX: this needs only the standard library.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import process
from tasks import MAX_CALLS, TASKS, Task

OTHERS = ("gymnax", "gymnasium", "torch")
N_PROBE_STEPS = 20_000
MAX_PROBES = 3
MAX_STEPS_OF_A_MEMBER = 500_000
RATES_AROUND = 10.0  # the sweep goes from the learning rate divided by it to their product


class Trainer(Protocol):
    """PPO of one library, made for a task and a number of environments.

    Every method returns when the work is done, and not before. Trainings are not evaluated, but for
    those of `curve`.

    Attributes:
        length_is_compiled: Whether a training of another length is compiled anew.
    """

    length_is_compiled: bool

    def train(self, seed: int, n_updates: int) -> Any:
        """Trains afresh."""
        ...

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        """Makes several trainings that differ in their seeds, the library's fastest way."""
        ...

    def train_rates(self, seed: int, rates: Sequence[float], n_updates: int) -> Any:
        """Makes several trainings that differ in their learning rates, the library's fastest way."""
        ...

    def curve(self, seed: int, n_updates: int, n_points: int, n_episodes: int) -> list[float]:
        """Mean returns of greedy episodes.

        Args:
            seed: Seed of the training.
            n_updates: Number of updates between two evaluations.
            n_points: Number of evaluations.
            n_episodes: Number of episodes in each.
        """
        ...


class InTurn:
    """Trainings that are made one after the other, for libraries that know no other way.

    The class that inherits has `train(seed, n_updates, learning_rate)`.
    """

    length_is_compiled = False
    train: Callable[..., Any]

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> None:
        """Trains one seed after the other."""
        for i in range(n_seeds):
            self.train(seed + i, n_updates)

    def train_rates(self, seed: int, rates: Sequence[float], n_updates: int) -> None:
        """Trains with one learning rate after the other."""
        for rate in rates:
            self.train(seed, n_updates, rate)


def main(library: str, make_trainer: Callable[[Task, int], Trainer]) -> None:
    """Measures a library and prints one line of JSON.

    Args:
        library: Name of its distribution.
        make_trainer: Makes its trainer for a task and a number of environments.
    """
    args = parse_args()
    task = TASKS[args.environment]
    trainer = make_trainer(task, args.envs)
    measured = learning(trainer, task, args) if args.learn else speed(trainer, task, args)
    versions = process.versions(library, *OTHERS)
    print(json.dumps({"library": library, "versions": versions, **measured}))


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--environment", choices=TASKS, required=True)
    add("--envs", type=int, required=True, help="number of environments")
    add("--seed", type=int, default=0, help="first seed")
    add("--seeds", type=int, default=1, help="trainings at once, or one after the other to learn")
    add("--rates", type=int, default=1, help="learning rates at once")
    add("--seconds", type=float, default=3.0, help="aimed length of one timed call")
    add("--budget", type=float, default=15.0, help="seconds in which calls are made again")
    add("--learn", action="store_true", help="show what is learned, instead of the speed")
    add("--steps", type=int, default=500_000, help="environment steps of a training that learns")
    add("--points", type=int, default=10, help="evaluations of a training that learns")
    add("--episodes", type=int, default=128, help="episodes of an evaluation")
    return parser.parse_args()


def speed(trainer: Trainer, task: Task, args: argparse.Namespace) -> dict[str, float]:
    """Times calls of about the length that was asked for.

    The first call is short, and so are some of the same length: the difference is the compilation.
    """
    timed = timed_call(trainer, task, args)
    steps_per_update = args.envs * task.rollout_length * args.seeds * args.rates
    n_probe = math.ceil(N_PROBE_STEPS / steps_per_update)
    first = timed(n_probe)
    steady = statistics.median(repeated(timed, n_probe, MAX_PROBES, args.budget))
    memory = process.peak_memory_mib()  # before anything that only the benchmark needs is compiled
    n_updates = aimed_updates(task, args, n_probe, steady)
    if trainer.length_is_compiled:
        timed(n_updates)
    seconds = repeated(timed, n_updates, MAX_CALLS, args.budget)
    return {
        "steps_per_second": n_updates * steps_per_update / statistics.median(seconds),
        "compile_seconds": first - steady,
        "memory_mib": memory,
        "steps_of_a_call": n_updates * steps_per_update,
        "n_calls": len(seconds),
    }


def repeated(
    timed: Callable[[int], float], n_updates: int, n_calls: int, budget: float
) -> list[float]:
    """The seconds of `n_calls` calls, or of as many as fit into a budget of seconds, but of one."""
    seconds = [timed(n_updates)]
    while len(seconds) < n_calls and sum(seconds) + seconds[-1] <= budget:
        seconds.append(timed(n_updates))
    return seconds


def timed_call(trainer: Trainer, task: Task, args: argparse.Namespace) -> Callable[[int], float]:
    """The seconds that the work takes, by the number of updates of each training."""

    def timed(n_updates: int) -> float:
        began = time.perf_counter()
        if args.seeds > 1:
            trainer.train_seeds(args.seed, args.seeds, n_updates)
        elif args.rates > 1:
            trainer.train_rates(args.seed, learning_rates(task, args.rates), n_updates)
        else:
            trainer.train(args.seed, n_updates)
        return time.perf_counter() - began

    return timed


def aimed_updates(task: Task, args: argparse.Namespace, n_probe: int, seconds: float) -> int:
    """How many updates take about as long as was asked for, if `n_probe` take `seconds`.

    Trainings at once are no longer than `MAX_STEPS_OF_A_MEMBER`.
    """
    n_updates = max(1, round(n_probe * args.seconds / seconds))
    if args.seeds * args.rates == 1:
        return n_updates
    return min(n_updates, max(1, MAX_STEPS_OF_A_MEMBER // (args.envs * task.rollout_length)))


def learning_rates(task: Task, n_rates: int) -> list[float]:
    """Learning rates around the task's own, in equal ratios."""
    exponents = (2.0 * i / (n_rates - 1) - 1.0 for i in range(n_rates))
    return [task.learning_rate * RATES_AROUND**exponent for exponent in exponents]


def learning(trainer: Trainer, task: Task, args: argparse.Namespace) -> dict[str, Any]:
    """Trains seeds one after the other, and gives the returns on the way."""
    steps_per_update = args.envs * task.rollout_length
    n_updates = max(1, args.steps // (args.points * steps_per_update))
    began = time.perf_counter()
    curves = [
        trainer.curve(args.seed + i, n_updates, args.points, args.episodes)
        for i in range(args.seeds)
    ]
    return {
        "steps": [(i + 1) * n_updates * steps_per_update for i in range(args.points)],
        "curves": curves,
        "episodes": args.episodes,
        "seconds": time.perf_counter() - began,
    }
