"""Measures PPO, and IPPO, of jaxagents and of its peers at the same work on this machine.

Speed: every run is a fresh process, and the libraries take turns. Learning: the returns of several
seeds on the way. Each peer lives in a virtual environment of its own, which this script makes from
PyPI. What was measured is kept in `ppo_speed.json` of the output folder: a run replaces what it
measures anew, and the page, `ppo_speed.md`, is made of all that is there.
"""

import argparse
import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import peers
import ppo_report
import reports
from peers import OURS, Result
from workers.tasks import BREAKOUT, CARTPOLE, MAX_CALLS, PENDULUM, SPREAD, Task

LIBRARIES = (OURS, *peers.ENVIRONMENTS)
JAXMARL_REPOSITORY = "https://github.com/FLAIROx/JaxMARL"
JAXMARL_COMMIT = "c793d095618c6d3edfb5632802348f57b70a4b94"

Run = Callable[[str, Task, list[str]], Result]


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
TITLES = {name: str(work) for name, work in WORKS.items()}
TITLES |= {name: task.environment for name, task in CURVES.items()}


def main() -> None:
    """Runs the benchmark, and writes results, pictures and the page."""
    args = parse_args()
    file = args.output / "ppo_speed.json"
    parts = list(dict.fromkeys(part for only in args.only for part in GROUPS.get(only, [only])))
    run = set_up(parts, args)
    results: list[Result] = []
    for name in parts:
        measured = (time_in_turns if name in WORKS else learn)(name, run, args)
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
    named = {"type": named_path, "metavar": "NAME=PATH"}
    about = f"existing Pythons of {', '.join(peers.ENVIRONMENTS)}"
    add("--peer-python", nargs="+", default=[], help=about, **named)
    add("--jaxmarl-source", type=Path, help="a checkout of JaxMARL; by default one is made")
    add("--output", type=Path, default=Path("runs/ppo-speed"), help="folder of the results")
    return parser.parse_args()


def named_path(text: str) -> tuple[str, Path]:
    """Reads `NAME=PATH`."""
    name, _, path = text.partition("=")
    if name not in peers.ENVIRONMENTS or not path:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=PATH")
    return name, Path(path).absolute()


def libraries_of(name: str, args: argparse.Namespace) -> list[str]:
    """The chosen libraries that can do a part; where they are timed, ours is always one of them."""
    by_itself = {"jaxmarl"} if name.endswith("spread") else {"rejax", "sbx", "sb3"}
    chosen = {*args.libraries, *([OURS] if name in WORKS else [])} & {OURS, *by_itself}
    return [library for library in LIBRARIES if library in chosen]


def set_up(parts: list[str], args: argparse.Namespace) -> Run:
    """Makes the virtual environments that are missing, and gives what runs a worker."""
    pythons = {OURS: Path(sys.executable), **dict(args.peer_python)}
    needed = {who for name in parts for who in libraries_of(name, args)}
    if any(name.endswith("spread") for name in parts):
        needed.add("jaxmarl")
    for library in sorted(needed - pythons.keys()):
        pythons[library] = peers.python_of(library)
    source = args.jaxmarl_source
    if "jaxmarl" in needed and source is None:
        source = checkout_of_jaxmarl()

    def run(library: str, task: Task, options: list[str]) -> Result:
        """What a library measures, or only `failure`."""
        python, file = pythons[library], f"{library}_ppo.py"
        if task is SPREAD:
            python, file = pythons["jaxmarl"], f"{library}_ippo.py"
        command = [python, peers.WORKERS / file, f"--environment={task.environment}", *options]
        return peers.run_worker(command, args.timeout, JAXMARL_SOURCE=str(source))

    return run


def checkout_of_jaxmarl() -> Path:
    """A checkout of JaxMARL, whose IPPO is not in its wheel."""
    folder = peers.VENVS / "jaxmarl-source"
    git = ["git", "-C", str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    for command in (
        [*git, "init", "--quiet"],
        [*git, "fetch", "--depth=1", JAXMARL_REPOSITORY, JAXMARL_COMMIT],
        [*git, "checkout", "--quiet", JAXMARL_COMMIT],
    ):
        subprocess.run(command, check=True, timeout=600)
    return folder


def time_in_turns(name: str, run: Run, args: argparse.Namespace) -> dict[str, list[Result]]:
    """Times a piece of work, by the libraries in turns."""
    work = WORKS[name]
    at_once = work.n_seeds * work.n_rates > 1
    runs: dict[str, list[Result]] = {}
    for seed in range(args.repeats):
        about = description()
        for library in libraries_of(name, args):
            options = [f"--envs={work.n_envs}", f"--seeds={work.n_seeds}"]
            options += [f"--rates={work.n_rates}", f"--seed={seed}"]
            options += [f"--seconds={args.seconds_at_once if at_once else args.seconds}"]
            options += [f"--budget={MAX_CALLS * args.seconds}"]
            result = run(library, work.task, options) | about
            summary = result.get("failure") or f"{result['steps_per_second']:,.0f} steps/s"
            print(f"{work}, round {seed}, {library}: {summary}", file=sys.stderr)
            runs.setdefault(library, []).append(result)
    return runs


def learn(name: str, run: Run, args: argparse.Namespace) -> dict[str, list[Result]]:
    """Shows what the libraries learn, each several seeds in one process."""
    task = CURVES[name]
    options = ["--learn", f"--envs={task.n_learning_envs}", f"--seeds={args.learning_seeds}"]
    options += [f"--steps={round(task.n_learning_steps * args.learning_share)}"]
    runs = {}
    for library in libraries_of(name, args):
        result = run(library, task, options) | description()
        summary = result.get("failure") or f"{result['seconds']:.0f} s"
        print(f"{task.environment}, learning, {library}: {summary}", file=sys.stderr)
        runs[library] = [result]
    return runs


def description() -> Result:
    """What is kept with every result; runs of the same round have it in common."""
    now = datetime.datetime.now()
    about = {"date": f"{now:%Y-%m-%d}", "processor": reports.processor()}
    return {"round": now.isoformat(), **about}


def keep_runs(file: Path, name: str, library: str, runs: list[Result]) -> None:
    """Replaces the runs of a library; of ours, those stay that a peer's run has as a neighbour."""
    others = reports.kept(file).get(name, {})
    if library == OURS and name in WORKS:
        rounds = {run["round"] for peer in others if peer != OURS for run in others[peer]}
        runs = [run for run in others.get(OURS, []) if run["round"] in rounds] + runs
    reports.keep(file, name, library, runs)


if __name__ == "__main__":
    main()
