"""Measures how the cost of PPO grows with the work, and what surrounds its compiled loop.

Every size of the work is a fresh process. What is around the loop is compared within one process.
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import peers
from matplotlib import pyplot as plt
from peers import Result

NEAR_BEST = 0.9
WORKER = [sys.executable, str(peers.WORKERS / "growth.py")]


class Size(NamedTuple):
    """A size of the work; a width is that of both hidden layers."""

    envs: int = 64
    width: int = 64
    rollout: int = 128
    epochs: int = 4
    minibatches: int = 4

    def __str__(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self._asdict().items())


class Curve(NamedTuple):
    """A quantity that is drawn."""

    key: str
    label: str


Results = dict[Size, list[Result]]
SIZES = {
    "environments": [Size(envs=4**k) for k in range(8)],
    "width": [Size(width=2**k) for k in range(4, 10)],
    "rollout": [Size(envs=n, rollout=length) for n in (64, 1024) for length in (32, 128, 512)],
    "compilation": [
        *(Size(epochs=n) for n in (1, 4, 16)),
        *(Size(minibatches=n) for n in (1, 4, 16)),
    ],
}
QUICK_SIZES = {
    "environments": [Size(envs=n, rollout=16) for n in (1, 4, 16)],
    "width": [Size(width=n, rollout=16) for n in (16, 32)],
    "rollout": [Size(rollout=n) for n in (8, 16)],
    "compilation": [Size(rollout=16, epochs=n) for n in (1, 4)],
}
STEPS = "steps_per_second"
MULTIPLY_ADDS = "multiply_adds_per_second"
CURVES = {  # the last one of each saturates
    "environments": [Curve(STEPS, "environment steps a second")],
    "width": [
        Curve(STEPS, "environment steps a second"),
        Curve(MULTIPLY_ADDS, "multiply-adds a second"),
    ],
}
X_AXES = {"environments": ("envs", "environments"), "width": ("width", "units in a layer")}
KINDS = {
    "bare": "the compiled loop alone",
    "records": "`train` with checkpoints, progress and a logger",
    "evaluations": "`train` with evaluations",
}
INTRODUCTION = """# How the cost of PPO grows

Made by `python benchmarks/growth.py --output docs/benchmarks`, {machine}.

PPO on CartPole-v1 with 64 environments, tanh networks of 64 x 64 units, 128 steps a rollout and 4
epochs of 4 minibatches, but for what a section varies. Each number is the median over fresh processes,
{repeats} of each size, with timed calls of about {seconds:g} s."""
ENVIRONMENTS = """A single environment has one minibatch, since a minibatch has the samples of one
environment at least.

![Environment steps a second](growth_environments.png)"""
SATURATION = """The machine is saturated from **{x:,} {what}** on: that is the smallest number with at
least {share:.0%} of the best {label}."""
UNSATURATED = """The machine is not saturated by the largest number here: {label} still grow."""
WIDTH = """Multiply-adds are those in the products of layers, for acting, values and the epochs of both
networks.

