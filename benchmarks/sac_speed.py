"""Compares the speed of SAC in jaxagents and in sbx.

Every run is a fresh process, and the runs of the two libraries alternate. sbx is installed from PyPI in
its own virtual environment, with the same version of JAX.
"""

import argparse
from itertools import chain

import peers
import reports
from peers import Result, Round

LIBRARIES = {"jaxagents": ("jaxagents", "jaxagents_sac.py"), "sbx-rl": ("sbx", "sbx_sac.py")}
UPDATES_IN_A_CALL = ("1", "64")  # as in the workers
UPDATES = "updates"
UPDATE_QUANTITIES = {  # column, key in a worker's result, and format
    "Updates per second": ("updates_per_second", ",.0f"),
    "First call (s)": ("first_call_seconds", ".1f"),
}
STEP_QUANTITIES = {
    "Environment steps per second": ("steps_per_second", ",.0f"),
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
    add("--repeats", type=peers.positive, default=3, help="processes per library and task")
    add("--envs", nargs="*", default=["Pendulum-v1", "HalfCheetah-v5"], help="environments")
    add("--steps", type=peers.positive, default=3000, help="timed environment steps")
    add("--seconds", type=float, default=2.0, help="approximate length of a timed loop of updates")
    return parser.parse_args()


def report(rounds: dict[str, list[Round]], args: argparse.Namespace) -> str:
    """The page, in Markdown."""
    updates = [
        row
        for n in UPDATES_IN_A_CALL
        for row in reports.comparison(
            f"{n} update{'s' * (n != '1')} per call",
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
        "# Speed of SAC",
        "How fast does SAC train compared with sbx? The tables show medians over fresh processes "
        f"({args.repeats} per library and row). Each ratio, {' / '.join(LIBRARIES)}, compares two "
        "consecutive processes; its range is in parentheses.",
        "This table times updates alone, with batches of 256 from a HalfCheetah-v5 replay buffer "
        "(17-dimensional observations, 6-dimensional actions):",
        reports.table(["", "Library", *UPDATE_QUANTITIES], updates),
        f"This table times {args.steps:,} steps of training with one update per step, excluding "
        "compilation and evaluation:",
        reports.table(["Environment", "Library", *STEP_QUANTITIES], steps),
        reports.measured_by(
            f"python benchmarks/sac_speed.py --steps {args.steps} --repeats {args.repeats}"
        ),
        reports.version_table(columns),
        *reports.failures(columns),
    ]
    return "\n\n".join(parts)


def of_call(result: Result, n: str) -> Result:
    """The result for `n` updates per call."""
    return result if "failure" in result else result | result[n]


if __name__ == "__main__":
    main()
