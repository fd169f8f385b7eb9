"""Measures PPO of jaxagents and of its peers at the same work on this machine.

Speed: every run is a fresh process, and the libraries take turns. Learning: the returns of several
seeds on the way. Each peer lives in a virtual environment of its own, which this script makes from
PyPI. What was measured is kept in `ppo_speed.json` of the output folder: a run replaces what it
measures anew, and the page, `ppo_speed.md`, is made of all that is there.
"""

import argparse
import datetime
import sys
from pathlib import Path
from typing import NamedTuple

import peers
import ppo_report
import reports
from peers import OURS, Result
from workers.tasks import BREAKOUT, CARTPOLE, MAX_CALLS, PENDULUM, Task

LIBRARIES = (OURS, *peers.ENVIRONMENTS)


class Work(NamedTuple):
    """A piece of work to be timed.

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
}
CURVES = {
    "learning-cartpole": CARTPOLE,
    "learning-breakout": BREAKOUT,
    "learning-pendulum": PENDULUM,
}
GROUPS = {"speed": list(WORKS), "learning": list(CURVES)}
TITLES = {name: str(work) for name, work in WORKS.items()}
TITLES |= {name: task.environment for name, task in CURVES.items()}


def main() -> None:
    """Runs the benchmark, and writes results, pictures and the page."""
    args = parse_args()
    file = args.output / "ppo_speed.json"
    parts = list(dict.fromkeys(part for only in args.only for part in GROUPS.get(only, [only])))
    for library in sorted(set(args.libraries) - args.pythons.keys()):
        args.pythons[library] = peers.python_of(library)
    results: list[Result] = []
    for name in parts:
        measured = (time_in_turns if name in WORKS else learn)(name, args)
        for library in sorted(measured, key=lambda library: library == OURS):  # peers first
            keep_runs(file, name, library, measured[library])
            results += measured[library]
        print(ppo_report.write(file, TITLES, LIBRARIES), file=sys.stderr)
    peers.exit_if_any_failed(results)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=3600.0)
    add = parser.add_argument
    add("--repeats", type=peers.positive, default=3, help="processes for each library and work")
    parts = [*GROUPS, *WORKS, *CURVES]
    add("--only", nargs="+", choices=parts, default=list(GROUPS), help="what to measure")
    add("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), help="who")
    add("--seconds", type=float, default=3.0, help="aimed length of a timed call")
    add("--seconds-at-once", type=float, default=20.0, help="the same, of several trainings")
    add("--learning-seeds", type=peers.positive, default=5, help="seeds whose returns are shown")
    add("--learning-share", type=float, default=1.0, help="share of the steps of their trainings")
    named = {"type": peers.named_path, "metavar": "NAME=PATH"}
    about = f"existing Pythons of {', '.join(peers.ENVIRONMENTS)}"
    add("--peer-python", nargs="+", default=[], help=about, **named)
    add("--output", type=Path, default=Path("runs/ppo-speed"), help="folder of the results")
    args = parser.parse_args()
    args.pythons = {OURS: Path(sys.executable), **dict(args.peer_python)}
    return args


def run(library: str, task: Task, options: list[str], args: argparse.Namespace) -> Result:
    """Measures a library; gives its numbers, or only `failure`, with a description of the run."""
    worker = [args.pythons[library], peers.WORKERS / f"{library}_ppo.py"]
    command = [*worker, f"--environment={task.environment}", *options]
    about = {"date": str(datetime.date.today()), "processor": reports.processor()}
    return peers.run_worker(command, args.timeout) | about


def time_in_turns(name: str, args: argparse.Namespace) -> dict[str, list[Result]]:
    """Times a piece of work, by the libraries in turns, of which ours is always one."""
    work = WORKS[name]
    at_once = work.n_seeds * work.n_rates > 1
    runs: dict[str, list[Result]] = {}
    for seed in range(args.repeats):
        about = {"round": datetime.datetime.now().isoformat()}  # what runs in turn have in common
        for library in sorted({OURS, *args.libraries}, key=LIBRARIES.index):
            options = [f"--envs={work.n_envs}", f"--seeds={work.n_seeds}"]
            options += [f"--rates={work.n_rates}", f"--seed={seed}"]
            options += [f"--seconds={args.seconds_at_once if at_once else args.seconds}"]
            options += [f"--budget={MAX_CALLS * args.seconds}"]
            result = run(library, work.task, options, args) | about
            summary = result.get("failure") or f"{result['steps_per_second']:,.0f} steps/s"
            print(f"{work}, round {seed}, {library}: {summary}", file=sys.stderr)
            runs.setdefault(library, []).append(result)
    return runs


def learn(name: str, args: argparse.Namespace) -> dict[str, list[Result]]:
    """Shows what the libraries learn, each several seeds in one process."""
    task = CURVES[name]
    options = ["--learn", f"--envs={task.n_learning_envs}", f"--seeds={args.learning_seeds}"]
    options += [f"--steps={round(task.n_learning_steps * args.learning_share)}"]
    runs = {}
    for library in sorted(args.libraries, key=LIBRARIES.index):
        result = run(library, task, options, args)
        summary = result.get("failure") or f"{result['seconds']:.0f} s"
        print(f"{task.environment}, learning, {library}: {summary}", file=sys.stderr)
        runs[library] = [result]
    return runs


def keep_runs(file: Path, name: str, library: str, runs: list[Result]) -> None:
    """Replaces the runs of a library; of ours, those stay that a peer's run has as a neighbour."""
    others = reports.kept(file).get(name, {})
    if library == OURS and name in WORKS:
        rounds = {run["round"] for peer in others if peer != OURS for run in others[peer]}
        runs = [run for run in others.get(OURS, []) if run["round"] in rounds] + runs
    reports.keep(file, name, library, runs)


if __name__ == "__main__":
    main()
