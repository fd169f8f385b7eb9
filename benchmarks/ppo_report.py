"""The page about PPO and its peers: tables, and pictures of learning curves."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import peers
import store
from matplotlib import pyplot as plt
from peers import Result, measured, table
from ppo_peers import LIBRARIES, OURS

Runs = dict[str, list[Result]]

SPEED_HEAD = ("Library", "Steps a second", "Ours / theirs", "Compilation (s)", "Memory (MiB)")
LEARNING_HEAD = ("Library", "Steps", "Median", "Lowest", "Highest", "Seeds")
LEARNING = "learning-"


def write(file: Path, titles: dict[str, str]) -> Path:
    """Writes the page and its pictures beside the file of results.

    Args:
        file: The results.
        titles: What the parts are called, by their names, in the order of the page.

    Returns:
        The file of the page.
    """
    kept = store.kept(file)
    parts = {name: in_order(kept[name]) for name in titles if name in kept}
    for name, runs in parts.items():
        if name.startswith(LEARNING):
            plot(titles[name], runs, file.with_name(picture(name)))
    page = file.with_suffix(".md")
    page.write_text(report(parts, titles) + "\n")
    return page


def in_order(runs: Runs) -> Runs:
    """The runs in the order of the libraries."""
    return {library: runs[library] for library in LIBRARIES if library in runs}


def report(parts: dict[str, Runs], titles: dict[str, str]) -> str:
    """The page."""
    results = [run for runs in parts.values() for group in runs.values() for run in group]
    lines = ["# PPO beside its peers", introduction(results)]
    speed = [name for name in parts if not name.startswith(LEARNING)]
    if speed:
        lines += ["## Speed", ABOUT_SPEED]
    for name in speed:
        lines += [f"### {titles[name]}", table(SPEED_HEAD, speed_rows(parts[name]))]
    learning = [name for name in parts if name.startswith(LEARNING)]
    if learning:
        lines += ["## Learning", ABOUT_LEARNING]
    for name in learning:
        lines += [f"### {titles[name]}", table(LEARNING_HEAD, learning_rows(parts[name]))]
        lines += [f"![Learning curves]({picture(name)})"]
    columns = columns_of(parts)
    failed = {
        f"{titles[name]}, {library}": group
        for name, runs in parts.items()
        for library, group in runs.items()
    }
    return "\n\n".join(
        [*lines, "## Versions", peers.version_table(columns), *peers.failures(failed)]
    )


def introduction(results: list[Result]) -> str:
    """When and on what it was measured."""
    dates = sorted({run["date"] for run in results})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    processors = ", ".join(sorted({run["processor"] for run in results}))
    return (
        f"Measured by `benchmarks/ppo_speed.py` on {days}: {processors}, {peers.n_cores()} cores. "
        "What every library is given, and what remains different, is in `benchmarks/README.md`."
    )


def columns_of(parts: dict[str, Runs]) -> Runs:
    """All runs of each library, by its name and version."""
    groups: Runs = {}
    for runs in parts.values():
        for library, group in runs.items():
            groups.setdefault(library, []).extend(group)
    return {label(library, group): group for library, group in in_order(groups).items()}


def label(library: str, runs: list[Result]) -> str:
    """The library and its version, as its own runs say."""
    return peers.label(next(measured(runs, "library"), library), runs)


def speed_rows(runs: Runs) -> Iterator[list[Any]]:
    """A row for each library: medians, and the ratio to our runs of the same rounds."""
    for library, group in runs.items():
        yield [
            label(library, group),
            peers.median(group, "steps_per_second", ",.0f"),
            ratio(runs.get(OURS, []), group) if library != OURS else "",
            peers.median(group, "compile_seconds", ".1f"),
            peers.median(group, "memory_mib", ",.0f"),
        ]


def ratio(ours: list[Result], theirs: list[Result]) -> str:
    """Median and range of the ratios of steps a second in the rounds that both took part in."""
    by_round = {run["round"]: run for run in ours}
    pairs = [(by_round[run["round"]], run) for run in theirs if run["round"] in by_round]
    return peers.ratio(pairs, "steps_per_second")


def learning_rows(runs: Runs) -> Iterator[list[Any]]:
    """A row for each library: its returns at the end."""
    for library, group in runs.items():
        curves = [curve for run_curves in measured(group, "curves") for curve in run_curves]
        finals = [curve[-1] for curve in curves]
        summaries = (statistics.median, min, max)
        yield [
            label(library, group),
            *(f"{steps[-1]:,}" for steps in measured(group, "steps")),
            *(f"{f(finals):,.1f}" for f in summaries if finals),
            *([len(finals)] if finals else ["failed", "-", "-", "-", "-"]),
        ]


def picture(name: str) -> str:
    """The file of a picture."""
    return f"ppo_{name.removeprefix(LEARNING)}.png"


def plot(title: str, runs: Runs, path: Path) -> None:
    """Draws the median of the seeds of each library, and each seed thinly."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for colour, library in enumerate(LIBRARIES):
        for run in runs.get(library, []):
            if "failure" in run:
                continue
            medians = [statistics.median(returns) for returns in zip(*run["curves"], strict=True)]
            style = {"color": f"C{colour}"}
            axes.plot(run["steps"], medians, lw=2, label=label(library, [run]), **style)
            for curve in run["curves"]:
                axes.plot(run["steps"], curve, lw=0.7, alpha=0.4, **style)
    axes.set(xlabel="environment steps", ylabel="mean return", title=title)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


ABOUT_SPEED = """\
Each number is the median over fresh processes, in which the libraries took turns. Environment steps a
second are those of a training without evaluation, after compilation. A ratio is of ours and theirs in
the same round: the median, and the range where there are several. Compilation is the first training
call less one of the same length; memory is the peak of the process."""

ABOUT_LEARNING = """\
Mean returns of greedy episodes after trainings of equal length, each with several seeds, none of them
chosen. The curves are the median of the seeds, and each seed thinly."""
