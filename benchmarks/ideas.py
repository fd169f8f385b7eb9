"""Measures what makes PPO fast: each idea switched off, and others that were tried, as ratios.

Every run is a fresh process, and runs with a change alternate with those without.
"""

import argparse
import itertools
import sys
from pathlib import Path
from typing import NamedTuple

import peers
from peers import Pair, Result

WORKER = [sys.executable, str(peers.WORKERS / "ideas.py")]
N_SEEDS = 16
SEED_ENVS = 4
SEEDS_TAKE = 5  # times as long in a timed call, since sweeps begin with short chunks


class Change(NamedTuple):
    """What the library does, and what is put in its place."""

    ours: str
    other: str


IDEAS = {
    "loop": Change("All updates in one compiled loop", "a call of a compiled function for each"),
    "fit": Change(
        "Actor and critic in one loop, while minibatches are small",
        "in a loop each, one after the other",
    ),
    "parts": Change("Gradients of large minibatches in parts", "of all samples at once"),
    "dense": Change("Dense layers with gradients of their own", "`flax.linen.Dense`"),
    "transposed": Change(
        "of which a transposed copy of many rows, and an ordinary product",
        "a product with transposed rows",
    ),
    "columns": Change("of which products with each of a few columns", "a product with all of them"),
    "small": Change("of which sums, where a product is small", "a product by a library"),
    "shuffle": Change(
        "Samples mixed by a bijection of indices", "`jax.random.permutation`, which sorts"
    ),
    "policy": Change(
        "Log-probability and entropy from one application of the policy", "an application for each"
    ),
    "few": Change("Sums over few actions one by one", "by XLA's reductions"),
    "one-hot": Change("Log-probability by a one-hot choice", "an indexed read"),
    "reset": Change("Resets only in steps in which an episode ended", "resets in every step"),
    "turns": Change("of which those of many environments a few at a time", "of all at once"),
    "noise": Change("Random numbers of actions drawn for a whole rollout", "drawn in each step"),
    "keys": Change("Random keys split once for a whole rollout", "split in each step"),
    "values": Change("Values of several steps at once, as fit into the caches", "of one at a time"),
}
TRIED = {
    "values-at-once": Change(
        "Values of several steps at once, as fit into the caches",
        "of a whole rollout, for more memory",
    ),
    "unrolled-rollout": Change("A loop over the steps of a rollout", "four steps at a time"),
    "unrolled-minibatches": Change("A loop over minibatches", "the four of them without a loop"),
    "flat": Change("An optimizer of all arrays of parameters", "of one vector, `optax.flatten`"),
    "generator": Change("Random numbers by Threefry", "by the generator `rbg` of XLA"),
}
SEEDS = {
    "seeds": Change("`sweep`: the program of one seed on each core", "all in one by `jax.vmap`"),
}
CHANGES = IDEAS | SEEDS | TRIED
Work = tuple[str, int]  # a change and a number of environments
INTRODUCTION = """# What makes PPO fast

Made by `python benchmarks/ideas.py --output docs/benchmarks`, {machine}.

PPO on CartPole-v1 with tanh networks of 64 x 64 units, 128 steps a rollout and 4 epochs of 4
minibatches. A ratio is environment steps a second of the library as it is, over those with one
thing replaced: above 1, the library's way is the faster. It is the median, with the range of
several, over pairs of fresh processes that followed each other, {repeats} of each, with timed calls
of about {seconds:g} s ({seeds_take} times as long for several seeds). A range that has 1 in it shows no
difference."""
SPEEDS = (
    """As it is, the library makes so many environment steps a second here, median over all runs:"""
)


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    pairs: dict[Work, list[Pair]] = {}
    for i, name in itertools.product(range(args.repeats), args.only):
        for envs in args.envs if name not in SEEDS else [SEED_ENVS]:
            order = ("without", "with") if i % 2 == 0 else ("with", "without")
            results = {side: measure(name, envs, side == "with", args) for side in order}
            pair = (results["without"], results["with"])
            pairs.setdefault((name, envs), []).append(pair)
            ratio = peers.ratio([pair], "steps_per_second")
            print(f"{name}, {envs} environments: {ratio}", file=sys.stderr)
    peers.write(report(pairs, args), args.output / "ideas.md")
    if any("failure" in run for found in pairs.values() for run in itertools.chain(*found)):
        sys.exit("Some runs failed.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=CHANGES, default=list(CHANGES), help="what to measure")
    add("--envs", nargs="+", type=int, default=[4, 64, 1024], help="numbers of environments")
    add("--repeats", type=int, default=2, help="pairs of processes of each")
    add("--seconds", type=float, default=0.7, help="aimed length of a timed call")
    add("--quick", action="store_true", help="only try whether everything runs")
    add("--timeout", type=float, default=600.0, help="seconds after which a process is ended")
    add("--output", type=Path, default=Path("runs/ideas"), help="folder of the page")
    args = parser.parse_args()
    if args.quick:
        args.envs, args.repeats, args.seconds = [4], 1, 0.1
    return args


def measure(name: str, envs: int, changed: bool, args: argparse.Namespace) -> Result:
    """Runs the worker, with a change or as the library is."""
    seconds = args.seconds * (SEEDS_TAKE if name in SEEDS else 1)
    options = [f"--envs={envs}", f"--seconds={seconds}"]
    seeds = [f"--seeds={N_SEEDS}"] if name in SEEDS else []
    change = [f"--change={name}"] if changed else []
    return peers.run_worker([*WORKER, *options, *seeds, *change], args.timeout)


def report(pairs: dict[Work, list[Pair]], args: argparse.Namespace) -> str:
    """The page."""
    every = [result for found in pairs.values() for pair in found for result in pair]
    failed = {
        f"{name}, {envs} environments": [result for pair in found for result in pair]
        for (name, envs), found in pairs.items()
    }
    introduction = INTRODUCTION.format(
        machine=peers.machine(),
        repeats=args.repeats,
        seconds=args.seconds,
        seeds_take=SEEDS_TAKE,
    )
    columns = [f"{envs:,} environments" for envs in args.envs]
    seeds = [f"{N_SEEDS} seeds x {SEED_ENVS} environments"]
    return "\n\n".join(
        [
            introduction,
            *section("Ideas", IDEAS, columns, args.envs, pairs),
            *section("Several seeds", SEEDS, seeds, [SEED_ENVS], pairs),
            *section("Tried, and left as it was", TRIED, columns, args.envs, pairs),
            *speeds(pairs),
            peers.version_table({peers.label("jaxagents", every): every}),
            *peers.failures(failed),
        ]
    )


def section(
    title: str,
    changes: dict[str, Change],
    columns: list[str],
    envs: list[int],
    pairs: dict[Work, list[Pair]],
) -> list[str]:
    """A table of ratios."""
    rows = [
        [*change, *(peers.ratio(pairs[name, n], "steps_per_second") for n in envs)]
        for name, change in changes.items()
        if (name, envs[0]) in pairs
    ]
    head = ["The library's way", "In its place", *columns]
    return [f"## {title}", peers.table(head, rows)] if rows else []


def speeds(pairs: dict[Work, list[Pair]]) -> list[str]:
    """The speeds without a change."""
    unchanged: dict[int, list[Result]] = {}
    for (name, envs), found in pairs.items():
        if name not in SEEDS:
            unchanged.setdefault(envs, []).extend(pair[0] for pair in found)
    rows = [
        [f"{envs:,}", peers.median(results, "steps_per_second", ",.0f")]
        for envs, results in unchanged.items()
    ]
    return [SPEEDS, peers.table(["Environments", "Environment steps a second"], rows)]


if __name__ == "__main__":
    main()
