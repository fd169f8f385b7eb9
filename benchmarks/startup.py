"""Measures how long a script takes to start, in jaxagents and in rejax, until PPO has made an update.

Every start is a fresh process, and the two libraries alternate. A cold start compiles its programs; a
warm one finds them in the compilation cache of JAX, where the cold one has put them. rejax lives in a
virtual environment of its own, which this script makes from PyPI with the same versions of JAX.
"""

import argparse
import sys

import peers
import reports
from peers import Result, Round

LIBRARIES = {
    "jaxagents": ("jaxagents", "jaxagents_startup.py"),
    "rejax": ("rejax", "rejax_startup.py"),
}
STAGES = {  # how each is called in the report, by its name in a worker's result
    "package": "`import` of the package",
    "imports": "... and of all that the script needs",
    "agent": "... and the agent made",
    "update": "... and one update made",
}
STARTS = "cold", "warm"


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=300.0)
    parser.add_argument("--repeats", type=peers.positive, default=5, help="starts of each kind")
    args = parser.parse_args()
    rounds = peers.in_turns(LIBRARIES, {"PPO": []}, args.repeats, args)["PPO"]
    worker = [sys.executable, peers.WORKERS / "command_line.py"]
    lines = [peers.run_worker(worker, args.timeout) for _ in range(args.repeats)]
    reports.write(report(rounds, lines, args), args.markdown)
    peers.exit_if_any_failed([*lines, *(result for found in rounds for result in found.values())])


def report(rounds: list[Round], lines: list[Result], args: argparse.Namespace) -> str:
    """The page."""
    columns = reports.columns(rounds)
    rows = [
        row
        for which in STARTS
        for row in reports.comparison(which, rounds, {f"{which} {name}": ".2f" for name in STAGES})
    ]
    first_bars = [reports.median(lines, which, ".2f") for which in STARTS]
    return "\n\n".join(
        [
            "# Start of a script",
            f"Made by `python benchmarks/startup.py --repeats {args.repeats}`, {reports.machine()}.",
            "Seconds since the start of a process: a script that trains PPO on CartPole-v1 with 64 "
            "environments, without evaluation. A warm start finds compiled programs in the cache of "
            "JAX (`jaxagents.cache_programs()`). Medians of fresh processes; each ratio compares two "
            "consecutive starts, ours over the other's, with the range.",
            reports.table(["", "", *STAGES.values()], rows),
            "`jaxagents train ppo CartPole-v1` shows its first update after "
            f"{first_bars[0]} s, and after {first_bars[1]} s when warm.",
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
