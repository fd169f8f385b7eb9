"""The settings of the SAC benchmarks, and how one process measures one library.

Every worker calls `main` in its library's virtual environment, with this folder on its path. It passes
an object with the library's `name` and these methods:

- `updates(seed)` returns a function that makes `n` updates in one call. Each update draws its own batch
from a buffer of `N_RANDOM_STEPS` random steps. - `train(env, n_steps, seed)` trains without evaluation,
with one update per step after `START_STEPS` random steps. - `curve(env, eval_env, args)` trains with
evaluations, and returns the numbers of steps and the returns of episodes with deterministic actions,
shaped (points, episodes).
"""

import argparse
import statistics
import time
from typing import Any

import gymnasium
import jax
import numpy as np
import worker

BATCH_SIZE = 256
HIDDEN_LAYERS = (256, 256)  # with ReLU, for the actor and for each of two critics
LEARNING_RATE = 3e-4
GAMMA = 0.99
TAU = 0.005
BUFFER_SIZE = 100_000

UPDATES_ENVIRONMENT = "HalfCheetah-v5"  # 17 observations, 6 actions
N_RANDOM_STEPS = 10_000  # in the replay buffer of the timed updates
UPDATES_IN_A_CALL = (1, 64)
N_LOOPS = 3
START_STEPS = 1_000
WARM_UP_STEPS = 100  # after the random ones; they compile everything


def main(library: Any) -> None:
    """Measures one library, and prints one line of JSON."""
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
    worker.report(library.name, args.task(library, args), "gymnasium", "mujoco")


def _updates(library: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Updates per second for each number of updates per call."""
    update = library.updates(args.seed)

    def updates(n: int, n_calls: int = 1) -> None:
        for _ in range(n_calls):
            learned = update(n)
        jax.block_until_ready(learned)

    result = {}
    for n in UPDATES_IN_A_CALL:
        first = worker.seconds(updates, n)
        steady = statistics.median(worker.seconds(updates, n) for _ in range(3))
        n_calls = max(1, round(args.seconds / steady))
        elapsed = statistics.median(worker.seconds(updates, n, n_calls) for _ in range(N_LOOPS))
        speed = n * n_calls / elapsed
        result[str(n)] = {"updates_per_second": speed, "first_call_seconds": first}
    return {**result, "memory_mib": worker.peak_memory_mib()}


def _steps(library: Any, args: argparse.Namespace) -> dict[str, float]:
    """Environment steps per second of a run, after the updates have started."""
    first = START_STEPS + WARM_UP_STEPS
    env = _Clock(gymnasium.make(args.env), (first, first + args.steps))
    library.train(env, first + args.steps, args.seed)
    began, ended = env.times
    return {
        "steps_per_second": args.steps / (ended - began),
        "memory_mib": worker.peak_memory_mib(),
    }


class _Clock(gymnasium.Wrapper):
    """Records the time at the end of certain steps."""

    def __init__(self, env: gymnasium.Env, at_steps: tuple[int, ...]) -> None:
        super().__init__(env)
        self.times: list[float] = []
        self._at_steps = at_steps
        self._n_steps = 0

    def step(self, action: Any) -> Any:
        outcome = super().step(action)
        self._n_steps += 1
        if self._n_steps in self._at_steps:
            self.times.append(time.perf_counter())
        return outcome


def _curve(library: Any, args: argparse.Namespace) -> dict[str, Any]:
    """A learning curve."""
    steps, returns = library.curve(gymnasium.make(args.env), gymnasium.make(args.env), args)
    return {"steps": np.asarray(steps).tolist(), "returns": np.asarray(returns).tolist()}
