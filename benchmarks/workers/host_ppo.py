"""The settings of the benchmark of PPO on the host, and how one process measures one library.

Every worker calls `main` in its library's virtual environment, with this folder on its path. It passes
an object with the library's `name` and these methods:

- `begin(env, seed)` creates a run in the environment of this name.
- `train(training, n_updates)` makes updates without evaluation, and returns when they are done.
- `returns(training, n_episodes)` returns the unnormalised returns of greedy episodes.
"""

import argparse
import time
from typing import Any

import numpy as np
import worker

N_ENVS = 8
ROLLOUT_LENGTH = 256
STEPS_OF_AN_UPDATE = N_ENVS * ROLLOUT_LENGTH
N_EPOCHS = 10
N_MINIBATCHES = 32  # of 64 samples each
HIDDEN_LAYERS = (64, 64)  # with tanh, for the actor and for the critic
LEARNING_RATE = 3e-4
ADAM_EPS = 1e-5  # the default of Stable-Baselines3 and sbx
GAMMA = 0.99
GAE_LAMBDA = 0.95
CLIP = 0.2
MAX_GRADIENT_NORM = 0.5
N_FIRST = 2
"""Number of first updates, which compile everything and are not timed."""


def main(library: Any) -> None:
    """Measures one library, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--env", required=True)
    add("--steps", type=int, required=True)
    add("--episodes", type=int, required=True)
    add("--seed", type=int, required=True)
    args = parser.parse_args()
    n_updates = max(1, round(args.steps / STEPS_OF_AN_UPDATE) - N_FIRST)
    training = library.begin(args.env, args.seed)
    first = worker.seconds(library.train, training, N_FIRST)
    began = time.perf_counter()
    library.train(training, n_updates)
    seconds = time.perf_counter() - began
    measured = {
        "steps_per_second": n_updates * STEPS_OF_AN_UPDATE / seconds,
        "first_seconds": first,
        "mean_return": float(np.mean(library.returns(training, args.episodes))),
    }
    worker.report(library.name, measured, "gymnasium", "mujoco", "torch")
