"""Compares the speed and returns of PPO in jaxagents and in other libraries.

For speed, the libraries train in turns, each while the others wait. For returns, each library trains
several seeds. Each library is installed from PyPI in its own virtual environment. Results are saved in
`ppo_speed.json` in the output folder, by JAX version: a run replaces its own results, and the page
`ppo_speed.md` shows all of them.
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
    """A task to time.

    Attributes:
        task: The environment and its settings.
        n_envs: Number of environments per run.
        n_seeds: Number of simultaneous runs with different seeds.
        n_rates: Number of simultaneous runs with different learning rates.
    """

    task: Task
    n_envs: int
    n_seeds: int = 1
    n_rates: int = 1

    def __str__(self) -> str:
        """Its name in the report."""
        times = f"{self.n_seeds} seeds x " * (self.n_seeds > 1)
        times += f"{self.n_rates} learning rates x " * (self.n_rates > 1)
        return f"{self.task.environment}, {times}{self.n_envs:,} environments"


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
    """Runs the benchmark, and writes the results, the plots and the page."""
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
    add("--repeats", type=peers.positive, default=3, help="processes per library and task")
    add("--turns", type=peers.positive, default=peers.N_TURNS, help="timed calls per process")
    parts = [*GROUPS, *WORKS, *CURVES]
    add("--only", nargs="+", choices=parts, default=list(GROUPS), help="what to measure")
    add(
        "--libraries",
        nargs="+",
        choices=LIBRARIES,
        default=list(LIBRARIES),
        help="libraries to run",
    )
    add("--seconds", type=float, default=1.0, help="approximate length of a timed call")
    add("--seconds-at-once", type=float, default=5.0, help="the same, for simultaneous runs")
    add("--learning-seeds", type=peers.positive, default=5, help="seeds of the learning curves")
    add(
        "--learning-share",
        type=float,
        default=1.0,
        help="share of the steps of the learning curves",
    )
    named = {"type": peers.named_path, "metavar": "NAME=PATH"}
    about = f"existing Pythons of {', '.join(peers.ENVIRONMENTS)}"
    add("--peer-python", nargs="+", default=[], help=about, **named)
    add("--output", type=Path, default=Path("runs/ppo-speed"), help="folder for the results")
    args = parser.parse_args()
    args.pythons = {OURS: Path(sys.executable), **dict(args.peer_python)}
    return args


def command(library: str, task: Task, options: list[str], args: argparse.Namespace) -> list[Any]:
    """The command line of a library's worker."""
    worker = peers.WORKERS / f"{library}_ppo.py"
    return [args.pythons[library], worker, f"--environment={task.environment}", *options]


def time_in_turns(name: str, args: argparse.Namespace) -> dict[str, list[Round]]:
    """Times a task: for each library, its result and ours in each round of processes."""
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
    """Trains each library for its learning curve."""
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
