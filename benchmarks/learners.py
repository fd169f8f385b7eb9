"""Compares the returns of SAC in jaxagents and in sbx in Gymnasium environments, over several seeds.

Every run is a fresh process, and the runs of the two libraries alternate. sbx is installed from PyPI in
its own virtual environment, with the same version of JAX. The report and a plot are written after each
environment.
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
    """The runs in one environment, and the number of episodes per evaluation."""

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
ABOUT = (
    "Does SAC learn as well in jaxagents as in [sbx](https://github.com/araffin/sbx)? Both libraries "
    "use the same settings. The tables show the returns at the end of training."
)
QUICK = {"n_steps": 300, "start_steps": 200, "n_seeds": 1, "episodes": 2, "evaluations": 3}


def main() -> None:
    """Trains, and writes the report and its plots."""
    args = parse_args()
    args.output.mkdir(parents=True)
    found: list[Round] = []
    sections = ["# Returns of SAC", ABOUT]
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
        origin = reports.measured_by("python benchmarks/learners.py")
        ending = [origin, reports.version_table(columns), *reports.failures(columns)]
        page, file = "\n\n".join([*sections, *ending]), args.output / "report.md"
        file.write_text(reports.opened(page, opening, file) + "\n")
    reports.write(page, args.markdown, opening)
    peers.exit_if_any_failed(chain(*(results.values() for results in found)))


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    new = Path(f"runs/learners-{datetime.datetime.now():%Y%m%d-%H%M%S}")
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=1800.0)
    add = parser.add_argument
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="environments")
    add("--quick", action="store_true", help="only check that everything runs")
    add("--seeds", type=peers.positive, help="seeds per environment (default: 5, 2)")
    add("--steps", type=int, help="environment steps in HalfCheetah-v5")
    add("--output", type=Path, default=new, help="new folder for the results")
    args = parser.parse_args()
    if args.output.exists():
        parser.error(f"{args.output} exists already: choose another --output.")
    return args


def section(part: Part, rounds: list[Round], picture: Path) -> list[str]:
    """The paragraphs about an environment; also draws its plot."""
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
    reports.draw(picture, f"SAC in {part.env}", curves)
    head = ["", "Mean return", "Lowest seed", "Highest seed", "Seeds", "Episodes"]
    return [
        f"## {part.env}",
        f"{part.n_steps:,} steps, the first {part.start_steps:,} with random actions, then one update "
        f"per step. Each evaluation plays {part.episodes} episodes with deterministic actions.",
        reports.table(head, rows),
    ]


def opening(page: str, chart: Path) -> str:
    """The returns after training, and the learning curves."""
    pictures = {part.env: f"{name}.png" for name, part in PARTS.items()}
    learned = [table for table in reports.tables(page) if "Mean return" in table.head]
    numbers = [
        (mean, f"mean return of {library.partition(' ')[0]} in {table.heading}")
        for table in learned
        for library, mean, *_ in table.rows
    ]
    curves = {f"Learning curves in {x.heading}": pictures[x.heading] for x in learned}
    return reports.in_large(numbers, curves)


if __name__ == "__main__":
    main()
