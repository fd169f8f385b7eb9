"""Measures the training speed of DDQN and SAC, in jaxagents and in rejax, at the same work.

Every run is a fresh process, and the runs of the two libraries alternate. rejax lives in a virtual
environment of its own, which this script makes from PyPI with the same versions of JAX.
"""

import argparse
import itertools
import sys
from pathlib import Path

import peers
from peers import Pair, Result
from ppo_peers import ENVIRONMENTS

LIBRARIES = ("jaxagents", "rejax")
WORKS = (
    "DDQN, an update of 256 each step",
    "DDQN, an update of 128 each ten steps",
    "the same, 16 seeds",
    "SAC, an update of 256 each step",
    "the same, a buffer of a million",
)
QUANTITIES = {  # how each is called in the report, in a worker's result, and its format
    "Environment steps a second": ("steps_per_second", ",.0f"),
    "Updates a second": ("updates_per_second", ",.0f"),
    "Compilation (s)": ("compile_seconds", ".1f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    peer = args.peer_python or peers.make_environment("rejax", ENVIRONMENTS["rejax"].packages)
    commands = (
        [sys.executable, str(peers.WORKERS / "jaxagents_replay.py")],
        [str(peer), str(peers.WORKERS / "rejax_replay.py")],
    )
    pairs: dict[str, list[Pair]] = {work: [] for work in args.works}
    for seed, work in itertools.product(range(args.repeats), args.works):
        options = [f"--work={work}", f"--seconds={args.seconds}", f"--seed={seed}"]
        results = []
        for library, command in zip(LIBRARIES, commands, strict=True):
            result = peers.run_worker([*command, *options], args.timeout)
            speed = result.get("failure") or f"{result['steps_per_second']:,.0f} steps/s"
            print(f"{library}, {work}, seed {seed}: {speed}", file=sys.stderr)
            results.append(result)
        pairs[work].append((results[0], results[1]))

    peers.write(report(pairs, args), args.markdown)
    if any("failure" in result for pair in itertools.chain(*pairs.values()) for result in pair):
        sys.exit("Some runs failed.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--works", nargs="+", choices=WORKS, default=list(WORKS), help="what to measure")
    add("--repeats", type=int, default=3, help="processes for each library and work")
    add("--seconds", type=float, default=3.0, help="aimed length of one timed call")
    add("--timeout", type=float, default=600.0, help="seconds after which a process is ended")
    add("--peer-python", type=Path, help="Python that has rejax; by default one is set up")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return parser.parse_args()


def report(pairs: dict[str, list[Pair]], args: argparse.Namespace) -> str:
    """The page."""
    columns: dict[str, list[Result]] = {
        library: [pair[i] for work in pairs.values() for pair in work]
        for i, library in enumerate(LIBRARIES)
    }
    names = [peers.label(library, results) for library, results in columns.items()]
    rows = [
        row
        for work, measured in pairs.items()
        for row in peers.comparison(work, names, measured, dict(QUANTITIES.values()))
    ]
    return "\n\n".join(
        [
            "# Speed of off-policy agents",
            f"Made by `python benchmarks/replay_speed.py --repeats {args.repeats}`, {peers.machine()}.",
            "DDQN on CartPole-v1 and SAC on Pendulum-v1, one step of every environment before an "
            "update. Medians of fresh processes; each ratio is of two runs that followed each other, "
            "ours over the other's, with the range. Seeds at once are trained by `sweep` here, and "
            "under `jax.vmap` by rejax.",
            peers.table(["", "", *QUANTITIES], rows),
            peers.version_table(columns),
            *peers.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
