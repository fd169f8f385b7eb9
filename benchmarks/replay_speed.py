"""Compares the training speed of DDQN and SAC in jaxagents and in rejax.

Every run is a fresh process, and the runs of the two libraries alternate. rejax is installed from PyPI
in its own virtual environment, with the same version of JAX.
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
    "DDQN, 1 environment, batch 256",
    "DDQN, 10 environments, batch 128",
    "DDQN, 10 environments, batch 128, 16 seeds",
    "SAC, 1 environment, batch 256",
    "SAC, 1 environment, batch 256, buffer of 1M",
)
QUANTITIES = {  # column, key in a worker's result, and format
    "Environment steps per second": ("steps_per_second", ",.0f"),
    "Compilation (s)": ("compile_seconds", ".1f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=600.0)
    add = parser.add_argument
    add("--repeats", type=peers.positive, default=3, help="processes per library and task")
    add("--works", nargs="+", choices=WORKS, default=list(WORKS), help="tasks to measure")
    add("--seconds", type=float, default=3.0, help="approximate length of a timed call")
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
            "How fast do DDQN in CartPole-v1 and SAC in Pendulum-v1 train compared with rejax? Both "
            "libraries make one update after each step of all environments. The table shows medians "
            "over fresh processes. Each ratio compares two consecutive runs, jaxagents / rejax, with "
            "its range in parentheses. jaxagents trains several seeds with `sweep`, rejax with "
            "`jax.vmap`.",
            reports.table(["", "", *QUANTITIES], rows),
            reports.measured_by(f"python benchmarks/replay_speed.py --repeats {args.repeats}"),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
