"""Measures the training speed of DDQN and SAC, in jaxagents and in rejax, at the same work.

Every run is a fresh process, and the runs of the two libraries alternate. rejax lives in a virtual
environment of its own, which this script makes from PyPI with the same versions of JAX.
"""

import argparse
from itertools import chain

import peers
import reports
from peers import Round

LIBRARIES = {
    "jaxagents": ("jaxagents", "jaxagents_replay.py"),
    "rejax": ("rejax", "rejax_replay.py"),
}
WORKS = (
    "DDQN, an update of 256 each step",
    "DDQN, an update of 128 each ten steps",
    "the same, 16 seeds",
    "SAC, an update of 256 each step",
    "the same, a buffer of a million",
)
QUANTITIES = {  # how each is called in the report, in a worker's result, and its format
    "Environment steps a second": ("steps_per_second", ",.0f"),
    "Compilation (s)": ("compile_seconds", ".1f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=600.0)
    add = parser.add_argument
    add("--repeats", type=peers.positive, default=3, help="processes for each library and work")
    add("--works", nargs="+", choices=WORKS, default=list(WORKS), help="what to measure")
    add("--seconds", type=float, default=3.0, help="aimed length of one timed call")
    args = parser.parse_args()
    works = {work: [f"--work={work}", f"--seconds={args.seconds}"] for work in args.works}
    rounds = peers.in_turns(LIBRARIES, works, args.repeats, args)
    reports.write(report(rounds, args), args.markdown)
    peers.exit_if_any_failed(
        result for found in chain(*rounds.values()) for result in found.values()
    )


def report(rounds: dict[str, list[Round]], args: argparse.Namespace) -> str:
    """The page."""
    columns = reports.columns(chain(*rounds.values()))
    rows = [
        row
        for work, measured in rounds.items()
        for row in reports.comparison(work, measured, dict(QUANTITIES.values()))
    ]
    return "\n\n".join(
        [
            "# Speed of off-policy agents",
            f"Made by `python benchmarks/replay_speed.py --repeats {args.repeats}`, "
            f"{reports.machine()}.",
            "DDQN on CartPole-v1 and SAC on Pendulum-v1, one step of every environment before an "
            "update. Medians of fresh processes; each ratio compares two consecutive runs, "
            "ours over the other's, with the range. For several seeds we use `sweep`, and rejax "
            "`jax.vmap`.",
            reports.table(["", "", *QUANTITIES], rows),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
