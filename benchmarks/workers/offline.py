"""How one task of the offline learners is run in one process: making its datasets, or learning from one.

The worker of a task calls `main`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, Protocol

import process

from jaxagents.data import Dataset


class Task(Protocol):
    """Where data comes from, and what learns from it."""

    def make_data(self, args: argparse.Namespace) -> dict[str, tuple[Dataset, Any]]:
        """Datasets by name, each with the returns of its episodes."""
        ...

    def learn(self, dataset: Dataset, args: argparse.Namespace) -> tuple[Any, Any]:
        """Learns from a dataset.

        Returns:
            Numbers of updates, and returns of episodes after them, shaped (points, episodes).
        """
        ...


def main(task: Task) -> None:
    """Runs a task and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    tasks = parser.add_subparsers(required=True)
    add = tasks.add_parser("data").add_argument
    add("--folder", type=Path, required=True, help="where datasets are written")
    add("--training", type=int, required=True, help="length of the expert's training")
    add("--episodes", type=int, required=True, help="of each policy (or environments, vectorised)")
    add("--seed", type=int, default=0)
    tasks.choices["data"].set_defaults(run=_make_data)
    add = tasks.add_parser("learn").add_argument
    add("--data", type=Path, required=True)
    add("--learner", required=True)
    add("--updates", type=int, required=True)
    add("--eval-frequency", type=int, required=True)
    add("--episodes", type=int, required=True, help="of an evaluation")
    add("--seed", type=int, required=True)
    tasks.choices["learn"].set_defaults(run=_learn)
    args = parser.parse_args()
    began = time.perf_counter()
    result = args.run(task, args)
    about = {
        "library": "jaxagents",
        "versions": process.versions("jaxagents", "gymnasium", "mujoco"),
        "seconds": time.perf_counter() - began,
    }
    print(json.dumps(about | result))


def _make_data(task: Task, args: argparse.Namespace) -> dict[str, Any]:
    datasets = task.make_data(args)
    for name, (dataset, _) in datasets.items():
        dataset.save(args.folder / f"{name}.npz")
    return {
        "data": {
            name: {"rows": len(dataset), "returns": [float(x) for x in returns]}
            for name, (dataset, returns) in datasets.items()
        }
    }


def _learn(task: Task, args: argparse.Namespace) -> dict[str, Any]:
    steps, returns = task.learn(Dataset.load(args.data), args)
    return {
        "series": f"{args.learner}, {args.data.stem} data",
        "seed": args.seed,
        "steps": [int(step) for step in steps],
        "returns": [[float(x) for x in point] for point in returns],
    }
