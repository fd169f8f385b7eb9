"""Building blocks of the reports: tables, plots, and results saved between runs."""

import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator
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


def period(dates: Collection[str]) -> str:
    """The days of measurements in words, from their ISO dates."""
    first, last = min(dates), max(dates)
    return f"on {first}" if first == last else f"from {first} to {last}"


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


def write(page: str, path: Path | None, opening: "Opening | None" = None) -> None:
    """Prints a page, and writes it to `path` if given.

    Args:
        page: The page, in Markdown.
        path: File to write.
        opening: How the file opens; by default, with the page's speed ratios.
    """
    print(page)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_BEHIND_GUIDES}{opened(page, opening or speedups, path)}\n")


_BEHIND_GUIDES = """---
search:
  boost: 0.5
---

"""
"""Front matter that ranks a page below the guides in the site's search."""


# Openings: a few large numbers and a chart, both from the tables of the page.

Opening = Callable[[str, Path], str]
"""Draws the chart of a page, given the page and the file of the chart, and returns the Markdown of the
opening: empty if the page has no numbers."""
TIMES = "{:.3g}\N{MULTIPLICATION SIGN}"


class Table(NamedTuple):
    """The cells of a table.

    Attributes:
        heading: The heading above the table.
        head: Names of the columns.
        rows: The rows.
    """

    heading: str
    head: list[str]
    rows: list[list[str]]


class Bar(NamedTuple):
    """A bar of a chart.

    Attributes:
        title: What was measured. Bars with one title are drawn side by side.
        kind: What differs between bars with one title, such as the library. Each kind has a colour.
        numbers: The length of the bar and, if known, the ends of a range.
    """

    title: str
    kind: str
    numbers: list[float]


def opened(page: str, opening: Opening, path: Path) -> str:
    """The page with its opening computed from its tables, in place of an older one.

    Args:
        page: The page, in Markdown.
        opening: Draws the chart, and makes the Markdown.
        path: File of the page; its chart has the suffix `.svg`.
    """
    page = _OPENING.sub("", page, count=1)
    text = opening(page, path.with_suffix(".svg"))
    return _TITLE.sub(lambda title: f"{title[0]}{text}\n\n", page, count=1) if text else page


_TITLE = re.compile(r"^# .*\n\n", re.MULTILINE)
_OPENING = re.compile(
    r'<div class="numbers" markdown>\n.*?</div>\n\n(?:!\[[^\]]*\]\([^)]*\)\n\n)*', re.DOTALL
)
_HEADING_OR_TABLE = re.compile(r"^#+ (.*)|((?:^\|.*\n?)+)", re.MULTILINE)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def tables(page: str) -> list[Table]:
    """The tables of a page."""
    found, heading = [], ""
    for part in _HEADING_OR_TABLE.finditer(page):
        if part[1] is not None:
            heading = part[1]
            continue
        lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in part[2].splitlines())
        head, _, *rows = lines
        found.append(Table(heading, head, rows))
    return found


def numbers_in(cell: str) -> list[float]:
    """The numbers in a cell of a table."""
    return [float(number.replace(",", "")) for number in _NUMBER.findall(cell)]


def in_words(bars: Iterable[Bar], form: str, meaning: str) -> list[tuple[str, str]]:
    """The numbers of bars as text, each with its meaning, which may name `{title}` and `{kind}`."""
    return [(form.format(x.numbers[0]), meaning.format(title=x.title, kind=x.kind)) for x in bars]


def against_others(bars: Iterable[Bar], form: str, meaning: str) -> list[tuple[str, str]]:
    """Like `in_words`, but of bars with one title only the first; the others are in parentheses."""
    groups: dict[str, list[Bar]] = {}
    for bar in bars:
        groups.setdefault(bar.title, []).append(bar)
    found = []
    for first, *others in groups.values():
        ((number, about),) = in_words([first], form, meaning)
        rest = "; ".join(f"{bar.kind}: {form.format(bar.numbers[0])}" for bar in others)
        found.append((number, f"{about} ({rest})" if rest else about))
    return found


