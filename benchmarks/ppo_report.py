"""The page that compares PPO with other libraries: tables and plots of learning curves."""

import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import reports
from packaging.version import Version
from peers import OURS, Result, Round
from reports import table

Runs = dict[str, list[Round]]
"""Results of each library; for speed, each round also has ours."""

SPEED_HEAD = (
    *("", "Library", "Ours / theirs", "Steps per second", "Compilation (s)", "Memory (MiB)"),
)
LEARNING_HEAD = ("JAX", "Library", "Steps", "Median", "Lowest", "Highest", "Seeds")
LEARNING = "learning-"


def write(file: Path, titles: dict[str, str], libraries: Iterable[str]) -> Path:
    """Writes the page and its plots next to the file of results.

    Args:
        file: The file of results.
        titles: Title of each part, in the order of the page.
        libraries: Libraries, in the order of the tables.

    Returns:
        The file of the page.
    """
    kept: dict[str, dict[str, Runs]] = reports.kept(file)
    versions = sorted(kept, key=Version, reverse=True)
    everything = [run for jax in versions for run in results(kept[jax].values())]
    lines = ["# PPO compared with other libraries", INTRODUCTION, "## Speed", ABOUT_SPEED]
    for jax in versions:
        parts = {name: kept[jax][name] for name in titles if name in kept[jax]}
        rows = [
            row
            for name, runs in parts.items()
            if not name.startswith(LEARNING)
            for row in speed_rows(titles[name], runs, libraries)
        ]
        if rows:
            lines += [f"### JAX {jax}", table(SPEED_HEAD, rows)]
    lines += ["## Learning", ABOUT_LEARNING]
    for name in (name for name in titles if name.startswith(LEARNING)):
        runs = {
            (jax, library): found
            for jax in versions
            for library in libraries
            for found in results([{library: kept[jax].get(name, {}).get(library, [])}])
        }
        if runs:
            picture = f"ppo_{name.removeprefix(LEARNING)}.png"
            plot(titles[name], runs, file.with_name(picture))
            lines += [f"### {titles[name]}", table(LEARNING_HEAD, learning_rows(runs))]
            lines += [f"![Learning curves]({picture})"]
    lines += ["## Versions", origin(everything), reports.version_table(columns(kept, versions))]
    lines += reports.failures({"A run": everything})
    page = file.with_suffix(".md")
    page.write_text(reports.opened("\n\n".join(lines), reports.speedups, page) + "\n")
    return page


def results(parts: Iterable[Runs]) -> Iterator[Result]:
    """Yields all results."""
    for runs in parts:
        for rounds in runs.values():
            for found in rounds:
                yield from found.values()


def columns(kept: dict[str, dict[str, Runs]], versions: Iterable[str]) -> dict[str, list[Result]]:
    """The results of each library and version of JAX."""
    found: dict[str, list[Result]] = {}
    for jax in versions:
        for run in results(kept[jax].values()):
            if "library" in run:
                found.setdefault(f"{run['library']}, JAX {jax}", []).append(run)
    return found


def origin(runs: list[Result]) -> str:
    """When and on which machine the results were measured, and how to reproduce them."""
    dates = {run["date"] for run in runs}
    processors = ", ".join(sorted({run["processor"] for run in runs}))
    return (
        f"Measured {reports.period(dates)} ({processors}, {reports.n_cores()} cores). To reproduce: "
        '`make bench ARGS="--output docs/benchmarks"`.'
    )


def speed_rows(title: str, runs: Runs, libraries: Iterable[str]) -> Iterator[list[Any]]:
    """Yields a row for each other library, with our numbers and theirs."""
    for library in (library for library in libraries if library in runs and library != OURS):
        pairs = [(found[OURS], found[library]) for found in runs[library]]
        ours, theirs = zip(*pairs, strict=True)
        yield [
            title,
            reports.label(theirs, library),
            reports.ratio(pairs, "steps_per_second"),
            *(
                " / ".join(reports.median(group, key, form) for group in (ours, theirs))
                for key, form in QUANTITIES.items()
            ),
        ]


def learning_rows(runs: dict[tuple[str, str], Result]) -> Iterator[list[Any]]:
    """Yields a row for each library and version of JAX, with its returns after training."""
    for (jax, library), run in runs.items():
        if "failure" in run:
            yield [jax, library, "failed", *["-"] * 4]
            continue
        finals = [curve[-1] for curve in run["curves"]]
        numbers = (f"{f(finals):,.1f}" for f in (statistics.median, min, max))
        steps = f"{run['steps'][-1]:,}"
        yield [jax, reports.label([run], library), steps, *numbers, len(finals)]


def plot(title: str, runs: dict[tuple[str, str], Result], path: Path) -> None:
    """Plots the median over seeds of each library, and each seed as a thin line."""
    shown = {
        f"{reports.label([run], library)}, JAX {jax}": (run["steps"], run["curves"])
        for (jax, library), run in runs.items()
        if "failure" not in run
    }
    reports.draw(path, title, shown, centre=np.median)


QUANTITIES = {"steps_per_second": ",.0f", "compile_seconds": ".1f", "memory_mib": ",.0f"}

INTRODUCTION = """\
How does PPO compare with rejax, Stable-Baselines3 and sbx in speed and returns? `benchmarks/README.md`
lists the settings that all libraries share, and the differences that remain."""

ABOUT_SPEED = """\
The libraries take turns to train, each while the others wait. The ratio is the median over all turns,
with its range in parentheses. The other columns show ours / theirs: environment steps per second
(excluding compilation and evaluation), the compilation time (the first call minus a later one of the
same length), and the peak memory of the process."""

ABOUT_LEARNING = """\
The tables show mean returns of greedy episodes after runs of equal length: the median, lowest and
highest of several seeds, without selection. The curves show the median over seeds, and each seed as
a thin line."""
