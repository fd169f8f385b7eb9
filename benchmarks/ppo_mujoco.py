"""Measures PPO in MuJoCo environments on the host: its speed and what it learns, beside two others.

Every run is a fresh process, and the runs of the libraries alternate. The other libraries live in a
virtual environment of their own, which this script makes from PyPI.
"""

import argparse
import itertools
import statistics
import sys
from itertools import chain
from pathlib import Path

import peers
import reports
from peers import Result, Round

WORKERS = {  # environment, file and options of each
    "jaxagents": (peers.OURS, "jaxagents_host_ppo.py", []),
    "sbx": ("sbx", "sbx_host_ppo.py", []),
    "sb3": ("sbx", "sb3_host_ppo.py", []),
}
QUANTITIES = {
    "Steps a second": ("steps_per_second", ",.0f"),
    "First two updates (s)": ("first_seconds", ".1f"),
    "Return": ("mean_return", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    rounds = {env: [one_round(env, seed, args) for seed in range(args.seeds)] for env in args.envs}
    reports.write(report(rounds, args), args.markdown)
    peers.exit_if_any_failed(
        result for found in chain(*rounds.values()) for result in found.values()
    )


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=3600.0)
    add = parser.add_argument
    add("--libraries", nargs="+", choices=WORKERS, default=list(WORKERS), help="who")
    add("--peer-python", type=Path, help="Python that has the others; by default one is set up")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    add("--envs", nargs="*", default=["HalfCheetah-v5", "Hopper-v5"], help="trained in")
    add("--steps", type=peers.positive, default=300_000, help="environment steps of a training")
    add("--seeds", type=peers.positive, default=3, help="trainings of each library")
    add("--episodes", type=peers.positive, default=10, help="of the evaluation at the end")
    return parser.parse_args()


def one_round(env: str, seed: int, args: argparse.Namespace) -> Round:
    """Measures each library with one seed."""
    results = {}
    for library in args.libraries:
        name, file, options = WORKERS[library]
        python = sys.executable if name == peers.OURS else args.peer_python or peers.python_of(name)
        work = [f"--env={env}", f"--steps={args.steps}", f"--episodes={args.episodes}"]
        command = [python, peers.WORKERS / file, *options, *work, f"--seed={seed}"]
        results[library] = peers.run_worker(command, args.timeout)
        print(f"{library}, {env}, seed {seed}: {results[library]}", file=sys.stderr)
    return results


def report(rounds: dict[str, list[Round]], args: argparse.Namespace) -> str:
    """Writes the results as a page of Markdown."""
    rows = [
        row_of(env, library, [found[library] for found in of_env])
        for (env, of_env), library in itertools.product(rounds.items(), args.libraries)
    ]
    columns = {
        library: [found[library] for found in chain(*rounds.values())] for library in args.libraries
    }
    parts = [
        "# PPO in MuJoCo",
        f"By `python benchmarks/ppo_mujoco.py`, {reports.machine()}.",
        f"Medians over {args.seeds} seeds, each a training of {args.steps:,} steps in 8 environments; "
        "of returns also the lowest and highest. A return is the mean of greedy episodes at the end. "
        "All have the same networks, optimizer, minibatches, epochs and normalisation.",
        reports.table(["Environment", "Library", *QUANTITIES], rows),
        reports.version_table(columns),
        *reports.failures(columns),
    ]
    return "\n\n".join(parts)


def row_of(env: str, library: str, results: list[Result]) -> list[str]:
    """A row of the table."""
    cells = []
    for key, form in QUANTITIES.values():
        found = sorted(reports.measured(results, key))
        text = format(statistics.median(found), form) if found else "-"
        spread = f" ({found[0]:,.0f} to {found[-1]:,.0f})" if found and key == "mean_return" else ""
        cells.append(text + spread)
    return [env, library, *cells]


if __name__ == "__main__":
    main()
