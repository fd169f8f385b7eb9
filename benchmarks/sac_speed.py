"""Measures the speed of SAC, in jaxagents and in sbx, at the same work on this machine.

Every run is a fresh process, and the runs of the two libraries alternate. sbx lives in a virtual
environment of its own, which this script makes from PyPI with the same versions of JAX.
"""

import argparse
import itertools
import sys
from pathlib import Path

import peers
from peers import Pair, Result

PEER_PACKAGES = ("sbx-rl==0.28.0", "gymnasium[mujoco]")
LIBRARIES = ("jaxagents", "sbx-rl")
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
    peer = args.peer_python or peers.make_environment("sbx", PEER_PACKAGES)
    commands = (
        [sys.executable, str(peers.WORKERS / "jaxagents_sac.py")],
        [str(peer), str(peers.WORKERS / "sbx_sac.py")],
    )
    pairs: dict[str, list[Pair]] = {work: [] for work in (UPDATES, *args.envs)}
    for work, seed in itertools.product(pairs, range(args.repeats)):
        options = [f"--seed={seed}"]
        if work == UPDATES:
            options = ["updates", f"--seconds={args.seconds}", *options]
        else:
            options = ["steps", f"--env={work}", f"--steps={args.steps}", *options]
        pair = []
        for library, command in zip(LIBRARIES, commands, strict=True):
            result = peers.run_worker([*command, *options], args.timeout)
            print(f"{library}, {work}, seed {seed}: {summary(result)}", file=sys.stderr)
            pair.append(result)
        pairs[work].append((pair[0], pair[1]))

    peers.write(report(pairs, args), args.markdown)
    results = [result for pair in itertools.chain(*pairs.values()) for result in pair]
    if any("failure" in result for result in results):
        sys.exit("Some runs failed.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--envs", nargs="*", default=["Pendulum-v1", "HalfCheetah-v5"], help="trained in")
    add("--steps", type=int, default=3000, help="environment steps that are timed")
    add("--seconds", type=float, default=2.0, help="aimed length of one timed loop of updates")
    add("--repeats", type=int, default=3, help="processes for each library and work")
    add("--timeout", type=float, default=600.0, help="seconds after which a process is ended")
    add("--peer-python", type=Path, help="Python that has sbx; by default one is set up")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    if args.repeats < 1 or args.steps < 1:
        parser.error("--repeats and --steps must be positive")
    return args


def summary(result: Result) -> str:
    """What a run measured, in a few words."""
    if "failure" in result:
        return result["failure"]
    if "steps_per_second" in result:
        return f"{result['steps_per_second']:,.0f} steps/s"
    speeds = [f"{result[n]['updates_per_second']:,.0f}" for n in UPDATES_IN_A_CALL]
    return f"{' and '.join(speeds)} updates/s"


def report(pairs: dict[str, list[Pair]], args: argparse.Namespace) -> str:
    """Writes the results, pairs of runs by what was timed, as a page of Markdown."""
    results = list(zip(*itertools.chain(*pairs.values()), strict=True))
    names = [peers.label(library, runs) for library, runs in zip(LIBRARIES, results, strict=True)]
    columns = dict(zip(names, results, strict=True))
    trainings = {work: group for work, group in pairs.items() if work != UPDATES}
    updates = [
        row
        for n in UPDATES_IN_A_CALL
        for row in peers.comparison(
            n,
            names,
            [of_call(pair, n) for pair in pairs[UPDATES]],
            dict(UPDATE_QUANTITIES.values()),
        )
    ]
    steps = [
        row
        for env, group in trainings.items()
        for row in peers.comparison(env, names, group, dict(STEP_QUANTITIES.values()))
    ]
    parts = [
        "# Training speed of SAC",
        f"Measured by `benchmarks/sac_speed.py` {peers.machine()}.",
        f"Each number is the median over fresh processes ({args.repeats} for each library and "
        f"row). A ratio is {' / '.join(LIBRARIES)}: median and range over the pairs of successive "
        "processes.",
        "Updates from batches of 256, drawn from a replay buffer of HalfCheetah-v5 (17 observations, "
        f"6 actions). {compilations(pairs[UPDATES])}",
        peers.table(["Updates in a call", "Library", *UPDATE_QUANTITIES], updates),
        f"Training with one update a step, without evaluation, over {args.steps:,} steps after "
        "everything is compiled:",
        peers.table(["Environment", "Library", *STEP_QUANTITIES], steps),
        peers.version_table(columns),
        *peers.failures(columns),
    ]
    return "\n\n".join(parts)


def of_call(pair: Pair, n: str) -> Pair:
    """What both measured with so many updates in a call."""
    ours, theirs = (result if "failure" in result else result | result[n] for result in pair)
    return ours, theirs


def compilations(pairs: list[Pair]) -> str:
    """How often jaxagents compiled."""
    counts = [
        (result[n]["compilations"], result[n]["later_compilations"])
        for result, _ in pairs
        if "failure" not in result
        for n in UPDATES_IN_A_CALL
    ]
    assert all(count == (1, 0) for count in counts), f"compiled too often: {counts}"
    return "jaxagents compiles one program for each row, in the first call, and none later."


if __name__ == "__main__":
    main()
