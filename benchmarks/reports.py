"""Building blocks of the reports: tables, plots, and results saved between runs."""

import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import EngFormatter
from peers import Result, Round

# Where and when.


def machine() -> str:
    """The date and the machine."""
    cores = "1 core" if n_cores() == 1 else f"{n_cores()} cores"
    return f"on {datetime.date.today()} ({processor()}, {cores}, {platform.system()})"


def measured_by(command: str) -> str:
    """The paragraph that says when a page was measured, and how to reproduce it."""
    return f"Measured {machine()}. To reproduce: `{command}`."


def processor() -> str:
    """The CPU model."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def n_cores() -> int:
    """The number of logical cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions(*names: str) -> str:
    """Names and versions of the given packages, without those not installed."""
    installed = [name for name in names if importlib.util.find_spec(name) is not None]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in installed)


# Tables.


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def measured(results: Iterable[Result], key: str) -> Iterator[Any]:
    """Yields the value of `key` in each run that did not fail."""
    return (result[key] for result in results if "failure" not in result)


def label(results: Iterable[Result], otherwise: str) -> str:
    """A library and the version that its runs report."""
    name = next(measured(results, "library"), otherwise)
    return f"{name} {next(measured(results, 'versions'), {}).get(name, '')}".strip()


def median(results: Iterable[Result], key: str, form: str) -> str:
    """The median of a quantity."""
    values = list(measured(results, key))
    return format(statistics.median(values), form) if values else "failed"


def ratio(pairs: Iterable[tuple[Result, Result]], key: str) -> str:
    """The median ratio, ours divided by theirs, and its range."""
    ratios = ratios_of(pairs, key)
    if not ratios:
        return "-"
    median = f"**{statistics.median(ratios):.2f}**"
    return median if len(ratios) == 1 else f"{median} ({min(ratios):.2f} to {max(ratios):.2f})"


def ratios_of(pairs: Iterable[tuple[Result, Result]], key: str) -> list[float]:
    """The ratio of each pair, ours divided by theirs; of speeds, the ratio of each turn."""
    complete = [pair for pair in pairs if all(key in result for result in pair)]
    values = [(ours[key], theirs[key]) for ours, theirs in complete]
    if key == "steps_per_second" and all("turns" in result for pair in complete for result in pair):
        turns = ((ours["turns"], theirs["turns"]) for ours, theirs in complete)
        values = [pair for of_both in turns for pair in zip(*of_both, strict=True)]
    return [ours / theirs for ours, theirs in values]


def comparison(title: Any, rounds: list[Round], quantities: dict[str, str]) -> Iterator[list[Any]]:
    """Yields table rows: the medians of each library, and the ratios if there are two.

    Args:
        title: The first cell of each row: what was timed.
        rounds: Results of all rounds.
        quantities: Format of each quantity, by its key in a result.
    """
    for library in rounds[0]:
        results = [found[library] for found in rounds]
        numbers = (median(results, *quantity) for quantity in quantities.items())
        yield [title, label(results, library), *numbers]
    if len(rounds[0]) == 2:
        pairs = [tuple(found.values()) for found in rounds]
        yield [title, "ratio", *(ratio(pairs, key) for key in quantities)]


def columns(rounds: Iterable[Round]) -> dict[str, list[Result]]:
    """The results of all rounds, grouped by library name and version."""
    groups: dict[str, list[Result]] = {}
    for found in rounds:
        for library, result in found.items():
            groups.setdefault(library, []).append(result)
    return {label(results, library): results for library, results in groups.items()}


def version_table(columns: dict[str, list[Result]]) -> str:
    """A table of the package versions that the runs report, with a column per library."""
    versions = [next(measured(results, "versions"), {}) for results in columns.values()]
    libraries = {
        library for results in columns.values() for library in measured(results, "library")
    }
    names = dict.fromkeys(name for column in versions for name in column if name not in libraries)
    rows = ([name, *(column.get(name, "-") for column in versions)] for name in names)
    return table(["Version", *columns], rows)


def failures(columns: dict[str, list[Result]]) -> list[str]:
    """Paragraphs that list failed runs, if there are any."""
    lines = [
        f"- {name}: {result['failure']}"
        for name, results in columns.items()
        for result in results
        if "failure" in result
    ]
    if not lines:
        return []
    return ["These runs failed and are not included in the numbers above:", "\n".join(lines)]


def write(page: str, path: Path | None) -> None:
    """Prints a page, and writes it to `path` if given, with an opening if it has speed ratios."""
    print(page)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_BEHIND_GUIDES}{with_ratios(page, path)}\n")


_BEHIND_GUIDES = """---
search:
  boost: 0.5
---

"""
"""Front matter that ranks a page below the guides in the site's search."""


# Openings: a few large numbers and a chart.


class Ratio(NamedTuple):
    """Our speed divided by another library's.

    Attributes:
        title: What was timed.
        peer: The other library.
        median: The median ratio.
        low: The lowest ratio.
        high: The highest ratio.
    """

    title: str
    peer: str
    median: float
    low: float
    high: float


_SPEEDS = {
    "Ours / theirs",
    "Steps per second",
    "Environment steps per second",
    "Updates per second",
}
_RATIO = re.compile(r"\*\*([\d.]+)\*\*(?: \(([\d.]+) to ([\d.]+)\))?")