![Environment steps and multiply-adds a second](growth_width.png)"""
ROLLOUT = """Temporary memory is what the compiled program asks for besides its inputs and outputs, as
its own analysis says. Peak memory is the resident memory of the whole process, with Python, JAX and
the compiler in it."""
COMPILATION = """One program serves every number of updates, and epochs and minibatches are loops in it.
The largest program here has {:.2f} times as many instructions as the smallest, and the slowest took
{:.2f} times as long to compile as the quickest."""
OVERHEAD = """A training of {updates:,} updates in {envs} environments, {rounds} times of each kind, in
turns, in one process after warm-up. There are 10 points, and one before the first update. Records are
a checkpoint and a line of a log at each point, and a progress bar. Evaluations are 32 greedy episodes
at each point, and nothing else. Seconds are medians; a ratio is to the compiled loop of the same
round: median and range."""


def main() -> None:
    """Runs the parts and prints their page."""
    args = parse_args()
    sizes = QUICK_SIZES if args.quick else SIZES
    chosen = {name: sizes[name] for name in args.only if name in sizes}
    results: Results = {size: [] for part in chosen.values() for size in part}
    for _ in range(args.repeats):
        for size, found in results.items():
            numbers = [f"--{name}={number}" for name, number in size._asdict().items()]
            options = ["size", *numbers, f"--seconds={args.seconds}"]
            found.append(measure(str(size), options, args.timeout))
    overhead = []
    if "overhead" in args.only:
        options = ["overhead", f"--rounds={args.rounds}", f"--seconds={args.run_seconds}"]
        overhead.append(measure("overhead", options, args.timeout))
    peers.write(report(chosen, results, overhead, args), args.output / "growth.md")
    for name in chosen.keys() & CURVES.keys():
        if medians(chosen[name], results, STEPS):
            plot(name, chosen[name], results, args.output / f"growth_{name}.png")
    if any("failure" in run for run in itertools.chain(*results.values(), overhead)):
        sys.exit("Some runs failed.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    names = [*SIZES, "overhead"]
    add("--only", nargs="+", choices=names, default=names, help="parts to measure")
    add("--repeats", type=int, default=2, help="processes for each size")
    add("--seconds", type=float, default=0.7, help="aimed length of a timed call")
    add("--rounds", type=int, default=3, help="rounds of the overhead")
    add("--run-seconds", type=float, default=20.0, help="aimed length of a run of the overhead")
    add("--quick", action="store_true", help="only try whether everything runs")
    add("--timeout", type=float, default=600.0, help="seconds after which a process is ended")
    add("--output", type=Path, default=Path("runs/growth"), help="folder of page and pictures")
    args = parser.parse_args()
    if args.quick:
        args.repeats, args.seconds, args.rounds, args.run_seconds = 1, 0.05, 1, 0.5
    return args


def measure(title: str, options: list[str], timeout: float) -> Result:
    """Runs the worker."""
    result = peers.run_worker([*WORKER, *options], timeout)
    print(f"{title}: {result.get('failure', 'done')}", file=sys.stderr)
    return result


# The page.


def report(
    chosen: dict[str, list[Size]],
    results: Results,
    overhead: list[Result],
    args: argparse.Namespace,
) -> str:
    """The page."""
    runs = {str(size): found for size, found in results.items()} | {"overhead": overhead}
    every = [result for found in runs.values() for result in found]
    sections = [SECTIONS[name](sizes, results) for name, sizes in chosen.items()]
    introduction = INTRODUCTION.format(
        machine=peers.machine(), repeats=args.repeats, seconds=args.seconds
    )
    return "\n\n".join(
        [
            introduction,
            *itertools.chain(*sections),
            *around_the_loop(overhead),
            peers.version_table({peers.label("jaxagents", every): every}),
            *peers.failures(runs),
        ]
    )


def of_environments(sizes: Sequence[Size], results: Results) -> list[str]:
    """Speeds, and from where on they hardly grow."""
    rows = [[f"{n.envs:,}", peers.median(results[n], STEPS, ",.0f")] for n in sizes]
    return [
        "## Number of environments",
        peers.table(["Environments", "Environment steps a second"], rows),
        *saturation("environments", sizes, results),
        ENVIRONMENTS,
    ]


def of_width(sizes: Sequence[Size], results: Results) -> list[str]:
    """Speeds, and from where on products of layers hardly get faster."""
    rows = [
        [
            n.width,
            peers.median(results[n], STEPS, ",.0f"),
            peers.median(results[n], MULTIPLY_ADDS, ".2e"),
        ]
        for n in sizes
    ]
    head = ["Units in a layer", "Environment steps a second", "Multiply-adds a second"]
    return [
        "## Width of the networks",
        peers.table(head, rows),
        *saturation("width", sizes, results),
        WIDTH,
    ]


def of_rollout(sizes: Sequence[Size], results: Results) -> list[str]:
    """Memory, of the program and of the process."""
    rows = [
        [
            f"{n.envs:,}",
            n.rollout,
            f"{n.envs * n.rollout:,}",
            peers.median(results[n], "temporary_mib", ",.1f"),
            peers.median(results[n], "temporary_bytes_of_a_sample", ",.0f"),
            peers.median(results[n], "memory_mib", ",.0f"),
        ]
        for n in sizes
    ]
    head = [
        "Environments",
        "Steps a rollout",
        "Samples",
        "Temporary (MiB)",
        "Temporary, a sample (bytes)",
        "Peak (MiB)",
    ]
    return ["## Memory", peers.table(head, rows), ROLLOUT]


def of_compilation(sizes: Sequence[Size], results: Results) -> list[str]:
    """Sizes of programs, and how long they take to compile."""
    rows = [
        [
            n.epochs,
            n.minibatches,
            peers.median(results[n], "instructions", ",.0f"),
            peers.median(results[n], "compile_seconds", ".1f"),
        ]
        for n in dict.fromkeys(sizes)
    ]
    head = ["Epochs", "Minibatches", "Instructions", "Compilation (s)"]
    ranges = [
        max(found.values()) / min(found.values())
        for key in ("instructions", "compile_seconds")
        if (found := medians(sizes, results, key))
    ]
    text = [COMPILATION.format(*ranges)] if ranges else []
    return ["## Compilation", peers.table(head, rows), *text]


def around_the_loop(overhead: Iterable[Result]) -> list[str]:
    """Seconds of trainings, and their ratios to the compiled loop alone."""
    paragraphs = []
    for result in (result for result in overhead if "failure" not in result):
        seconds = result["seconds"]
        rows = []
        for kind, name in KINDS.items():
            ratios = [a / b for a, b in zip(seconds[kind], seconds["bare"], strict=True)]
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
            ratio = f"**{statistics.median(ratios):.3f}** ({spread})"
            rows.append([name, f"{statistics.median(seconds[kind]):.2f}", ratio])
        paragraphs += [
            "## Around the compiled loop",
            OVERHEAD.format(rounds=len(seconds["bare"]), **result),
            peers.table(["Training", "Seconds", "Ratio"], rows),
        ]
    return paragraphs


SECTIONS: dict[str, Callable[[Sequence[Size], Results], list[str]]] = {
    "environments": of_environments,
    "width": of_width,
    "rollout": of_rollout,
    "compilation": of_compilation,
}


# Saturation.


def medians(sizes: Iterable[Size], results: Results, key: str) -> dict[Size, float]:
    """The median of a quantity at each size at which a run did not fail."""
    found = {size: list(peers.measured(results[size], key)) for size in sizes}
    return {size: statistics.median(values) for size, values in found.items() if values}


def where_saturated(quantity: dict[Size, float]) -> Size | None:
    """The first size at which a quantity is nearly the largest, unless that is the last one."""
    best = max(quantity.values(), default=0.0)
    *before, _ = quantity or [None]
    return next((size for size in before if quantity[size] >= NEAR_BEST * best), None)


def saturation(part: str, sizes: Sequence[Size], results: Results) -> list[str]:
    """A sentence that says where the saturating curve of a part does so."""
    field, what = X_AXES[part]
    saturating = CURVES[part][-1]
    size = where_saturated(medians(sizes, results, saturating.key))
    if size is None:
        return [UNSATURATED.format(label=saturating.label)]
    x = getattr(size, field)
    return [SATURATION.format(x=x, what=what, share=NEAR_BEST, label=saturating.label)]


def plot(part: str, sizes: Sequence[Size], results: Results, path: Path) -> None:
    """Draws each curve of a part, every run as a dot, and where the last one saturates.

    Args:
        part: Name of the part.
        sizes: Its sizes.
        results: What was measured.
        path: File to write.
    """
    field, what = X_AXES[part]
    curves = CURVES[part]
    figure, panels = plt.subplots(
        1, len(curves), figsize=(6 * len(curves), 4.5), layout="constrained", squeeze=False
    )
    for axes, curve in zip(panels[0], curves, strict=True):
        quantity = medians(sizes, results, curve.key)
        (line,) = axes.plot([getattr(n, field) for n in quantity], list(quantity.values()), lw=2)
        for n in quantity:
            values = list(peers.measured(results[n], curve.key))
            axes.plot([getattr(n, field)] * len(values), values, "o", color=line.get_color(), ms=4)
        saturated = where_saturated(quantity) if curve is curves[-1] else None
        if saturated:
            x, best = getattr(saturated, field), max(quantity.values())
            axes.axhline(NEAR_BEST * best, color="grey", ls=":", label=f"{NEAR_BEST:.0%} of best")
            axes.axvline(x, color="grey", ls="--", label=f"saturated: {x:,} {what}")
            figure.legend(loc="outside lower center", ncols=2, frameon=False)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = [getattr(n, field) for n in quantity]
        axes.set_xticks(ticks, [f"{x:,}" for x in ticks])
        axes.set(xlabel=what, ylabel=curve.label)
        axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
