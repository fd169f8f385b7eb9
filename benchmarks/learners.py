"""Shows what the learners learn: SAC beside that of sbx, and offline learners beside their data.

Every run is a process of its own. Results are written as they come: `results.jsonl` after each run,
`report.md` and a picture after each part.
"""

import argparse
import datetime
import json
import os
import queue
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import curves
import peers
from parts import PARTS, Command, Part
from peers import Result
from sac_speed import PEER_PACKAGES

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


class Shown(NamedTuple):
    """A part that is done."""

    part: Part
    picture: Path
    results: list[Result]


def main() -> None:
    """Runs the parts and prints the report."""
    args = parse_args()
    args.output.mkdir(parents=True)
    needs_peer = args.peer_seeds != 0 and not {"pendulum", "halfcheetah"}.isdisjoint(args.only)
    peer = args.peer_python
    if peer is None and needs_peer:
        peer = peers.make_environment("sbx", PEER_PACKAGES)
    pythons = (Path(sys.executable), peer or Path(sys.executable))

    shown: list[Shown] = []
    for name in args.only:
        with tempfile.TemporaryDirectory() as folder:
            part = PARTS[name](args, Path(folder))
            results = list(run_part(part, pythons, args))
        shown.append(Shown(part, args.output / f"{name}.png", results))
        curves.plot(part, results, shown[-1].picture)
        (args.output / "report.md").write_text(report(shown) + "\n")
    peers.write(report(shown), args.markdown)
    if any("failure" in result for done in shown for result in done.results):
        sys.exit("Some runs failed.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    now = datetime.datetime.now()
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    add("--quick", action="store_true", help="only try whether everything runs")
    add("--seeds", type=int, help="seeds of each part, if other than its own number")
    add("--peer-seeds", type=int, help="seeds of sbx; 0 leaves it out")
    add("--steps", type=int, default=50_000, help="environment steps on HalfCheetah-v5")
    add("--jobs", type=int, default=2, help="runs at once, on a core each")
    add("--timeout", type=float, default=1800.0, help="seconds after which a run is ended")
    add("--peer-python", type=Path, help="Python that has sbx; by default one is set up")
    add(
        "--output", type=Path, default=Path(f"runs/learners-{now:%Y%m%d-%H%M%S}"), help="new folder"
    )
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    if args.output.exists():
        parser.error(f"{args.output} exists already: choose another --output.")
    if not 1 <= args.jobs <= peers.n_cores():
        parser.error(f"--jobs must lie in [1, {peers.n_cores()}], the cores there are.")
    return args


def run_part(part: Part, pythons: tuple[Path, Path], args: argparse.Namespace) -> Iterator[Result]:
    """Makes the runs of a part, and writes what each measured."""
    print(f"{part.title}: {len(part.runs)} runs", file=sys.stderr)
    yield from run_all(part.prepare, pythons, args)
    yield from run_all(part.runs, pythons, args)


def run_all(
    commands: list[Command], pythons: tuple[Path, Path], args: argparse.Namespace
) -> Iterator[Result]:
    """Makes runs that do not depend on each other, some at once."""
    lock = threading.Lock()
    variables = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}"}

    def run(command: Command) -> Result:
        result = peers.run_worker(
            command.line(peers.WORKERS, pythons),
            args.timeout,
            **(variables if args.jobs > 1 else {}),
        )
        with lock, (args.output / "results.jsonl").open("a") as file:
            file.write(json.dumps({"run": str(command), **result}) + "\n")
            print(f"{command}: {result.get('failure', 'done')}", file=sys.stderr)
        return {"library": command.worker, **result}

    with ThreadPoolExecutor(args.jobs, initializer=one_core_each(args.jobs)) as pool:
        yield from pool.map(run, commands)


def one_core_each(n_threads: int):
    """A function that binds each of several threads, and the processes it starts, to a core."""
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    if n_threads > 1 and hasattr(os, "sched_setaffinity"):
        for core in sorted(os.sched_getaffinity(0)):
            cores.put(core)

    def bind() -> None:
        if not cores.empty():
            os.sched_setaffinity(0, {cores.get()})

    return bind


def report(shown: list[Shown]) -> str:
    """Writes what is done as a page of Markdown."""
    columns: dict[str, list[Result]] = {}
    for result in (result for done in shown for result in done.results):
        columns.setdefault(result["library"], []).append(result)
    parts = ["# What the learners learn", f"Run by `benchmarks/learners.py` {peers.machine()}."]
    for part, picture, results in shown:
        parts += [
            f"## {part.title}",
            part.text,
            curves.summary(results),
            f"![Learning curves]({picture.name})",
        ]
    return "\n\n".join([*parts, peers.version_table(columns), *peers.failures(columns)])


if __name__ == "__main__":
    main()
