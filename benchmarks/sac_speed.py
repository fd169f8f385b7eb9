"""Measures the speed of SAC, in jaxagents and in sbx, at the same work on this machine.

Every run is a fresh process, and the runs of the two libraries alternate. sbx lives in a virtual
environment of its own, which this script makes from PyPI with the same versions of JAX.
"""

import argparse
from itertools import chain

import peers
import reports
from peers import Result, Round

LIBRARIES = {"jaxagents": ("jaxagents", "jaxagents_sac.py"), "sbx-rl": ("sbx", "sbx_sac.py")}
UPDATES_IN_A_CALL = ("1", "64")  # as the workers have it
UPDATES = "updates"
UPDATE_QUANTITIES = {  # how each is called in the report, in a worker's result, and its format
    "Updates a second": ("updates_per_second", ",.0f"),
    "First call (s)": ("first_call_seconds", ".1f"),
}
STEP_QUANTITIES = {
    "Environment steps a second": ("steps_per_second", ",.0f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    works = {UPDATES: ["updates", f"--seconds={args.seconds}"]}
    works |= {env: ["steps", f"--env={env}", f"--steps={args.steps}"] for env in args.envs}
    rounds = peers.in_turns(LIBRARIES, works, args.repeats, args)
    reports.write(report(rounds, args), args.markdown)
    peers.exit_if_any_failed(
        result for found in chain(*rounds.values()) for result in found.values()
    )


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=600.0)
    add = parser.add_argument
    add("--repeats", type=peers.positive, default=3, help="processes for each library and work")
    add("--envs", nargs="*", default=["Pendulum-v1", "HalfCheetah-v5"], help="trained in")
    add("--steps", type=peers.positive, default=3000, help="environment steps that are timed")
    add("--seconds", type=float, default=2.0, help="aimed length of one timed loop of updates")
    return parser.parse_args()


def report(rounds: dict[str, list[Round]], args: argparse.Namespace) -> str:
    """Writes the results, by what was timed, as a page of Markdown."""
    updates = [
        row
        for n in UPDATES_IN_A_CALL
        for row in reports.comparison(
            n,
            [
                {who: of_call(result, n) for who, result in found.items()}
                for found in rounds[UPDATES]
            ],
            dict(UPDATE_QUANTITIES.values()),
        )
    ]
    steps = [
        row
        for env in args.envs
        for row in reports.comparison(env, rounds[env], dict(STEP_QUANTITIES.values()))
    ]
    columns = reports.columns(chain(*rounds.values()))
    parts = [
        "# Training speed of SAC",
        f"Measured by `benchmarks/sac_speed.py` {reports.machine()}.",
        f"Each number is the median over fresh processes ({args.repeats} for each library and "
        f"row). A ratio is {' / '.join(LIBRARIES)}: median and range over the pairs of successive "
        "processes.",
        "Updates from batches of 256, drawn from a replay buffer of HalfCheetah-v5 (17 observations, "
        "6 actions).",
        reports.table(["Updates in a call", "Library", *UPDATE_QUANTITIES], updates),
        f"Training with one update a step, without evaluation, over {args.steps:,} steps after "
        "everything is compiled:",
        reports.table(["Environment", "Library", *STEP_QUANTITIES], steps),
        reports.version_table(columns),
        *reports.failures(columns),
    ]
    return "\n\n".join(parts)


def of_call(result: Result, n: str) -> Result:
    """The result with so many updates in a call."""
    return result if "failure" in result else result | result[n]


if __name__ == "__main__":
    main()
