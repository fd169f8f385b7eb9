"""Shows what SAC learns in Gymnasium environments, in jaxagents and in sbx, each with several seeds.

Every run is a fresh process, and the runs of the two libraries alternate. sbx lives in a virtual
environment of its own, which this script makes from PyPI with the same versions of JAX. The report and
a picture are written after each environment.
"""

import argparse
import datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import peers
import reports
from peers import Round
from sac_speed import LIBRARIES


class Part(NamedTuple):
    """Trainings in an environment, and episodes in each of their evaluations."""

    env: str
    n_steps: int
    start_steps: int
    n_seeds: int
    episodes: int
    evaluations: int = 10


PARTS = {
    "pendulum": Part("Pendulum-v1", 20_000, 1_000, n_seeds=5, episodes=20),
    "halfcheetah": Part("HalfCheetah-v5", 50_000, 5_000, n_seeds=2, episodes=5),
}
QUICK = {"n_steps": 300, "start_steps": 200, "n_seeds": 1, "episodes": 2, "evaluations": 3}


def main() -> None:
    """Trains, and writes pictures and the report."""
    args = parse_args()
    args.output.mkdir(parents=True)
    found: list[Round] = []
    sections = ["# What SAC learns", f"Made by `benchmarks/learners.py` {reports.machine()}."]
    for name in args.only:
        part = PARTS[name]._replace(**QUICK if args.quick else {})
        if args.steps and name == "halfcheetah":
            part = part._replace(n_steps=args.steps)
        options = ["curve", f"--env={part.env}", f"--steps={part.n_steps}"]
        options += [f"--start-steps={part.start_steps}", f"--episodes={part.episodes}"]
        options += [f"--eval-frequency={part.n_steps // part.evaluations}"]
        rounds = peers.in_turns(LIBRARIES, {name: options}, args.seeds or part.n_seeds, args)[name]
        found += rounds
        sections += section(part, rounds, args.output / f"{name}.png")
        columns = reports.columns(found)
        ending = [reports.version_table(columns), *reports.failures(columns)]
        (args.output / "report.md").write_text("\n\n".join([*sections, *ending]) + "\n")
    reports.write("\n\n".join([*sections, *ending]), args.markdown)
    peers.exit_if_any_failed(chain(*(results.values() for results in found)))


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    new = Path(f"runs/learners-{datetime.datetime.now():%Y%m%d-%H%M%S}")
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=1800.0)
    add = parser.add_argument
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    add("--quick", action="store_true", help="only try whether everything runs")
    add("--seeds", type=peers.positive, help="seeds of each part, if other than its own number")
    add("--steps", type=int, help="environment steps on HalfCheetah-v5")
    add("--output", type=Path, default=new, help="new folder")
    args = parser.parse_args()
    if args.output.exists():
        parser.error(f"{args.output} exists already: choose another --output.")
    return args


def section(part: Part, rounds: list[Round], picture: Path) -> list[str]:
    """The paragraphs about an environment, and its picture."""
    rows, curves = [], {}
    for name, results in reports.columns(rounds).items():
        steps = next(reports.measured(results, "steps"), None)
        if steps is None:
            continue
        returns = np.array(list(reports.measured(results, "returns")))  # seeds, points, episodes
        finals = returns[:, -1].mean(axis=1)
        numbers = (f"{f(finals):,.1f}" for f in (np.mean, np.min, np.max))
        rows.append([name, *numbers, len(finals), returns[:, -1].size])
        curves[f"{name} ({len(finals)} seeds)"] = (steps, returns.mean(axis=-1))
    reports.draw(picture, f"SAC on {part.env}", curves)
    head = ["", "Mean return", "Lowest seed", "Highest seed", "Seeds", "Episodes"]
    return [
        f"## SAC on {part.env}",
        f"{part.n_steps:,} steps, the first {part.start_steps:,} of them at random, with one update a "
        f"step; {part.episodes} episodes of the policy's mode in each evaluation.",
        reports.table(head, rows),
        f"![Learning curves]({picture.name})",
    ]


if __name__ == "__main__":
    main()
