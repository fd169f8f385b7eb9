"""Measures PPO of jaxagents and of its peers at the same work on this machine.

Speed: libraries train in turns, in processes that wait for each other. Learning: the returns of several
seeds on the way. Each peer lives in a virtual environment of its own, which this script makes from
PyPI. What was measured is kept in `ppo_speed.json` of the output folder, by the version of JAX: a run
replaces what it measures anew, and the page, `ppo_speed.md`, is made of all that is there.
"""

import argparse
import datetime
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import peers
import ppo_report
import reports
from peers import OURS, Result, Round
from workers.tasks import BREAKOUT, CARTPOLE, PENDULUM, Task

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
        for library, rounds in (time_in_turns if name in WORKS else learn)(name, args).items():
            reports.keep(file, version("jax"), name, library, result=rounds)
            results += [result for found in rounds for result in found.values()]
        print(ppo_report.write(file, TITLES, LIBRARIES), file=sys.stderr)
    peers.exit_if_any_failed(results)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=3600.0)
    add = parser.add_argument
    add("--repeats", type=peers.positive, default=3, help="processes for each library and work")
    add("--turns", type=peers.positive, default=peers.N_TURNS, help="timed calls of a process")
    parts = [*GROUPS, *WORKS, *CURVES]
    add("--only", nargs="+", choices=parts, default=list(GROUPS), help="what to measure")
    add("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), help="who")
    add("--seconds", type=float, default=1.0, help="aimed length of a timed call")
    add("--seconds-at-once", type=float, default=5.0, help="the same, of several trainings")
    add("--learning-seeds", type=peers.positive, default=5, help="seeds whose returns are shown")
    add("--learning-share", type=float, default=1.0, help="share of the steps of their trainings")
    named = {"type": peers.named_path, "metavar": "NAME=PATH"}
    about = f"existing Pythons of {', '.join(peers.ENVIRONMENTS)}"
    add("--peer-python", nargs="+", default=[], help=about, **named)
    add("--output", type=Path, default=Path("runs/ppo-speed"), help="folder of the results")
    args = parser.parse_args()
    args.pythons = {OURS: Path(sys.executable), **dict(args.peer_python)}
    return args


def command(library: str, task: Task, options: list[str], args: argparse.Namespace) -> list[Any]:
    """The command line of a library's worker."""
    worker = peers.WORKERS / f"{library}_ppo.py"
    return [args.pythons[library], worker, f"--environment={task.environment}", *options]


def time_in_turns(name: str, args: argparse.Namespace) -> dict[str, list[Round]]:
    """Times a piece of work: what each library measured beside ours, in each round of processes."""
    work = WORKS[name]
    seconds = args.seconds_at_once if work.n_seeds * work.n_rates > 1 else args.seconds
    options = [f"--envs={work.n_envs}", f"--seeds={work.n_seeds}", f"--rates={work.n_rates}"]
    found: dict[str, list[Round]] = {}
    for seed in range(args.repeats):
        told = [*options, f"--seed={seed}", f"--seconds={seconds}"]
        libraries = sorted({OURS, *args.libraries}, key=LIBRARIES.index)
        commands = {library: command(library, work.task, told, args) for library in libraries}
        measured = peers.take_turns(commands, args.turns, args.timeout)
        print(f"{name}, round {seed}: {measured}", file=sys.stderr)
        about = {"date": str(datetime.date.today()), "processor": reports.processor()}
        for library in args.libraries:
            pair = {who: measured[who] | about for who in (OURS, library)}
            found.setdefault(library, []).append(pair)
    return found


def learn(name: str, args: argparse.Namespace) -> dict[str, list[Round]]:
    """Shows what the libraries learn."""
    task = CURVES[name]
    options = ["--learn", f"--envs={task.n_learning_envs}", f"--seeds={args.learning_seeds}"]
    options += [f"--steps={round(task.n_learning_steps * args.learning_share)}"]
    found = {}
    for library in args.libraries:
        result = peers.run_worker(command(library, task, options, args), args.timeout)
        print(f"{library}, {name}: {result}", file=sys.stderr)
        about = {"date": str(datetime.date.today()), "processor": reports.processor()}
        found[library] = [{library: result | about}]
    return found


if __name__ == "__main__":
    main()
