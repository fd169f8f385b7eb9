"""The page about PPO and its peers: tables, and pictures of learning curves."""

import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import reports
from peers import OURS, Result
from reports import measured, table

Runs = dict[str, list[Result]]

SPEED_HEAD = ("Library", "Steps a second", "Ours / theirs", "Compilation (s)", "Memory (MiB)")
LEARNING_HEAD = ("Library", "Steps", "Median", "Lowest", "Highest", "Seeds")
LEARNING = "learning-"


def write(file: Path, titles: dict[str, str], libraries: Iterable[str]) -> Path:
    """Writes the page and its pictures beside the file of results.

    Args:
        file: The results.
        titles: What the parts are called, by their names, in the order of the page.
        libraries: The libraries, in the order of the tables.

    Returns:
        The file of the page.
    """
    kept = reports.kept(file)
    parts = {
        name: {library: kept[name][library] for library in libraries if library in kept[name]}
        for name in titles
        if name in kept
    }
    speed = [name for name in parts if not name.startswith(LEARNING)]
    learning = [name for name in parts if name.startswith(LEARNING)]
    lines = ["# PPO beside its peers", introduction(parts)]
    if speed:
        lines += ["## Speed", ABOUT_SPEED]
    for name in speed:
        lines += [f"### {titles[name]}", table(SPEED_HEAD, speed_rows(parts[name]))]
    if learning:
        lines += ["## Learning", ABOUT_LEARNING]
    for name in learning:
        picture = f"ppo_{name.removeprefix(LEARNING)}.png"
        plot(titles[name], parts[name], file.with_name(picture))
        lines += [f"### {titles[name]}", table(LEARNING_HEAD, learning_rows(parts[name]))]
        lines += [f"![Learning curves]({picture})"]
    columns = {
        library: [run for runs in parts.values() for run in runs.get(library, [])]
        for library in libraries
    }
    columns = {reports.label(runs, library): runs for library, runs in columns.items() if runs}
    lines += ["## Versions", reports.version_table(columns)]
    lines += reports.failures(
        {f"{titles[name]}, {who}": group for name in parts for who, group in parts[name].items()}
    )
    page = file.with_suffix(".md")
    page.write_text("\n\n".join(lines) + "\n")
    return page


def introduction(parts: dict[str, Runs]) -> str:
    """When and on what it was measured."""
    results = [run for runs in parts.values() for group in runs.values() for run in group]
    dates = sorted({run["date"] for run in results})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    processors = ", ".join(sorted({run["processor"] for run in results}))
    return (
        f"Measured by `benchmarks/ppo_speed.py` on {days}: {processors}, {reports.n_cores()} cores. "
        "What every library is given, and what remains different, is in `benchmarks/README.md`."
    )


def speed_rows(runs: Runs) -> Iterator[list[Any]]:
    """A row for each library: medians, and the ratio to our runs of the same rounds."""
    ours = {run["round"]: run for run in runs.get(OURS, [])}
    for library, group in runs.items():
        pairs = [(ours[run["round"]], run) for run in group if run["round"] in ours]
        yield [
            reports.label(group, library),
            reports.median(group, "steps_per_second", ",.0f"),
            reports.ratio(pairs, "steps_per_second") if library != OURS else "",
            reports.median(group, "compile_seconds", ".1f"),
            reports.median(group, "memory_mib", ",.0f"),
        ]


def learning_rows(runs: Runs) -> Iterator[list[Any]]:
    """A row for each library: its returns at the end."""
    for library, (run,) in runs.items():
        if "failure" in run:
            yield [reports.label([run], library), "failed", "-", "-", "-", "-"]
            continue
        finals = [curve[-1] for curve in run["curves"]]
        numbers = (f"{f(finals):,.1f}" for f in (statistics.median, min, max))
        yield [reports.label([run], library), f"{run['steps'][-1]:,}", *numbers, len(finals)]


def plot(title: str, runs: Runs, path: Path) -> None:
    """Draws the median of the seeds of each library, and each seed thinly."""
    curves = {
        reports.label(group, library): (*measured(group, "steps"), *measured(group, "curves"))
        for library, group in runs.items()
    }
    shown = {name: curve for name, curve in curves.items() if curve}
    reports.draw(path, title, shown, centre=np.median)


ABOUT_SPEED = """\
Each number is the median over fresh processes; the libraries took turns. Environment steps a
second are measured in a run without evaluation, after compilation. A ratio compares ours and theirs in
the same round: the median, and the range where there are several. Compilation is the first training
call less one of the same length; memory is the peak of the process."""

ABOUT_LEARNING = """\
Mean returns of greedy episodes after runs of equal length, each with several seeds, none of them
selected. The curves are the median over seeds, and each seed as a thin line."""
