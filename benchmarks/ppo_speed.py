"""Measures the training speed of PPO, in jaxagents and in rejax, at the same work on this machine.

Every run is a fresh process, and the runs of the two libraries alternate. rejax lives in a virtual
environment of its own, which this script makes from PyPI with the same versions of JAX.
"""

import argparse
import datetime
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

WORKERS = Path(__file__).parent / "workers"
PEER_VENV = Path(__file__).parent / ".venvs" / "rejax"
PEER_PACKAGES = ("rejax==0.1.3", "gymnax==0.0.9")
SHARED_PACKAGES = ("jax", "jaxlib", "flax", "optax")
LIBRARIES = ("jaxagents", "rejax")
N_ENVS_OF_SEEDS = 4
VERSIONS = ("jax", "jaxlib", "flax", "optax", "gymnax", "backend")
QUANTITIES = {  # how each is called in the report, in a worker's result, and its format
    "Environment steps a second": ("steps_per_second", ",.0f"),
    "Compilation (s)": ("compile_seconds", ".1f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}

Result = dict[str, Any]
Pair = tuple[Result, Result]


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
    peer = args.peer_python or make_peer_environment()
    commands = (
        [sys.executable, str(WORKERS / "jaxagents_ppo.py")],
        [str(peer), str(WORKERS / "rejax_ppo.py")],
    )
    works = [Work(n_envs) for n_envs in args.envs]
    works += [Work(N_ENVS_OF_SEEDS, n_seeds) for n_seeds in args.seeds]
    pairs: dict[Work, list[Pair]] = {work: [] for work in works}
    for seed, (work, _) in enumerate(itertools.product(works, range(args.repeats))):
        options = [f"--envs={work.n_envs}", f"--parallel-seeds={work.n_seeds}"]
        options += [f"--seconds={args.seconds}", f"--seed={seed}"]
        pair = []
        for library, command in zip(LIBRARIES, commands, strict=True):
            result = run_worker([*command, *options], args.timeout)
            summary = result.get("failure") or f"{result['steps_per_second']:,.0f} steps/s"
            print(f"{library}, {work} environments, seed {seed}: {summary}", file=sys.stderr)
            pair.append(result)
        pairs[work].append((pair[0], pair[1]))

    page = report(pairs, args)
    print(page)
    if args.markdown:
        args.markdown.parent.mkdir(parents=True, exist_ok=True)
        args.markdown.write_text(page + "\n")
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


def make_peer_environment() -> Path:
    """Makes the virtual environment of rejax, or completes the one that is there."""
    python = PEER_VENV / "bin" / "python"
    shared = [f"{name}=={version(name)}" for name in SHARED_PACKAGES]
    print(f"Setting up {PEER_VENV}", file=sys.stderr)
    PEER_VENV.mkdir(parents=True, exist_ok=True)
    (PEER_VENV.parent / ".gitignore").write_text("*\n")
    for command in (
        [sys.executable, "-m", "venv", PEER_VENV],
        [python, "-m", "pip", "install", "--quiet", *PEER_PACKAGES, *shared],
    ):
        subprocess.run(command, check=True, timeout=1800)
    return python


def run_worker(command: list[str], timeout: float) -> Result:
    """Runs a worker and returns what it measured, or only `failure`."""
    environment = {"JAX_PLATFORMS": "cpu", **os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"timed out after {timeout:g} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return {"failure": f"failed with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def report(pairs: dict[Work, list[Pair]], args: argparse.Namespace) -> str:
    """Writes the results, pairs of runs by what was timed, as a page of Markdown."""
    columns = list(zip(*itertools.chain(*pairs.values()), strict=True))
    names = [label(library, column) for library, column in zip(LIBRARIES, columns, strict=True)]
    speed = []
    for work, group in pairs.items():
        for name, column in zip(names, zip(*group, strict=True), strict=True):
            speed.append([work, name, *(median(column, *q) for q in QUANTITIES.values())])
        speed.append([work, "ratio", *(ratio(group, key) for key, _ in QUANTITIES.values())])
    learning = [
        [name, median(column, "learning_steps", ",.0f"), *returns(column)]
        for name, column in zip(names, columns, strict=True)
    ]
    versions = [next(measured(column, "versions"), {}) for column in columns]
    failures = [
        f"- {library}: {result['failure']}"
        for library, column in zip(LIBRARIES, columns, strict=True)
        for result in column
        if "failure" in result
    ]
    parts = [
        "# Training speed",
        f"PPO on CartPole-v1, measured by `benchmarks/ppo_speed.py` on {datetime.date.today()}: "
        f"{processor()}, {n_cores()} cores, {platform.system()}.",
        f"Each number is the median over fresh processes ({args.repeats} for each library and "
        f"number of environments, with timed calls of about {args.seconds:g} s). A ratio is "
        f"{' / '.join(LIBRARIES)}: median and range over the pairs of successive processes.",
        table(["Environments", "Library", *QUANTITIES], speed),
        "Mean return of 128 greedy episodes after the same training in 64 environments:",
        table(["Library", "Steps", "Median", "Lowest", "Highest", "Seeds"], learning),
        table(["Version", *names], ([n, *(v.get(n, "-") for v in versions)] for n in VERSIONS)),
    ]
    if failures:
        parts += ["Runs that failed, which are in no number above:", "\n".join(failures)]
    return "\n\n".join(parts)


def table(head: list[str], rows: Iterable[list[Any]]) -> str:
    """A Markdown table."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def measured(column: Iterable[Result], key: str) -> Iterator[Any]:
    """What the runs that did not fail say of `key`."""
    return (result[key] for result in column if "failure" not in result)


def label(library: str, column: Iterable[Result]) -> str:
    """The library and its version, as its own runs say."""
    return f"{library} {next(measured(column, 'versions'), {}).get(library, '')}".strip()


def median(column: Iterable[Result], key: str, form: str) -> str:
    """The median of a quantity."""
    values = list(measured(column, key))
    return format(statistics.median(values), form) if values else "failed"


def ratio(pairs: Iterable[Pair], key: str) -> str:
    """The median and range of a quantity of ours, divided by the peer's of the same pair."""
    complete = [pair for pair in pairs if not any("failure" in result for result in pair)]
    ratios = [ours[key] / peers[key] for ours, peers in complete]
    if not ratios:
        return "-"
    return f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"


def returns(column: Iterable[Result]) -> list[str]:
    """Median, lowest, highest and number of the mean returns."""
    values = list(measured(column, "mean_return"))
    numbers = [f"{f(values):.1f}" if values else "-" for f in (statistics.median, min, max)]
    return [*numbers, str(len(values))]


def processor() -> str:
    """Model of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def n_cores() -> int:
    """Number of logical processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    main()
