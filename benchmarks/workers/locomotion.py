"""The settings of the brax benchmark, and how one process measures one library.

The hyperparameters are those that brax publishes for its PPO (`notebooks/training.ipynb`), with a
thirty-second of the environments and of the minibatch size, so that a run of a thirty-second of the
steps makes as many updates.

Every worker calls `main` with a function of an environment's name, its task and the command-line options
that trains, and returns the seconds and the mean return of each part.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import NamedTuple

import jax
import worker
from flax import linen as nn

BACKEND = "spring"
EPISODE_LENGTH = 1000
N_MINIBATCHES = 32
LEARNING_RATE = 3e-4
GAE_LAMBDA = 0.95
CLIP = 0.3
VALUE_COEFFICIENT = 0.5
ACTOR_LAYERS = (32,) * 4
CRITIC_LAYERS = (256,) * 5
ACTIVATION = nn.swish
KERNEL_INIT = jax.nn.initializers.lecun_uniform()
MIN_STD = 0.001


class Task(NamedTuple):
    """The settings of an environment.

    Attributes:
        n_envs: Number of environments.
        rollout_length: Rollout length.
        unroll_length: Steps over which brax estimates advantages; jaxagents uses the whole rollout.
        n_epochs: Epochs per update.
        gamma: Discount factor.
        entropy: Entropy coefficient.
        reward_scale: Factor for rewards.
    """

    n_envs: int
    rollout_length: int
    unroll_length: int
    n_epochs: int
    gamma: float
    entropy: float
    reward_scale: float

    @property
    def steps_of_an_update(self) -> int:
        """Environment steps per update."""
        return self.n_envs * self.rollout_length


TASKS = {
    "ant": Task(128, 80, 5, 4, 0.97, 1e-2, 10.0),
    "halfcheetah": Task(64, 160, 20, 8, 0.95, 1e-3, 1.0),
}


class Part(NamedTuple):
    """A part of a run.

    Attributes:
        seconds: Its duration, without evaluation.
        mean_return: Mean return of greedy episodes after it.
    """

    seconds: float
    mean_return: float


def main(library: str, train: Callable[[str, Task, argparse.Namespace], list[Part]]) -> None:
    """Trains with one library, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--env", choices=TASKS, required=True)
    add("--updates", type=int, required=True, help="updates per part")
    add("--parts", type=int, required=True, help="parts of the run; the first one compiles")
    add("--episodes", type=int, required=True, help="episodes per evaluation")
    add("--seed", type=int, required=True)
    args = parser.parse_args()
    task = TASKS[args.env]
    parts = train(args.env, task, args)
    n_steps = args.updates * task.steps_of_an_update
    measured = {
        "steps": [n_steps * (i + 1) for i in range(len(parts))],
        "returns": [round(part.mean_return, 1) for part in parts],
        "first_seconds": parts[0].seconds,
        "steps_per_second": statistics.median(n_steps / part.seconds for part in parts[1:]),
    }
    worker.report(library, measured, "brax")
