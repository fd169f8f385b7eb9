"""What the benchmarks share: other libraries, fresh processes, and tables of what these measure."""

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).parent / "workers"
VENVS = Path(__file__).parent / ".venvs"
SHARED_PACKAGES = ("jax", "jaxlib", "flax", "optax")

Result = dict[str, Any]
Pair = tuple[Result, Result]


# Running.


def make_environment(
    name: str, packages: Iterable[str], shares_jax: bool = True, alone: Iterable[str] = ()
) -> Path:
    """Makes the virtual environment of another library, or completes the one that is there.

    It comes from PyPI.

    Args:
        name: Name of its folder.
        packages: What pip is to install.
        shares_jax: Whether it gets the versions of JAX, Flax and Optax that are installed here.
        alone: What pip is to install without its dependencies.

    Returns:
        Its Python.
    """
    folder = VENVS / name
    python = folder / "bin" / "python"
    shared = [f"{package}=={version(package)}" for package in SHARED_PACKAGES * shares_jax]
    print(f"Setting up {folder}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    (VENVS / ".gitignore").write_text("*\n")
    install = [python, "-m", "pip", "install", "--quiet"]
    commands = [[sys.executable, "-m", "venv", folder], [*install, *packages, *shared]]
    commands += [[*install, "--no-deps", package] for package in alone]
    for command in commands:
        subprocess.run(command, check=True, timeout=1800)
    return python


def run_worker(command: Sequence[str], timeout: float, **variables: str) -> Result:
    """Runs a worker in a fresh process, and in a folder of its own, which goes with what it leaves.

    Args:
        command: Its command line.
        timeout: Seconds after which it is ended.
        **variables: Environment variables.

    Returns:
        What it measured, or only `failure`.
    """
    environment = {"JAX_PLATFORMS": "cpu", **os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment |= variables
    with tempfile.TemporaryDirectory() as folder:
        environment["TMPDIR"] = folder
        how = {"capture_output": True, "text": True, "env": environment, "cwd": folder}
        try:
            done = subprocess.run(command, timeout=timeout, **how)
        except subprocess.TimeoutExpired:
            return {"failure": f"timed out after {timeout:g} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return {"failure": f"failed with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


# Reporting.


def machine() -> str:
    """When and on what this runs."""
    return f"on {datetime.date.today()}: {processor()}, {n_cores()} cores, {platform.system()}"


def processor() -> str:
    """Model of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def n_cores() -> int:
    """Number of logical processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def measured(results: Iterable[Result], key: str) -> Iterator[Any]:
    """What the runs that did not fail say of `key`."""
    return (result[key] for result in results if "failure" not in result)


def label(library: str, results: Iterable[Result]) -> str:
    """The library and its version, as its own runs say."""
    return f"{library} {next(measured(results, 'versions'), {}).get(library, '')}".strip()


def median(results: Iterable[Result], key: str, form: str) -> str:
    """The median of a quantity."""
    values = list(measured(results, key))
    return format(statistics.median(values), form) if values else "failed"


def ratio(pairs: Iterable[Pair], key: str) -> str:
    """The median of a quantity of ours, divided by the peer's of the same pair, and its range."""
    complete = [pair for pair in pairs if not any("failure" in result for result in pair)]
    ratios = [ours[key] / peers[key] for ours, peers in complete]
    if not ratios:
        return "-"
    median = f"**{statistics.median(ratios):.2f}**"
    return median if len(ratios) == 1 else f"{median} ({min(ratios):.2f} to {max(ratios):.2f})"


def comparison(
    title: Any, names: Sequence[str], pairs: Sequence[Pair], quantities: dict[str, str]
) -> Iterator[list[Any]]:
    """Rows of a table: the medians of both libraries, and the ratios.

    Args:
        title: What was timed.
        names: Names of the libraries.
        pairs: Successive runs of both.
        quantities: Format of each quantity, by its key in a result.
    """
    for name, results in zip(names, zip(*pairs, strict=True), strict=True):
        yield [title, name, *(median(results, *quantity) for quantity in quantities.items())]
    yield [title, "ratio", *(ratio(pairs, key) for key in quantities)]


def version_table(columns: dict[str, Iterable[Result]]) -> str:
    """A table of the versions that runs report besides their library's, by the name of a column."""
    versions = [next(measured(results, "versions"), {}) for results in columns.values()]
    libraries = {
        library for results in columns.values() for library in measured(results, "library")
    }
    names = dict.fromkeys(name for column in versions for name in column if name not in libraries)
    rows = ([name, *(column.get(name, "-") for column in versions)] for name in names)
    return table(["Version", *columns], rows)


def failures(columns: dict[str, Iterable[Result]]) -> list[str]:
    """Paragraphs that list the runs that failed, if any."""
    lines = [
        f"- {name}: {result['failure']}"
        for name, results in columns.items()
        for result in results
        if "failure" in result
    ]
    if not lines:
        return []
    return ["Runs that failed, which are in no number above:", "\n".join(lines)]


def write(page: str, path: Path | None) -> None:
    """Prints a page, and writes it to a file if one is given."""
    print(page)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page + "\n")
