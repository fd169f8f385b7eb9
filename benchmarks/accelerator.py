"""Compares the training speed on an accelerator with other JAX libraries.

    JAX_PLATFORMS=cuda,cpu python benchmarks/accelerator.py --peer-python rejax=PATH jaxmarl=PATH

Every run is a fresh process, and the runs of two libraries alternate. Before the timed runs, all
programs run once in parallel to fill the compilation cache. Other libraries need a Python that supports
the accelerator, and some a checkout; those without are left out.
"""

import argparse
import datetime
import itertools
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import peers
import reports
from peers import OURS, Result, Round


class Work(NamedTuple):
    """A task to time.

    Attributes:
        worker: Suffix of the workers' file names.
        peer: The other library.
        options: Options of both workers.
    """

    worker: str
    peer: str
    options: tuple[str, ...]


def ppo(environment: str, n_envs: int, n_updates: int) -> Work:
    """PPO with the settings of `workers/tasks.py`."""
    options = f"--environment={environment}", f"--envs={n_envs}", f"--updates={n_updates}"
    return Work("ppo", "rejax", options)


def teams(task: str, algorithm: str, n_updates: int) -> Work:
    """A recurrent multi-agent algorithm with the settings of `workers/teams.py`."""
    options = f"--task={task}", f"--algorithm={algorithm}", f"--updates={n_updates}", "--episodes=0"
    return Work("teams", "jaxmarl", options)


def off_policy(work: str, n_updates: int) -> Work:
    """An agent with a replay buffer and the settings of `workers/replay.py`."""
    return Work("replay", "rejax", (f"--work={work}", f"--updates={n_updates}"))


WORKS = {
    "PPO, CartPole-v1, 64 environments": ppo("CartPole-v1", 64, 200),
    "PPO, CartPole-v1, 1,024 environments": ppo("CartPole-v1", 1024, 150),
    "PPO, CartPole-v1, 8,192 environments": ppo("CartPole-v1", 8192, 60),
    "PPO, Breakout-MinAtar, 1,024 environments": ppo("Breakout-MinAtar", 1024, 80),
    "PPO, Pendulum-v1, 1,024 environments": ppo("Pendulum-v1", 1024, 50),
    "Recurrent PPO, MemoryChain-bsuite, 4 environments": Work(
        "recurrent", "purejaxrl", ("--environment=MemoryChain-bsuite", "--updates=20")
    ),
    "Recurrent IPPO, simple_spread, 16 environments": teams("simple_spread", "IPPO", 30),
    "Recurrent IPPO, SMAX 3m, 128 environments": teams("3m", "IPPO", 15),
    "Recurrent MAPPO, simple_spread, 16 environments": teams("simple_spread", "MAPPO", 30),
    "Recurrent MAPPO, SMAX 3m, 128 environments": teams("3m", "MAPPO", 15),
    "DDQN, CartPole-v1, 10 environments": off_policy("DDQN, 10 environments, batch 128", 4_000),
    "DDQN, CartPole-v1, 10 environments, 16 seeds": off_policy(
        "DDQN, 10 environments, batch 128, 16 seeds", 3_000
    ),
    "DDQN, CartPole-v1, 1,024 environments": off_policy(
        "DDQN, 1,024 environments, batch 1,024", 4_000
    ),
    "SAC, Pendulum-v1, 1 environment": off_policy("SAC, 1 environment, batch 256", 3_000),
    "SAC, Pendulum-v1, 1 environment, buffer of 1M": off_policy(
        "SAC, 1 environment, batch 256, buffer of 1M", 3_000
    ),
    "a trial": ppo("CartPole-v1", 4, 1),
}
DEFAULT_WORKS = list(WORKS)[:-1]
CHECKOUTS = "jaxmarl", "purejaxrl"  # libraries that run from a checkout

