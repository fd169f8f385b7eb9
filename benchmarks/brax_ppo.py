"""Compares the speed and returns of PPO on brax robots with brax's own PPO.

Both use the hyperparameters and networks that brax publishes for its PPO, scaled down to a short run on
a CPU (see `workers/locomotion.py`). Every run is a fresh process of this Python, which needs brax.
Results are saved in a file, so that parts can be measured on different days; the page shows all of them.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import peers
import reports

WORKERS = {peers.OURS: "jaxagents_locomotion.py", "brax": "brax_locomotion.py"}
TRAININGS = {  # updates per part, and parts
    "halfcheetah": (20, 5),
    "ant": (10, 5),
}
SPEED, LEARNING = "speed", "learning"
N_PARTS_OF_SPEED = 4


def main() -> None:
    """Runs the benchmark, and writes the page and its plots."""
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
    reports.write(report(kept, args.output), args.output / "brax_ppo.md", opening)
    peers.exit_if_any_failed(result for found in kept.values() for result in found.values())


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=1200.0)
    add = parser.add_argument
    add("--envs", nargs="+", choices=TRAININGS, default=list(TRAININGS), help="robots")
    add(
        "--only",
        nargs="+",
        choices=(SPEED, LEARNING),
        default=[SPEED, LEARNING],
        help="what to measure",
    )
    add("--libraries", nargs="+", choices=WORKERS, default=list(WORKERS), help="libraries to run")
    add("--seeds", nargs="+", type=int, default=[0, 1], help="seeds of the learning curves")
    add("--episodes", type=peers.positive, default=16, help="episodes per evaluation")
    add("--updates", type=peers.positive, help="updates per part of a run")
    add("--output", type=Path, default=Path("runs/brax-ppo"), help="folder for the results")
    return parser.parse_args()


def run(part: str, env: str, library: str, seed: int, args: argparse.Namespace) -> peers.Result:
    """Runs a library in a fresh process."""
    n_updates, n_parts = TRAININGS[env]
    if part == SPEED:
        n_updates, n_parts = 2, N_PARTS_OF_SPEED
    work = [f"--env={env}", f"--seed={seed}", f"--parts={n_parts}"]
    work += [f"--updates={args.updates or n_updates}", f"--episodes={args.episodes}"]
    command = [sys.executable, peers.WORKERS / WORKERS[library], *work]
    return peers.run_worker(command, args.timeout)


def report(kept: dict[str, Any], folder: Path) -> str:
    """The page; draws its plots next to it."""
    speed_rows, sections = [], []
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
            sections += learning(env, learned, folder)
    columns = _by_library(
        {f"{name} {i}": run for i, runs in enumerate(kept.values()) for name, run in runs.items()}
    )
    head = ["Environment", "Library", "Steps per second", "First updates (s)"]
    parts = [
        "# PPO in brax",
        INTRODUCTION,
        *(["## Speed", reports.table(head, speed_rows), ABOUT_SPEED] if speed_rows else []),
        *sections,
        "## Versions",
        reports.measured_by("python benchmarks/brax_ppo.py --output docs/benchmarks"),
        reports.version_table(columns),
        *reports.failures(columns),
    ]
    return "\n\n".join(parts)


def opening(page: str, chart: Path) -> str:
    """The mean returns after training, and the learning curves."""
    learned = [table for table in reports.tables(page) if table.heading in TRAININGS]
    numbers = [
        (last, f"return of {library.partition(' ')[0]} in {table.heading}")
        for table in learned
        for library, _, last, _ in table.rows
    ]
    curves = {f"Learning curves in {x.heading}": f"brax_{x.heading}.png" for x in learned}
    return reports.in_large(numbers, curves)


def learning(env: str, learned: dict[str, list[peers.Result]], folder: Path) -> list[str]:
    """The section about an environment; draws its plot."""
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
    head = ["Library", half, whole, "By seed"]
    return [f"## {env}", reports.table(head, rows)]


def _by_library(found: dict[str, peers.Result]) -> dict[str, list[peers.Result]]:
    """Groups results by the library at the start of their names."""
    return {
        library: results
        for library in WORKERS
        if (results := [x for name, x in found.items() if name.split()[0] == library])
    }


BACKEND = "spring"

INTRODUCTION = """\
How does PPO in jaxagents compare with brax's PPO (`brax.training`) on brax robots? Both use the
hyperparameters that brax publishes (`notebooks/training.ipynb`), but 1/32 of the environments and of the
minibatch size, so that a short run has enough updates. Each update collects 10,240 steps from 64
environments in halfcheetah, or from 128 in ant. The environments use the `spring` backend and episodes
of 1,000 steps. Returns are means over greedy episodes.

The actor has four layers of 32 units, the critic five of 256, both with swish. The policy is a Gaussian
squashed by tanh, whose mean and standard deviation depend on the observation. Observations are
normalised, rewards are multiplied by 10 in ant, and Adam has a learning rate of 0.0003. An update uses
32 minibatches, a clip range of 0.3, and 8 epochs in halfcheetah or 4 in ant.

Remaining differences: brax estimates advantages over segments of a rollout (20 steps in halfcheetah, 5
in ant) and ignores steps truncated by a time limit; jaxagents uses the whole rollout and bootstraps at
time limits. brax normalises a rollout with statistics that already include it, estimates the entropy
from samples, and has one Adam optimizer for both networks.

Neither library ran for brax's published budget of 50 million steps, or on an accelerator."""

ABOUT_SPEED = """\
Steps per second are environment steps of all updates but the first ones, without evaluation. The first
updates include their compilation, but not the evaluation's. brax 0.14 calls a function that JAX 0.10 no
longer has; the benchmark supplies an equivalent."""


if __name__ == "__main__":
    main()