def speed_ratios(page: str) -> list[Ratio]:
    """The speed ratios in the tables of a page; of repeated titles, only the first."""
    found: dict[tuple[str, str], Ratio] = {}
    head: list[str] = []
    above: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        head = head or cells if cells else []
        for name, cell in zip(head, cells, strict=False):
            numbers = _RATIO.fullmatch(cell)
            if numbers and name in _SPEEDS:
                peer = (above if cells[1] == "ratio" else cells)[1].partition(" ")[0]
                median, low, high = (float(x or numbers[1]) for x in numbers.groups())
                title = f"{head[0]}: {cells[0]}" if cells[0].isdigit() else cells[0]
                found.setdefault((title, peer), Ratio(title, peer, median, low, high))
        above = cells
    return list(found.values())


def with_ratios(page: str, path: Path) -> str:
    """Adds an opening with the speed ratios of the page, if it has any."""
    ratios = speed_ratios(page)
    if not ratios:
        return page
    draw_ratios(path.with_suffix(".svg"), ratios)
    numbers = [(times(x), f"as fast as {x.peer}: {x.title}") for x in ratios[:5]]
    return opened(page, numbers, path.with_suffix(".svg").name, TIMES_AS_FAST)


def times(ratio: Ratio) -> str:
    """The median ratio as text, such as `1.5x` with a multiplication sign."""
    return f"{ratio.median:.3g}\N{MULTIPLICATION SIGN}"


def opened(page: str, numbers: Iterable[tuple[str, str]], picture: str, about: str) -> str:
    """Adds an opening to a page: numbers, each with its meaning, and a chart."""
    title, _, rest = page.partition("\n\n")
    return f"{title}\n\n{in_large(numbers)}\n\n![{about}]({picture})\n\n{rest}"


def in_large(numbers: Iterable[tuple[str, str]]) -> str:
    """Markdown of numbers with their meanings, which the site shows in large type."""
    lines = "\n".join(f"- **{number}** {meaning}" for number, meaning in numbers)
    return f'<div class="numbers" markdown>\n\n{lines}\n\n</div>'


# Plots.

STYLE = Path(__file__).parents[1] / "docs" / "figures.mplstyle"
TIMES_AS_FAST = "Speedup over other libraries (log scale)"


def draw_ratios(path: Path, ratios: list[Ratio]) -> None:
    """Draws a bar for each ratio with its range, and one colour per library."""
    bars = [(x.title, f"{times(x)} {x.peer}", x.median, (x.low, x.high)) for x in ratios]
    peers = list(dict.fromkeys(x.peer for x in ratios))
    draw_bars(path, TIMES_AS_FAST, bars, [f"C{peers.index(x.peer)}" for x in ratios])


def draw_bars(
    path: Path,
    title: str,
    bars: list[tuple[str, str, float, tuple[float, float]]],
    colours: list[str] | None = None,
) -> None:
    """Draws a bar chart with a logarithmic axis; bars start at 1, below their titles.

    Args:
        path: File to write.
        title: Title of the chart.
        bars: Title, label, number and range of each bar.
        colours: Colour of each bar.
    """
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(figsize=(5.2, 0.6 + 0.5 * len(bars)))
        for row, (name, label, number, ends) in enumerate(bars):
            colour = colours[row] if colours else "C0"
            axes.barh(row, number - 1, left=1, height=0.4, color=colour)
            axes.plot(ends, (row, row), color="black", lw=1)
            axes.plot((1, 1), (row - 0.25, row + 0.25), color="black", lw=1)
            axes.text(0, row - 0.3, name, transform=axes.get_yaxis_transform(), fontsize="small")
            end = max(number, *ends, 1)
            axes.text(end * 1.02, row, label, va="center", fontsize="small", weight="bold")
        largest = max(1.1, *(max(number, *ends) for _, _, number, ends in bars))
        least = min(1, *(min(number, *ends) for _, _, number, ends in bars))
        room = (largest / least) ** 0.8  # for the labels
        axes.set(xscale="log", xlim=(least * 0.98, largest * room), ylim=(len(bars) - 0.5, -0.9))
        axes.set_title(title, loc="left")
        axes.axis("off")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def draw(
    path: Path,
    title: str,
    curves: dict[str, tuple[Any, Any]],
    centre: Callable[..., Any] = np.mean,
    x_label: str = "environment steps",
    levels: dict[str, float] | None = None,
) -> None:
    """Plots learning curves: the mean or median over seeds, and each seed as a thin line.

    Args:
        path: File to write.
        title: Title of the plot.
        curves: For each name, steps shaped `(points,)` and returns shaped `(seeds, points)`.
        centre: `np.mean` or `np.median`.
        x_label: Label of the x-axis.
        levels: Horizontal lines, by name.
    """
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 4.2))
        for name, (steps, returns) in curves.items():
            (line,) = axes.plot(steps, centre(returns, axis=0), lw=2, label=name)
            axes.plot(steps, np.transpose(returns), color=line.get_color(), lw=0.7, alpha=0.4)
        for (name, level), style in zip((levels or {}).items(), ("--", ":"), strict=False):
            axes.axhline(level, color="grey", ls=style, lw=1, label=name)
        axes.set(xlabel=x_label, ylabel="mean return", title=title)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.3)
        figure.legend(loc="outside lower center", ncols=3)
        figure.savefig(path)
        plt.close(figure)


# Results saved in a file, so that a page can combine several runs of a benchmark.


def kept(path: Path) -> dict[str, Any]:
    """The saved results, nested by the names given to `keep`."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path: Path, *names: str, result: Any) -> None:
    """Adds or replaces one result in the file, which other runs may have changed since."""
    found = place = kept(path)
    for name in names[:-1]:
        place = place.setdefault(name, {})
    place[names[-1]] = result
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found) + "\n")