Command = list[object]


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    commands = {name: dict(commands_of(name, args)) for name in args.works}
    with tempfile.TemporaryDirectory() as programs:
        caching = {
            "JAX_ENABLE_COMPILATION_CACHE": "true",
            "JAX_COMPILATION_CACHE_DIR": programs,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        compile_all(commands, args.timeout, caching)
        rounds = time_in_turns(commands, args, caching)
    reports.write(report(rounds, args), args.markdown)
    peers.exit_if_any_failed(results(rounds))


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=600.0)
    add = parser.add_argument
    named = {"type": peers.named_path, "metavar": "NAME=PATH", "nargs": "+", "default": []}
    add("--works", nargs="+", choices=list(WORKS), default=DEFAULT_WORKS, help="tasks to measure")
    add("--repeats", type=peers.positive, default=1, help="processes per library and task")
    add("--peer-python", help="Pythons of other libraries, with the accelerator", **named)
    add("--checkouts", help=f"checkouts of {' and '.join(CHECKOUTS)}", **named)
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    args.pythons, args.checkouts = dict(args.peer_python), dict(args.checkouts)
    return args


def commands_of(name: str, args: argparse.Namespace) -> Iterator[tuple[str, Command]]:
    """Yields the command line of each library's worker, ours first."""
    worker, peer, options = WORKS[name]
    yield OURS, [sys.executable, peers.WORKERS / f"{OURS}_{worker}.py", *options]
    if peer in args.pythons and (peer in args.checkouts or peer not in CHECKOUTS):
        checkout = [f"--checkout={args.checkouts[peer]}"] if peer in CHECKOUTS else []
        yield peer, [args.pythons[peer], peers.WORKERS / f"{peer}_{worker}.py", *options, *checkout]


def compile_all(
    commands: dict[str, dict[str, Command]], timeout: float, caching: dict[str, str]
) -> None:
    """Runs everything in parallel, to fill the compilation cache."""
    shared = {**caching, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    lines = [line for of_work in commands.values() for line in of_work.values()]
    with ThreadPoolExecutor(reports.n_cores()) as threads:
        list(threads.map(lambda line: peers.run_worker(line, timeout, **shared), lines))


def time_in_turns(
    commands: dict[str, dict[str, Command]], args: argparse.Namespace, caching: dict[str, str]
) -> dict[str, list[Round]]:
    """Times each task, alternating between the libraries."""
    rounds: dict[str, list[Round]] = {name: [{} for _ in range(args.repeats)] for name in commands}
    for name, of_work in commands.items():
        for repeat, found in enumerate(rounds[name]):
            for library, line in of_work.items():
                seeded = [*line, f"--seed={repeat}"]
                found[library] = peers.run_worker(seeded, args.timeout, **caching)
                print(f"{library}, {name}: {found[library]}", file=sys.stderr)
    return rounds


def results(rounds: dict[str, list[Round]]) -> Iterator[Result]:
    """Yields all results."""
    return (result for found in itertools.chain(*rounds.values()) for result in found.values())


def report(rounds: dict[str, list[Round]], args: argparse.Namespace) -> str:
    """The page."""
    columns = reports.columns(itertools.chain(*rounds.values()))
    rows = [
        row
        for name, found in rounds.items()
        for row in reports.comparison(name, found, {"steps_per_second": ",.0f"})
    ]
    backends = {x["backend"] for x in reports.measured(results(rounds), "versions")}
    return "\n\n".join(
        [
            "# Speed on a GPU",
            "How fast is training on a GPU compared with other JAX libraries? The tables show "
            "environment steps per second, excluding compilation and evaluation. Each ratio compares "
            "two consecutive runs. The settings are the same as on the pages about "
            "[PPO](ppo_speed.md), [recurrent PPO](recurrent_speed.md), [IPPO and "
            "MAPPO](multi_agent.md) and [off-policy agents](replay_speed.md), except for the number "
            "of environments.",
            "With small networks, a GPU spends most of its time launching kernels. So the [number of "
            "kernels per update](kernels.md) matters, and more environments are nearly free.",
            reports.table(["", "", "Environment steps per second"], rows),
            *(f"Not measured: {name}." for name in DEFAULT_WORKS if name not in rounds),
            f"Measured on {datetime.date.today()} ({', '.join(sorted(backends))}). To reproduce: "
            f"`python benchmarks/accelerator.py --repeats {args.repeats}`.",
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