def in_large(numbers: Iterable[tuple[str, str]], pictures: dict[str, str]) -> str:
    """The Markdown of an opening.

    Args:
        numbers: Numbers as text, each with its meaning. The site shows them in large type.
        pictures: Files of pictures, by what they show.
    """
    lines = "\n".join(f"- **{number}** {meaning}" for number, meaning in numbers)
    images = "".join(f"\n\n![{about}]({file})" for about, file in pictures.items())
    return f'<div class="numbers" markdown>\n\n{lines}\n\n</div>{images}' if lines else ""


_SPEEDS = {
    "Ours / theirs",
    "Steps per second",
    "Environment steps per second",
    "Updates per second",
}
TIMES_AS_FAST = "Speedup over other libraries"


def speed_ratios(page: str) -> list[Bar]:
    """The speed ratios in the tables of a page; of repeated titles, only the first."""
    found: dict[tuple[str, str], Bar] = {}
    for _, head, rows in tables(page):
        for above, row in zip([head, *rows], rows, strict=False):
            for name, cell in zip(head, row, strict=True):
                if name in _SPEEDS and cell.startswith("**"):
                    peer = (above if row[1] == "ratio" else row)[1].partition(" ")[0]
                    found.setdefault((row[0], peer), Bar(row[0], peer, numbers_in(cell)))
    return list(found.values())


def speedups(page: str, chart: Path) -> str:
    """An opening with the speed ratios of the page."""
    bars = speed_ratios(page)
    pictures = draw_bars(chart, TIMES_AS_FAST, bars, TIMES)
    return in_large(in_words(bars[:5], TIMES, "as fast as {kind}: {title}"), pictures)


# Plots.

STYLE = Path(__file__).parents[1] / "docs" / "figures.mplstyle"


def draw_bars(
    path: Path, about: str, bars: list[Bar], form: str, *, log: bool = True
) -> dict[str, str]:
    """Draws a bar chart, if there are bars.

    Args:
        path: File to write.
        about: Title of the chart.
        bars: The bars.
        form: Format of their numbers.
        log: Whether the axis is logarithmic, with bars that start at 1; else they start at 0. The
            title says so.

    Returns:
        The name of the file by the title, for `in_large`.
    """
    if not bars:
        return {}
    title = f"{about} (log scale)" if log else about
    titles = list(dict.fromkeys(bar.title for bar in bars))
    kinds = list(dict.fromkeys(bar.kind for bar in bars))
    start, row, last = int(log), 0.0, None
    with plt.style.context(STYLE):
        figure, axes = plt.subplots()
        for bar in sorted(bars, key=lambda bar: titles.index(bar.title)):
            row += 0.5 if bar.title == last else 1.0
            if bar.title != last:
                place = {"transform": axes.get_yaxis_transform(), "fontsize": "small"}
                axes.text(0, row - 0.3, bar.title, **place)
            length, last, ends = bar.numbers[0] - start, bar.title, (start, *bar.numbers)
            axes.barh(row, length, left=start, height=0.4, color=f"C{kinds.index(bar.kind)}")
            axes.plot((start, start), (row - 0.25, row + 0.25), color="black", lw=1)
            if len(bar.numbers) > 1:
                axes.plot(bar.numbers[1:], (row, row), color="black", lw=1)
            axes.annotate(
                f"{form.format(bar.numbers[0])} {bar.kind}",
                (max(ends), row),
                (4, 0),
                textcoords="offset points",
                fontsize="small",
                va="center",
                weight="bold",
            )
        numbers = [number for bar in bars for number in bar.numbers]
        least, largest = min(start, *numbers), max(*numbers, 1.1)
        room = (largest / least) ** 0.8 if log else 1.8  # for the labels
        axes.set(xlim=(least * 0.98, largest * room), ylim=(row + 0.5, 0.3))
        axes.set_xscale("log" if log else "linear")
        axes.set_title(title, loc="left", fontsize="medium")
        axes.axis("off")
        figure.set_size_inches(5.2, 0.45 + 0.5 * row)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
    return {title: path.name}


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
        for columns in (3, 2, 1):  # as many as fit
            legend = figure.legend(loc="outside lower center", ncols=columns)
            if columns == 1 or legend.get_window_extent().width < figure.bbox.width:
                break
            legend.remove()
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
