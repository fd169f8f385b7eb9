"""How one process measures PPO of one library.

Every worker calls `main` in its library's virtual environment, with this folder on its path. Some
environments have no JAX, so this module only needs the standard library.

A worker passes a trainer class, created from a task and a number of environments. The trainer's methods
return only when the work is done. They train without evaluation, except for `curve`:

- `train(seed, n_updates)` trains from scratch.
- `train_seeds(seed, n_seeds, n_updates)` and `train_rates(seed, rates, n_updates)` train with several
  seeds or learning rates, in the library's fastest way.
- `curve(seed, n_updates, n_points, n_episodes)` returns mean returns of greedy episodes after every
  `n_updates` updates.
- `update()`, only of JAX libraries, returns one update as a function, and the shapes of its argument.
"""

import argparse
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import worker
from tasks import TASKS, Task

N_PROBE_STEPS = 20_000
N_PROBES = 2
VERSIONS = "gymnax", "gymnasium", "torch"
MAX_STEPS_OF_A_MEMBER = 500_000
RATES_AROUND = 10.0  # the sweep covers learning rates from 1/10 to 10 times the task's own


def main(library: str, make_trainer: Callable[[Task, int], Any]) -> None:
    """Measures a library, given the name of its package, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--environment", choices=TASKS, required=True)
    add("--envs", type=int, required=True, help="number of environments")
    add("--seed", type=int, default=0, help="first seed")
    add("--seeds", type=int, default=1, help="number of seeds")
    add("--rates", type=int, default=1, help="number of learning rates")
    add("--seconds", type=float, default=3.0, help="approximate length of a timed call")
    add("--updates", type=int, help="updates per timed call, instead of --seconds")
    add("--learn", action="store_true", help="measure returns instead of speed")
    add("--steps", type=int, default=500_000, help="environment steps with --learn")
    add("--points", type=int, default=10, help="evaluations with --learn")
    add("--episodes", type=int, default=128, help="episodes per evaluation")
    args = parser.parse_args()
    task = TASKS[args.environment]
    trainer = make_trainer(task, args.envs)
    if args.learn:
        worker.report(library, learning(trainer, task, args), *VERSIONS)
    else:
        train, measured = compiled(trainer, task, args)
        worker.report(library, measured, *VERSIONS)
        worker.take_turns(train)


def compiled(
    trainer: Any, task: Task, args: argparse.Namespace
) -> tuple[Callable[[], Any], dict[str, float]]:
    """A compiled training function of about the requested duration, and the cost of compiling it.

    The compilation time is the duration of the first short run minus that of later runs of the same
    length.
    """
    if args.seeds > 1:
        train = functools.partial(trainer.train_seeds, args.seed, args.seeds)
    elif args.rates > 1:
        train = functools.partial(trainer.train_rates, args.seed, learning_rates(task, args.rates))
    else:
        train = functools.partial(trainer.train, args.seed)
    at_once = args.seeds * args.rates
    steps_per_update = args.envs * task.rollout_length * at_once
    n_probe = math.ceil(N_PROBE_STEPS / steps_per_update)
    first = worker.seconds(train, n_probe)
    steady = min(worker.seconds(train, n_probe) for _ in range(N_PROBES))
    memory = worker.peak_memory_mib()  # before anything that only the benchmark needs is compiled
    n_updates = max(1, round(n_probe * args.seconds / steady))
    if args.updates is not None:
        n_updates = args.updates
    elif at_once > 1:
        longest = MAX_STEPS_OF_A_MEMBER // (args.envs * task.rollout_length)
        n_updates = min(n_updates, max(1, longest))
    train(n_updates)  # compiles again where the number of updates is compiled in
    return functools.partial(train, n_updates), {
        "compile_seconds": first - steady,
        "memory_mib": memory,
        "steps_of_a_turn": n_updates * steps_per_update,
    }


def learning_rates(task: Task, n_rates: int) -> list[float]:
    """Learning rates around the task's own, in geometric steps."""
    exponents = (2.0 * i / (n_rates - 1) - 1.0 for i in range(n_rates))
    return [task.learning_rate * RATES_AROUND**exponent for exponent in exponents]


def learning(trainer: Any, task: Task, args: argparse.Namespace) -> dict[str, Any]:
    """Trains the seeds one after the other, and returns their learning curves."""
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
