"""The parts of the benchmark of what learners learn: which workers run, and how it is told."""

import argparse
import dataclasses
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple


class Command(NamedTuple):
    """A run of a worker.

    Attributes:
        worker: File among the workers.
        task: What it is to do.
        options: Its options.
        is_peer: Whether it runs in the environment of the other library.
    """

    worker: str
    task: str
    options: dict[str, object]
    is_peer: bool = False

    def line(self, workers: Path, pythons: tuple[Path, Path]) -> list[str]:
        """The command line, of one of two Pythons."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items()]
        return [str(pythons[self.is_peer]), str(workers / self.worker), self.task, *options]

    def __str__(self) -> str:
        """How it is called while it runs."""
        named = (f"{name} {value}" for name, value in self.options.items() if name != "data")
        return f"{self.worker} {self.task}: {', '.join(named)}"


@dataclasses.dataclass(frozen=True)
class Part:
    """What is shown together.

    Attributes:
        title: Its title.
        text: What is done, in a paragraph.
        x_label: What a learning curve goes over.
        runs: Runs that do not depend on each other.
        prepare: Runs that come before them.
    """

    title: str
    text: str
    x_label: str
    runs: list[Command]
    prepare: list[Command] = dataclasses.field(default_factory=list)


def online(
    env: str,
    args: argparse.Namespace,
    *,
    n_steps: int,
    start_steps: int,
    n_seeds: int,
    episodes: int,
) -> Part:
    """SAC of both libraries in an environment."""
    n_steps, start_steps = (1_500, 500) if args.quick else (n_steps, start_steps)
    options = {
        "env": env,
        "steps": n_steps,
        "start_steps": start_steps,
        "eval_frequency": n_steps // (3 if args.quick else 10),
        "episodes": 2 if args.quick else episodes,
    }
    n_seeds = seeds(args, n_seeds)
    n_peer_seeds = n_seeds if args.peer_seeds is None else args.peer_seeds
    ours = [Command("jaxagents_sac.py", "curve", options | {"seed": i}) for i in range(n_seeds)]
    peers = [
        Command("sbx_sac.py", "curve", options | {"seed": i}, True) for i in range(n_peer_seeds)
    ]
    return Part(
        title=f"SAC on {env}",
        text=f"{n_steps:,} steps, the first {start_steps:,} of them at random, with one update a step; "
        f"{options['episodes']} episodes of the policy's mode in each evaluation.",
        x_label="environment steps",
        runs=[*ours, *peers],
    )


def pendulum(args: argparse.Namespace, folder: Path) -> Part:
    """SAC in an easy environment."""
    return online("Pendulum-v1", args, n_steps=20_000, start_steps=1_000, n_seeds=5, episodes=20)


def halfcheetah(args: argparse.Namespace, folder: Path) -> Part:
    """SAC in a harder one."""
    return online(
        "HalfCheetah-v5", args, n_steps=args.steps, start_steps=5_000, n_seeds=2, episodes=5
    )


def offline(args: argparse.Namespace, folder: Path) -> Part:
    """Offline learners of continuous actions."""
    worker, episodes = "offline_pendulum.py", 4 if args.quick else 50
    learn = {
        "updates": 300 if args.quick else 12_000,
        "eval_frequency": 100 if args.quick else 2_000,
        "episodes": 2 if args.quick else 20,
    }
    training = 1_500 if args.quick else 10_000
    data = {"folder": folder, "training": training, "episodes": episodes}
    cases = [("CQL", "mixed"), ("IQL", "mixed"), ("BC", "mixed"), ("BC", "expert")]
    return Part(
        title="Offline learners on Pendulum-v1",
        text=f"The expert data are {episodes} episodes of SAC after {training:,} steps; the mixed data "
        f"are these and as many of random actions. {learn['updates']:,} updates from batches of 256, "
        f"hidden layers of 64 x 64; {learn['episodes']} episodes of the policy's mode.",
        x_label="updates",
        prepare=[Command(worker, "data", data)],
        runs=learning(worker, folder, cases, seeds(args, 3), learn),
    )


def breakout(args: argparse.Namespace, folder: Path) -> Part:
    """Offline learners of discrete actions from images."""
    worker, episodes = "offline_breakout.py", 8 if args.quick else 64
    learn = {
        "updates": 200 if args.quick else 10_000,
        "eval_frequency": 100 if args.quick else 2_000,
        "episodes": episodes,
    }
    data = {"folder": folder, "training": 4 if args.quick else 60, "episodes": episodes}
    cases = [("discrete CQL", "mixed"), ("BC", "mixed")]
    return Part(
        title="Offline learners on the images of Breakout-MinAtar",
        text="The data are of the policies of PPO before, during and after a short training, with one "
        f"action in ten at random. {learn['updates']:,} updates from batches of 128 images of 10 x 10; "
        f"{episodes} episodes with one action in ten at random.",
        x_label="updates",
        prepare=[Command(worker, "data", data)],
        runs=learning(worker, folder, cases, seeds(args, 3), learn),
    )


def learning(
    worker: str,
    folder: Path,
    cases: list[tuple[str, str]],
    n_seeds: int,
    options: dict[str, object],
) -> list[Command]:
    """Runs of learners, longest first, on data that are made before."""
    return [
        Command(
            worker,
            "learn",
            {"learner": learner, "data": folder / f"{data}.npz", "seed": seed, **options},
        )
        for (learner, data), seed in product(cases, range(n_seeds))
    ]


def seeds(args: argparse.Namespace, default: int) -> int:
    """Number of seeds."""
    if args.seeds is not None:
        return args.seeds
    return 1 if args.quick else default


PARTS: dict[str, Callable[[argparse.Namespace, Path], Part]] = {
    "pendulum": pendulum,
    "offline": offline,
    "breakout": breakout,
    "halfcheetah": halfcheetah,
}
