"""Measures PPO, and IPPO, of jaxagents and of its peers at the same work on this machine.

Speed: every run is a fresh process, and the libraries take turns. Learning: the returns of several
seeds on the way. Each peer lives in a virtual environment of its own, which this script makes from
PyPI. What was measured is kept in `ppo_speed.json` of the output folder: a run replaces what it
measures anew, and the page, `ppo_speed.md`, is made of all that is there.
"""

import argparse
import datetime
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import ppo_report
import store
from peers import Result, processor
from ppo_peers import ENVIRONMENTS, LIBRARIES, OURS, Processes
from workers.tasks import BREAKOUT, CARTPOLE, MAX_CALLS, PENDULUM, SPREAD, Task


class Work(NamedTuple):
    """What is timed.

    Attributes:
        task: The environment and the settings in it.
        n_envs: Number of environments of a training.
        n_seeds: Number of trainings at once that differ in their seeds.
        n_rates: Number of trainings at once that differ in their learning rates.
    """

    task: Task
    n_envs: int
    n_seeds: int = 1
    n_rates: int = 1

    def __str__(self) -> str:
        """How it is called in the report."""
        times = f"{self.n_seeds} seeds x " * (self.n_seeds > 1)
        times += f"{self.n_rates} learning rates x " * (self.n_rates > 1)
        return f"{self.task.environment}, {times}{self.n_envs} environments"


WORKS = {
    "cartpole-4": Work(CARTPOLE, 4),
    "cartpole-64": Work(CARTPOLE, 64),
    "cartpole-1024": Work(CARTPOLE, 1024),
    "seeds": Work(CARTPOLE, 4, n_seeds=16),
    "rates": Work(CARTPOLE, 4, n_rates=32),
    "breakout": Work(BREAKOUT, 64),
    "pendulum": Work(PENDULUM, 64),
    "spread": Work(SPREAD, 64),
}
CURVES = {
    "learning-cartpole": CARTPOLE,
    "learning-breakout": BREAKOUT,
    "learning-pendulum": PENDULUM,
    "learning-spread": SPREAD,
}
GROUPS = {"speed": list(WORKS), "learning": list(CURVES)}


def main() -> None:
    """Runs the benchmark, and writes results, pictures and the page."""
    args = parse_args()
    file = args.output / "ppo_speed.json"
    processes = Processes(dict(args.peer_python), args.jaxmarl_source, args.timeout)
    failed = False
    for name in dict.fromkeys(part for only in args.only for part in GROUPS.get(only, [only])):
        measure = time_in_turns if name in WORKS else learn
        measured = measure(name, processes, args)
        for library in sorted(measured, key=lambda library: library == OURS):  # peers first
            keep_runs(file, name, library, measured[library])
        failed |= any("failure" in run for runs in measured.values() for run in runs)
        print(ppo_report.write(file, titles()), file=sys.stderr)
    if failed:
        sys.exit("Some runs failed.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    parts = [*GROUPS, *WORKS, *CURVES]
    add("--only", nargs="+", choices=parts, default=list(GROUPS), help="what to measure")
    add("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), help="who")
    add("--repeats", type=int, default=3, help="processes for each library and work")
    add("--seconds", type=float, default=3.0, help="aimed length of a timed call")
    add("--seconds-at-once", type=float, default=20.0, help="the same, of several trainings")
    add("--learning-seeds", type=int, default=5, help="seeds of which the returns are shown")
    add("--learning-share", type=float, default=1.0, help="share of the steps of their trainings")
    add("--timeout", type=float, default=3600.0, help="seconds after which a process is ended")
    add(
        "--peer-python",
        nargs="+",
        type=named_path,
        default=[],
        metavar="NAME=PATH",
        help=f"existing Pythons of {', '.join(ENVIRONMENTS)}",
    )
    add("--jaxmarl-source", type=Path, help="a checkout of JaxMARL; by default one is made")
    add("--output", type=Path, default=Path("runs/ppo-speed"), help="folder of the results")
    args = parser.parse_args()
    if args.repeats < 1 or args.learning_seeds < 1:
        parser.error("--repeats and --learning-seeds must be positive")
    return args


def named_path(text: str) -> tuple[str, Path]:
    """Reads `NAME=PATH`."""
    name, _, path = text.partition("=")
    if name not in ENVIRONMENTS or not path:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=PATH")
    return name, Path(path).absolute()


def titles() -> dict[str, str]:
    """What the parts are called in the report."""
    works = {name: str(work) for name, work in WORKS.items()}
    return works | {name: task.environment for name, task in CURVES.items()}


def libraries_of(task: Task, chosen: list[str]) -> Iterator[str]:
    """The chosen libraries that know an environment, and always our own."""
    return (name for name, tasks in LIBRARIES.items() if task in tasks and name in [OURS, *chosen])


def time_in_turns(
    name: str, processes: Processes, args: argparse.Namespace
) -> dict[str, list[Result]]:
    """Times a piece of work, by the libraries in turns."""
    work = WORKS[name]
    at_once = work.n_seeds * work.n_rates > 1
    libraries = list(libraries_of(work.task, args.libraries))
    runs: dict[str, list[Result]] = {library: [] for library in libraries}
    for seed in range(args.repeats):
        about = description()
        for library in libraries:
            options = [f"--envs={work.n_envs}", f"--seeds={work.n_seeds}"]
            options += [f"--rates={work.n_rates}", f"--seed={seed}"]
            options += [f"--seconds={args.seconds_at_once if at_once else args.seconds}"]
            options += [f"--budget={MAX_CALLS * args.seconds}"]
            result = processes.run(library, work.task, options) | about
            summary = result.get("failure") or f"{result['steps_per_second']:,.0f} steps/s"
            print(f"{work}, round {seed}, {library}: {summary}", file=sys.stderr)
            runs[library].append(result)
    return runs


def learn(name: str, processes: Processes, args: argparse.Namespace) -> dict[str, list[Result]]:
    """Shows what the libraries learn, each several seeds in one process."""
    task = CURVES[name]
    runs = {}
    for library in libraries_of(task, args.libraries):
        if library not in args.libraries:
            continue
        options = ["--learn", f"--envs={task.n_learning_envs}", f"--seeds={args.learning_seeds}"]
        options += [f"--steps={round(task.n_learning_steps * args.learning_share)}"]
        result = processes.run(library, task, options) | description()
        summary = result.get("failure") or f"{result['seconds']:.0f} s"
        print(f"{task.environment}, learning, {library}: {summary}", file=sys.stderr)
        runs[library] = [result]
    return runs


def description() -> Result:
    """What is kept with every result; runs of the same round have it in common."""
    now = datetime.datetime.now()
    return {"round": now.isoformat(), "date": f"{now:%Y-%m-%d}", "processor": processor()}


def keep_runs(file: Path, name: str, library: str, runs: list[Result]) -> None:
    """Replaces the runs of a library; of ours, those stay that a peer's run has as a neighbour."""
    others = store.kept(file).get(name, {})
    if library == OURS and name in WORKS:
        rounds = {run["round"] for peer in others if peer != OURS for run in others[peer]}
        runs = [run for run in others.get(OURS, []) if run["round"] in rounds] + runs
    store.keep(file, name, library, runs)


if __name__ == "__main__":
    main()
