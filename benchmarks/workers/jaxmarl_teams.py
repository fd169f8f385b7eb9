"""Measures a recurrent JaxMARL baseline from a checkout of its repository.

The baselines are not in a package. A fake `wandb` collects the metrics that they log.
"""

import runpy
import sys
import time
import types
from typing import Any

import jax
import numpy as np
import teams
import worker
from omegaconf import OmegaConf

SHARE_OF_A_POINT = 50
"""Each point averages over the number of updates divided by this."""


def main() -> None:
    """Trains once, and prints one line of JSON."""
    args = teams.parser().parse_args()
    task = teams.TASKS[args.task]
    settings = task.settings[args.algorithm]
    logged: list[dict[str, Any]] = []
    sys.modules["wandb"] = types.ModuleType("wandb")
    sys.modules["wandb"].log = logged.append  # pyright: ignore[reportAttributeAccessIssue]
    script = args.checkout / "baselines" / f"{settings.baseline}.py"
    config = OmegaConf.load(script.parent / "config" / f"{settings.config}.yaml")
    config = OmegaConf.to_container(config) | task.overrides
    config["TOTAL_TIMESTEPS"] = args.updates * settings.steps_per_update
    make_train = runpy.run_path(str(script))["make_train"]
    key = jax.random.PRNGKey(args.seed)
    began = time.perf_counter()
    train = jax.jit(make_train(config)).lower(key).compile()
    seconds_to_compile = time.perf_counter() - began
    seconds = worker.seconds(lambda: jax.block_until_ready(train(key)))
    jax.effects_barrier()
    found = {
        "steps_per_second": config["TOTAL_TIMESTEPS"] / seconds,
        "compile_seconds": seconds_to_compile,
        "seconds": seconds,
        "returns": curve(logged, "returns"),
    }
    if task.shows_wins:
        found["wins"] = curve(logged, "win_rate")
    worker.report("jaxmarl", found, "distrax")


def curve(logged: list[dict[str, Any]], name: str) -> list[float]:
    """Means at evenly spaced points, each over the last updates before it."""
    logged = sorted(logged, key=lambda entry: int(entry["env_step"]))
    values = np.array([float(entry[name]) for entry in logged])
    n_updates = max(1, len(values) // SHARE_OF_A_POINT)
    ends = np.linspace(0, len(values), teams.N_POINTS + 1).round().astype(int)[1:]
    return [float(np.nanmean(values[max(0, end - n_updates) : end])) for end in ends if end]


if __name__ == "__main__":
    main()
