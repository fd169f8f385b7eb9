"""Measures the speed of trainings on an accelerator, beside other libraries on JAX.

    JAX_PLATFORMS=cuda,cpu python benchmarks/accelerator.py --peer-python rejax=PATH jaxmarl=PATH

Every run is a fresh process, and the runs of two libraries alternate. Before any is timed, all run at
once and leave their programs in a cache. Peers need a Python that has the accelerator too; those without
one, or without a checkout that they need, are left out.
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
    """A piece of work to be timed.

    Attributes:
        worker: What the files of the workers end with.
        peer: The other library.
        options: What both are given.
    """

    worker: str
    peer: str
    options: tuple[str, ...]


def ppo(environment: str, n_envs: int, n_updates: int) -> Work:
    """PPO from the settings of `workers/tasks.py`."""
    options = f"--environment={environment}", f"--envs={n_envs}", f"--updates={n_updates}"
    return Work("ppo", "rejax", options)


def teams(task: str, algorithm: str, n_updates: int) -> Work:
    """A team with a memory, from the settings of `workers/teams.py`."""
    options = f"--task={task}", f"--algorithm={algorithm}", f"--updates={n_updates}", "--episodes=0"
    return Work("teams", "jaxmarl", options)


def off_policy(work: str, n_updates: int) -> Work:
    """An agent with a replay buffer, from the settings of `workers/replay.py`."""
    return Work("replay", "rejax", (f"--work={work}", f"--updates={n_updates}"))


WORKS = {
    "PPO, CartPole-v1, 64 environments": ppo("CartPole-v1", 64, 200),
    "PPO, CartPole-v1, 1,024 environments": ppo("CartPole-v1", 1024, 150),
    "PPO, CartPole-v1, 8,192 environments": ppo("CartPole-v1", 8192, 60),
    "PPO, Breakout-MinAtar, 1,024 environments": ppo("Breakout-MinAtar", 1024, 80),
    "PPO, Pendulum-v1, 1,024 environments": ppo("Pendulum-v1", 1024, 50),
    "PPO with a memory, MemoryChain-bsuite, 4 environments": Work(
        "recurrent", "purejaxrl", ("--environment=MemoryChain-bsuite", "--updates=20")
    ),
    "IPPO with a memory, simple_spread, 16 environments": teams("simple_spread", "IPPO", 30),
    "IPPO with a memory, SMAX 3m, 128 environments": teams("3m", "IPPO", 15),
    "MAPPO with a memory, simple_spread, 16 environments": teams("simple_spread", "MAPPO", 30),
    "MAPPO with a memory, SMAX 3m, 128 environments": teams("3m", "MAPPO", 15),
    "DDQN, CartPole-v1, 10 environments": off_policy(
        "DDQN, an update of 128 each ten steps", 4_000
    ),
    "DDQN, CartPole-v1, 10 environments, 16 seeds": off_policy("the same, 16 seeds", 3_000),
    "DDQN, CartPole-v1, 1,024 environments": off_policy(
        "DDQN, an update of 1,024 each 1,024 steps", 4_000
    ),
    "SAC, Pendulum-v1, 1 environment": off_policy("SAC, an update of 256 each step", 3_000),
    "SAC, Pendulum-v1, 1 environment, a buffer of a million": off_policy(
        "the same, a buffer of a million", 3_000
    ),
    "a trial": ppo("CartPole-v1", 4, 1),
}
DEFAULT_WORKS = list(WORKS)[:-1]
CHECKOUTS = "jaxmarl", "purejaxrl"  # which are run from

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
    add("--works", nargs="+", choices=list(WORKS), default=DEFAULT_WORKS, help="what to measure")
    add("--repeats", type=peers.positive, default=1, help="processes for each library and work")
    add("--peer-python", help="Pythons of peers, which have the accelerator", **named)
    add("--checkouts", help=f"of the repositories of {' and '.join(CHECKOUTS)}", **named)
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    args.pythons, args.checkouts = dict(args.peer_python), dict(args.checkouts)
    return args


def commands_of(name: str, args: argparse.Namespace) -> Iterator[tuple[str, Command]]:
    """The command line of each library's worker, ours first."""
    worker, peer, options = WORKS[name]
    yield OURS, [sys.executable, peers.WORKERS / f"{OURS}_{worker}.py", *options]
    if peer in args.pythons and (peer in args.checkouts or peer not in CHECKOUTS):
        checkout = [f"--checkout={args.checkouts[peer]}"] if peer in CHECKOUTS else []
        yield peer, [args.pythons[peer], peers.WORKERS / f"{peer}_{worker}.py", *options, *checkout]


def compile_all(
    commands: dict[str, dict[str, Command]], timeout: float, caching: dict[str, str]
) -> None:
    """Runs everything at once, so that its programs are in the cache."""
    shared = {**caching, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    lines = [line for of_work in commands.values() for line in of_work.values()]
    with ThreadPoolExecutor(reports.n_cores()) as threads:
        list(threads.map(lambda line: peers.run_worker(line, timeout, **shared), lines))


def time_in_turns(
    commands: dict[str, dict[str, Command]], args: argparse.Namespace, caching: dict[str, str]
) -> dict[str, list[Round]]:
    """Measures each work, by the libraries in turns."""
    rounds: dict[str, list[Round]] = {name: [{} for _ in range(args.repeats)] for name in commands}
    for name, of_work in commands.items():
        for repeat, found in enumerate(rounds[name]):
            for library, line in of_work.items():
                seeded = [*line, f"--seed={repeat}"]
                found[library] = peers.run_worker(seeded, args.timeout, **caching)
                print(f"{library}, {name}: {found[library]}", file=sys.stderr)
    return rounds


def results(rounds: dict[str, list[Round]]) -> Iterator[Result]:
    """All that was measured."""
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
            "# On an accelerator",
            f"Made by `python benchmarks/accelerator.py --repeats {args.repeats}` on "
            f"{datetime.date.today()}: {', '.join(sorted(backends))}.",
            "Environment steps a second of runs without evaluation, after compilation. Each ratio "
            "compares two consecutive runs, ours over the other's. Settings are as in "
            "[PPO](ppo_speed.md), [teams](multi_agent.md), [PPO with a "
            "memory](recurrent_speed.md) and [off-policy agents](replay_speed.md), except for the "
            "number of environments.",
            "With small networks an accelerator mostly starts kernels: the [number of kernels in an "
            "update](kernels.md) matters, and more environments are nearly free.",
            reports.table(["", "", "Environment steps a second"], rows),
            *(f"Not measured: {name}." for name in DEFAULT_WORKS if name not in rounds),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
