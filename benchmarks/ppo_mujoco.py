"""Measures the speed and returns of PPO in MuJoCo on the host, compared with two other libraries.

Every run is a fresh process, and the runs of the libraries alternate. The other libraries are installed
from PyPI in their own virtual environment.
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
    "Stable-Baselines3": ("sbx", "sb3_host_ppo.py", []),
}
QUANTITIES = {
    "Steps per second": ("steps_per_second", ",.0f"),
    "First two updates (s)": ("first_seconds", ".1f"),
    "Return": ("mean_return", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    rounds = {env: [one_round(env, seed, args) for seed in range(args.seeds)] for env in args.envs}
    reports.write(report(rounds, args), args.markdown, opening)
    peers.exit_if_any_failed(
        result for found in chain(*rounds.values()) for result in found.values()
    )


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=3600.0)
    add = parser.add_argument
    add("--libraries", nargs="+", choices=WORKERS, default=list(WORKERS), help="libraries to run")
    add("--peer-python", type=Path, help="Python with the other libraries (default: set one up)")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    add("--envs", nargs="*", default=["HalfCheetah-v5", "Hopper-v5"], help="environments")
    add("--steps", type=peers.positive, default=300_000, help="environment steps per run")
    add("--seeds", type=peers.positive, default=3, help="seeds per library")
    add("--episodes", type=peers.positive, default=10, help="episodes of the evaluation at the end")
    return parser.parse_args()


def one_round(env: str, seed: int, args: argparse.Namespace) -> Round:
    """Runs each library with one seed."""
    results = {}
    for library in args.libraries:
        name, file, options = WORKERS[library]
        python = sys.executable if name == peers.OURS else args.peer_python or peers.python_of(name)
        work = [f"--env={env}", f"--steps={args.steps}", f"--episodes={args.episodes}"]
        command = [python, peers.WORKERS / file, *options, *work, f"--seed={seed}"]
        results[library] = peers.run_worker(command, args.timeout)
        print(f"{library}, {env}, seed {seed}: {results[library]}", file=sys.stderr)
    return results


def opening(page: str, chart: Path) -> str:
    """The speed and the return in each environment."""
    rows = reports.tables(page)[0].rows
    speeds, returns = (
        [
            reports.Bar(row[0], row[1], numbers)
            for row in rows
            if (numbers := reports.numbers_in(row[column]))
        ]
        for column in (2, 4)
    )
    form = "{:,.0f}"
    pictures = reports.draw_bars(chart, "Steps per second", speeds, form, log=False)
    speed = reports.against_others(speeds, form, "steps per second in {title}")
    learned = reports.against_others(returns, form, "return in {title}")
    return reports.in_large(speed + learned, pictures)


def report(rounds: dict[str, list[Round]], args: argparse.Namespace) -> str:
    """The page, in Markdown."""
    rows = [
        row_of(env, library, [found[library] for found in of_env])
        for (env, of_env), library in itertools.product(rounds.items(), args.libraries)
    ]
    columns = {
        library: [found[library] for found in chain(*rounds.values())] for library in args.libraries
    }
    parts = [
        "# PPO in MuJoCo",
        "How does PPO in MuJoCo compare with sbx and Stable-Baselines3 in speed and returns? All three "
        "libraries get the same networks, optimizer, minibatches, epochs and normalisation, and train "
        f"for {args.steps:,} steps in 8 environments. The table shows medians over {args.seeds} seeds. "
        f"The return is the mean over {args.episodes} greedy episodes after training, with the lowest "
        "and the highest seed in parentheses.",
        reports.table(["Environment", "Library", *QUANTITIES], rows),
        reports.measured_by("python benchmarks/ppo_mujoco.py"),
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
