"""The work of the benchmarks of SAC, and how one library is measured at it in one process.

Every worker calls `main` from its library's own virtual environment, with this folder on its path.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Protocol

import gymnasium
import jax
import process

BATCH_SIZE = 256
HIDDEN_LAYERS = (256, 256)  # with ReLU, for the actor and for each of two critics
LEARNING_RATE = 3e-4
GAMMA = 0.99
TAU = 0.005
BUFFER_SIZE = 100_000

UPDATES_ENVIRONMENT = "HalfCheetah-v5"  # 17 observations, 6 actions
N_RANDOM_STEPS = 10_000  # in the replay buffer from which updates are timed
UPDATES_IN_A_CALL = (1, 64)
N_LOOPS = 3
START_STEPS = 1_000
WARM_UP_STEPS = 500  # that follow, in which everything is compiled


class Library(Protocol):
    """SAC of one library."""

    name: str

    def updates(self, seed: int) -> Callable[[int], Any]:
        """A function that makes so many updates in one call, and returns what was learned.

        Each update is from a batch of its own, drawn from a buffer of `N_RANDOM_STEPS` random steps.
        """
        ...

    def train(self, env: gymnasium.Env, n_steps: int, seed: int) -> None:
        """Trains without evaluation, one update a step, after `START_STEPS` random steps."""
        ...

    def curve(
        self, env: gymnasium.Env, eval_env: gymnasium.Env, args: argparse.Namespace
    ) -> tuple[Any, Any]:
        """Trains with evaluations.

        Returns:
            Numbers of steps, and returns of episodes of the policy's mode, shaped (points, episodes).
        """
        ...


def main(library: Library) -> None:
    """Measures a library and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    tasks = parser.add_subparsers(required=True)
    for name, task in (("updates", _updates), ("steps", _steps), ("curve", _curve)):
        add = tasks.add_parser(name).add_argument
        tasks.choices[name].set_defaults(task=task)
        add("--seed", type=int, required=True)
        if task is _updates:
            add("--seconds", type=float, required=True)
        else:
            add("--env", required=True)
            add("--steps", type=int, required=True)
        if task is _curve:
            add("--start-steps", type=int, required=True)
            add("--eval-frequency", type=int, required=True)
            add("--episodes", type=int, required=True)
    args = parser.parse_args()
    result = {
        "library": library.name,
        "versions": process.versions(library.name, "gymnasium", "mujoco"),
        **args.task(library, args),
    }
    print(json.dumps(result))


def _updates(library: Library, args: argparse.Namespace) -> dict[str, Any]:
    """Updates a second, by the number of them in a call."""
    update = library.updates(args.seed)
    compilations = process.Compilations()
    result = {}
    for n in UPDATES_IN_A_CALL:
        first = _seconds(update, n)
        n_compilations = compilations.take()
        steady = statistics.median(_seconds(update, n) for _ in range(3))
        n_calls = max(1, round(args.seconds / steady))
        elapsed = statistics.median(_seconds(update, n, n_calls) for _ in range(N_LOOPS))
        result[str(n)] = {
            "updates_per_second": n * n_calls / elapsed,
            "first_call_seconds": first,
            "compilations": n_compilations,
            "later_compilations": compilations.take(),
        }
    return {**result, "memory_mib": process.peak_memory_mib()}


def _seconds(update: Callable[[int], Any], n: int, n_calls: int = 1) -> float:
    began = time.perf_counter()
    learned = None
    for _ in range(n_calls):
        learned = update(n)
    jax.block_until_ready(learned)
    return time.perf_counter() - began


def _steps(library: Library, args: argparse.Namespace) -> dict[str, float]:
    """Environment steps a second of a training, once updates are being made."""
    first = START_STEPS + WARM_UP_STEPS
    compilations = process.Compilations()
    env = _Clock(gymnasium.make(args.env), (first, first + args.steps), compilations.take)
    library.train(env, first + args.steps, args.seed)
    began, ended = env.times
    return {
        "steps_per_second": args.steps / (ended - began),
        "later_compilations": env.taken[1],
        "memory_mib": process.peak_memory_mib(),
    }


class _Clock(gymnasium.Wrapper):
    """Notes the time, and takes a count, as certain steps end."""

    def __init__(
        self, env: gymnasium.Env, at_steps: tuple[int, ...], take: Callable[[], int]
    ) -> None:
        super().__init__(env)
        self.times: list[float] = []
        self.taken: list[int] = []
        self._at_steps = at_steps
        self._take = take
        self._n_steps = 0

    def step(self, action: Any) -> Any:
        outcome = super().step(action)
        self._n_steps += 1
        if self._n_steps in self._at_steps:
            self.times.append(time.perf_counter())
            self.taken.append(self._take())
        return outcome


def _curve(library: Library, args: argparse.Namespace) -> dict[str, Any]:
    """A learning curve."""
    began = time.perf_counter()
    steps, returns = library.curve(gymnasium.make(args.env), gymnasium.make(args.env), args)
    return {
        "series": f"{library.name} {version(library.name)}",
        "seed": args.seed,
        "steps": [int(step) for step in steps],
        "returns": [[float(x) for x in point] for point in returns],
        "seconds": time.perf_counter() - began,
    }
