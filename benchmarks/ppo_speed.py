"""Measures the training speed of PPO, in jaxagents and in rejax, at the same work on this machine.

Every run is a fresh process, and the runs of the two libraries alternate. rejax lives in a virtual
environment of its own, which this script makes from PyPI with the same versions of JAX.
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import peers
from peers import Pair, Result, measured, table

PEER_PACKAGES = ("rejax==0.1.3", "gymnax==0.0.9")
LIBRARIES = ("jaxagents", "rejax")
N_ENVS_OF_SEEDS = 4
QUANTITIES = {  # how each is called in the report, in a worker's result, and its format
    "Environment steps a second": ("steps_per_second", ",.0f"),
    "Compilation (s)": ("compile_seconds", ".1f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}


class Work(NamedTuple):
    """What is timed.

    Attributes:
        n_envs: Number of environments of a training.
        n_seeds: Number of trainings at once.
    """

    n_envs: int
    n_seeds: int = 1

    def __str__(self) -> str:
        """How it is called in the report."""
        return f"{self.n_envs}" if self.n_seeds == 1 else f"{self.n_seeds} seeds x {self.n_envs}"


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    peer = args.peer_python or peers.make_environment("rejax", PEER_PACKAGES)
    commands = (
        [sys.executable, str(peers.WORKERS / "jaxagents_ppo.py")],
        [str(peer), str(peers.WORKERS / "rejax_ppo.py")],
    )
    works = [Work(n_envs) for n_envs in args.envs]
    works += [Work(N_ENVS_OF_SEEDS, n_seeds) for n_seeds in args.seeds]
    pairs: dict[Work, list[Pair]] = {work: [] for work in works}
    for seed, (work, _) in enumerate(itertools.product(works, range(args.repeats))):
        options = [f"--envs={work.n_envs}", f"--parallel-seeds={work.n_seeds}"]
        options += [f"--seconds={args.seconds}", f"--seed={seed}"]
        pair = []
        for library, command in zip(LIBRARIES, commands, strict=True):
            result = peers.run_worker([*command, *options], args.timeout)
            summary = result.get("failure") or f"{result['steps_per_second']:,.0f} steps/s"
            print(f"{library}, {work} environments, seed {seed}: {summary}", file=sys.stderr)
            pair.append(result)
        pairs[work].append((pair[0], pair[1]))

    peers.write(report(pairs, args), args.markdown)
    if any("failure" in result for pair in itertools.chain(*pairs.values()) for result in pair):
        sys.exit("Some runs failed.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--envs", type=int, nargs="*", default=[4, 64, 1024], help="numbers of environments")
    add("--seeds", type=int, nargs="*", default=[16], help="numbers of trainings at once")
    add("--repeats", type=int, default=3, help="processes for each library and number")
    add("--seconds", type=float, default=3.0, help="aimed length of one timed call")
    add("--timeout", type=float, default=600.0, help="seconds after which a process is ended")
    add("--peer-python", type=Path, help="Python that has rejax; by default one is set up")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    if args.repeats < 1 or any(n < 4 or n % 4 for n in args.envs):
        parser.error("--repeats must be positive, and --envs multiples of 4")
    return args


def report(pairs: dict[Work, list[Pair]], args: argparse.Namespace) -> str:
    """Writes the results, pairs of runs by what was timed, as a page of Markdown."""
    results = list(zip(*itertools.chain(*pairs.values()), strict=True))
    names = [peers.label(library, runs) for library, runs in zip(LIBRARIES, results, strict=True)]
    columns = dict(zip(names, results, strict=True))
    speed = [
        row
        for work, group in pairs.items()
        for row in peers.comparison(work, names, group, dict(QUANTITIES.values()))
    ]
    learning = [
        [name, peers.median(runs, "learning_steps", ",.0f"), *returns(runs)]
        for name, runs in columns.items()
    ]
    parts = [
        "# Training speed",
        f"PPO on CartPole-v1, measured by `benchmarks/ppo_speed.py` {peers.machine()}.",
        f"Each number is the median over fresh processes ({args.repeats} for each library and "
        f"number of environments, with timed calls of about {args.seconds:g} s). A ratio is "
        f"{' / '.join(LIBRARIES)}: median and range over the pairs of successive processes.",
        table(["Environments", "Library", *QUANTITIES], speed),
        "Mean return of 128 greedy episodes after the same training in 64 environments:",
        table(["Library", "Steps", "Median", "Lowest", "Highest", "Seeds"], learning),
        peers.version_table(columns),
        *peers.failures(columns),
    ]
    return "\n\n".join(parts)


def returns(results: Iterable[Result]) -> list[str]:
    """Median, lowest, highest and number of the mean returns."""
    values = list(measured(results, "mean_return"))
    numbers = [f"{f(values):.1f}" if values else "-" for f in (statistics.median, min, max)]
    return [*numbers, str(len(values))]


if __name__ == "__main__":
    main()
