"""The settings of the Atari benchmark, and how one process measures one library.

Every worker calls `main` in its library's virtual environment, with this folder on its path. It passes a
function of the command-line options that trains, and returns the seconds and the mean return of each
part.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import NamedTuple

import worker

N_ENVS = 8
ROLLOUT_LENGTH = 128
STEPS_OF_AN_UPDATE = N_ENVS * ROLLOUT_LENGTH
N_EPOCHS = 4
N_MINIBATCHES = 4
LEARNING_RATE = 2.5e-4
ADAM_EPS = 1e-5
GAMMA = 0.99
GAE_LAMBDA = 0.95
CLIP = 0.1
ENTROPY = 0.01
VALUE_COEFFICIENT = 0.5
MAX_GRADIENT_NORM = 0.5
N_FRAMES = 4
STICKINESS = 0.25


class Part(NamedTuple):
    """A part of a run.

    Attributes:
        seconds: Its duration, without evaluation.
        mean_return: Mean unclipped return of the games after it; `None` without games.
    """

    seconds: float
    mean_return: float | None


def main(library: str, train: Callable[[argparse.Namespace], list[Part]]) -> None:
    """Trains with one library, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--game", required=True)
    add("--updates", type=int, required=True, help="updates per part")
    add("--parts", type=int, required=True, help="parts of the run; the first one compiles")
    add("--episodes", type=int, required=True, help="episodes per evaluation; 0 for none")
    add("--seed", type=int, default=0)
    add("--device", default="cpu", help="device of PyTorch")
    args = parser.parse_args()
    parts = train(args)
    n_steps = args.updates * STEPS_OF_AN_UPDATE
    measured = {
        "steps": [n_steps * (i + 1) for i in range(len(parts))],
        "returns": [part.mean_return for part in parts],
        "first_seconds": parts[0].seconds,
        "steps_per_second": statistics.median(n_steps / part.seconds for part in parts[1:]),
    }
    worker.report(library, measured, "ale-py", "envpool", "gymnasium", "torch")
