"""Measures the time from starting a script to the first update of PPO, in jaxagents and in rejax.

Every start is a fresh process, and the two libraries alternate. A cold start compiles its programs; a
warm start loads them from JAX's compilation cache, where the cold start saved them. rejax is installed
from PyPI in its own virtual environment, with the same version of JAX.
"""

import argparse
import sys
from pathlib import Path

import peers
import reports
from peers import Result, Round

LIBRARIES = {
    "jaxagents": ("jaxagents", "jaxagents_startup.py"),
    "rejax": ("rejax", "rejax_startup.py"),
}
STAGES = {  # how each is called in the report, by its name in a worker's result
    "package": "Package imported",
    "imports": "Everything imported",
    "agent": "Agent created",
    "update": "First update done",
}
STARTS = "cold", "warm"


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=300.0)
    parser.add_argument(
        "--repeats", type=peers.positive, default=5, help="cold and warm starts per library"
    )
    args = parser.parse_args()
    rounds = peers.in_turns(LIBRARIES, {"PPO": []}, args.repeats, args)["PPO"]
    worker = [sys.executable, peers.WORKERS / "command_line.py"]
    lines = [peers.run_worker(worker, args.timeout) for _ in range(args.repeats)]
    reports.write(report(rounds, lines, args), args.markdown, opening)
    peers.exit_if_any_failed([*lines, *(result for found in rounds for result in found.values())])


def opening(page: str, chart: Path) -> str:
    """The seconds until the first update of each library."""
    bars = [
        reports.Bar(f"{which} start", library.partition(" ")[0], seconds)
        for which, library, *_, last in reports.tables(page)[0].rows
        if library != "ratio" and (seconds := reports.numbers_in(last))
    ]
    form = "{:.3g} s"
    pictures = reports.draw_bars(chart, "Seconds until the first update", bars, form, log=False)
    numbers = reports.in_words(bars, form, "to the first update of {kind}: {title}")
    return reports.in_large(numbers, pictures)


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
            "# Startup time",
            "How long does a script take to finish its first update? The script trains "
            "PPO in CartPole-v1 with 64 environments, without evaluation. A cold start compiles its "
            "programs; a warm start loads them from JAX's cache (`jaxagents.cache_programs()`). The "
            "table shows seconds since the start of the process, as medians over fresh processes. "
            "Each ratio compares two consecutive starts, jaxagents / rejax, with its range in "
            "parentheses.",
            reports.table(["", "", *STAGES.values()], rows),
            "`jaxagents train ppo CartPole-v1` shows its first update after "
            f"{first_bars[0]} s from a cold start and {first_bars[1]} s from a warm one.",
            reports.measured_by(f"python benchmarks/startup.py --repeats {args.repeats}"),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
