"""The work of the benchmark of PPO on the host, and how one library is measured at it in one process.

Every worker calls `main` from its library's own virtual environment, with this folder on its path, with
an object that has these methods besides the library's `name`:

- `begin(env, seed)` makes a training of an environment by its name.
- `train(training, n_updates)` makes updates, without evaluation, and returns when they are done.
- `returns(training, n_episodes)` gives the true returns of greedy episodes.
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
ADAM_EPS = 1e-5  # as Stable-Baselines3 and sbx have it, unless told otherwise
GAMMA = 0.99
GAE_LAMBDA = 0.95
CLIP = 0.2
MAX_GRADIENT_NORM = 0.5
N_FIRST = 2
"""Updates in which everything is compiled, which are not timed but learned from."""


def main(library: Any) -> None:
    """Measures a library and prints one line of JSON."""
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
