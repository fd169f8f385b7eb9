"""Trains PPO in robots of brax, beside the PPO of brax itself, and shows what both learn and how fast.

Both have the hyperparameters and the networks that brax publishes for its own, scaled down to a short
training on a CPU: `workers/locomotion.py` says how. Every training is a fresh process. What was
measured is kept in a file of results, so that parts can be measured on different days; the page is made
of all that is there. Both run in this environment, which needs brax.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import peers
import reports

WORKERS = {peers.OURS: "jaxagents_locomotion.py", "brax": "brax_locomotion.py"}
TRAININGS = {  # updates of each part, and parts
    "halfcheetah": (20, 5),
    "ant": (10, 5),
}
SPEED, LEARNING = "speed", "learning"
N_PARTS_OF_SPEED = 4


def main() -> None:
    """Runs what was asked for, and writes the page and its pictures."""
    args = parse_args()
    file = args.output / "brax_ppo.json"
    for env in args.envs:
        for part in args.only:
            for seed in args.seeds if part == LEARNING else args.seeds[:1]:
                for library in args.libraries:
                    found = run(part, env, library, seed, args)
                    print(f"{part}, {env}, {library}, seed {seed}: {found}", file=sys.stderr)
                    reports.keep(file, f"{part}-{env}", f"{library} {seed}", result=found)
    kept = reports.kept(file)
    reports.write(report(kept, args.output), args.output / "brax_ppo.md")
    peers.exit_if_any_failed(result for found in kept.values() for result in found.values())


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=1200.0)
    add = parser.add_argument
    add("--envs", nargs="+", choices=TRAININGS, default=list(TRAININGS), help="trained in")
    add("--only", nargs="+", choices=(SPEED, LEARNING), default=[SPEED, LEARNING], help="parts")
    add("--libraries", nargs="+", choices=WORKERS, default=list(WORKERS), help="who")
    add("--seeds", nargs="+", type=int, default=[0, 1], help="of trainings that learn")
    add("--episodes", type=peers.positive, default=16, help="of an evaluation")
    add("--updates", type=peers.positive, help="of a part of a training")
    add("--output", type=Path, default=Path("runs/brax-ppo"), help="folder of the results")
    return parser.parse_args()


def run(part: str, env: str, library: str, seed: int, args: argparse.Namespace) -> peers.Result:
    """Measures a library in a fresh process."""
    n_updates, n_parts = TRAININGS[env]
    if part == SPEED:
        n_updates, n_parts = 2, N_PARTS_OF_SPEED
    work = [f"--env={env}", f"--seed={seed}", f"--parts={n_parts}"]
    work += [f"--updates={args.updates or n_updates}", f"--episodes={args.episodes}"]
    command = [sys.executable, peers.WORKERS / WORKERS[library], *work]
    return peers.run_worker(command, args.timeout)


def report(kept: dict[str, Any], folder: Path) -> str:
    """The page, whose pictures are drawn beside it."""
    speed_rows, sections, numbers, pictures = [], [], [], []
    for env in TRAININGS:
        speeds = _by_library(kept.get(f"{SPEED}-{env}", {}))
        pair = [results[0] for results in speeds.values()]
        for library, results in speeds.items():
            quantities = ("steps_per_second", ",.0f"), ("first_seconds", ".0f")
            medians = (reports.median(results, *quantity) for quantity in quantities)
            speed_rows.append([env, reports.label(results, library), *medians])
        if len(pair) == 2:
            ratios = [
                reports.ratio([tuple(pair)], "steps_per_second"),
                reports.ratio([tuple(pair)], "first_seconds"),
            ]
            speed_rows.append([env, "ratio", *ratios])
        learned = _by_library(kept.get(f"{LEARNING}-{env}", {}))
        if learned:
            section = learning(env, learned, folder)
            sections += section
            pictures += [f"![Learning curves in {env}](brax_{env}.png)"] if section else []
            numbers += [
                (
                    f"{np.mean([found['returns'][-1] for found in measured]):,.0f}",
                    f"{library}, {env}",
                )
                for library, results in learned.items()
                if (measured := [found for found in results if "returns" in found])
            ]
    columns = _by_library(
        {f"{name} {i}": run for i, runs in enumerate(kept.values()) for name, run in runs.items()}
    )
    head = ["Environment", "Library", "Steps a second", "First updates (s)"]
    parts = [
        "# PPO in brax",
        *([reports.in_large(numbers), *pictures] if numbers else []),
        f"By `python benchmarks/brax_ppo.py --output docs/benchmarks`, {reports.machine()}.",
        INTRODUCTION,
        *(["## Speed", reports.table(head, speed_rows), ABOUT_SPEED] if speed_rows else []),
        *sections,
        "## Versions",
        reports.version_table(columns),
        *reports.failures(columns),
    ]
    return "\n\n".join(parts)


def learning(env: str, learned: dict[str, list[peers.Result]], folder: Path) -> list[str]:
    """The part of the page about an environment, whose picture is drawn."""
    curves, rows = {}, []
    for library, results in learned.items():
        returns = np.array(list(reports.measured(results, "returns")))
        if not len(returns):
            continue
        steps = next(reports.measured(results, "steps"))
        curves[library] = (steps, returns)
        middle = len(steps) // 2 - 1
        rows.append(
            [
                reports.label(results, library),
                f"{round(returns[:, middle].mean()):,}",
                f"{round(returns[:, -1].mean()):,}",
                ", ".join(f"{round(x):,}" for x in returns[:, -1]),
            ]
        )
        half, whole = f"After {steps[middle]:,} steps", f"After {steps[-1]:,}"
    if not rows:
        return []
    reports.draw(folder / f"brax_{env}.png", f"{env}, {BACKEND}", curves)
    head = ["Library", half, whole, "Of each seed"]
    return [f"## {env}", reports.table(head, rows)]


def _by_library(found: dict[str, peers.Result]) -> dict[str, list[peers.Result]]:
    """Results, whose names begin with a library."""
    return {
        library: results
        for library in WORKERS
        if (results := [x for name, x in found.items() if name.split()[0] == library])
    }


BACKEND = "spring"

INTRODUCTION = """\
Environments of brax with its `spring` backend and episodes of 1,000 steps, for this library and for the
PPO of `brax.training`. Both have what brax publishes for its own (`notebooks/training.ipynb`): networks
of four layers of 32 units and five of 256, with swish; a Gaussian squashed by tanh, with mean and width
that depend on the observation; normalised observations; Adam with a step size of 0.0003; 32
minibatches; 8 epochs in halfcheetah and 4 in ant; clipping at 0.3; rewards times 10 in ant.
Environments and samples of a minibatch are a thirty-second of the published ones, so that so short a
training has enough updates: of 10,240 steps each, in 64 environments in halfcheetah and 128 in ant. A
return is the mean of greedy episodes.

What remains different: brax estimates advantages over pieces of a rollout, of 20 steps in halfcheetah
and 5 in ant, and leaves out the steps that a limit cuts; here they go over the whole rollout, and the
value after a limit counts. brax normalises a rollout by statistics that already hold it, draws its
estimate of the entropy, and has one Adam for both networks.

**Not shown**: the published budget, which is 50 million steps on an accelerator, and accelerators at
all."""

ABOUT_SPEED = """\
Environment steps a second of updates after the first ones, without evaluation, each library alone on the
machine. The first updates have the compilation in them, but not that of the evaluation. brax 0.14 calls
a function that JAX 0.10 no longer has; it is given one that does the same."""


if __name__ == "__main__":
    main()
