"""Shared parts of the offline examples: data, training, comparison with the data."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import matplotlib.pyplot as plt
import minari
import numpy as np

from jaxagents import Agent
from jaxagents.data import Dataset, from_minari
from jaxagents.plotting import plot_learning_curve


class Task(NamedTuple):
    """A dataset and its environment.

    Attributes:
        dataset: Transitions.
        returns: Returns of all episodes of the Minari dataset.
        env: Its environment.
    """

    dataset: Dataset
    returns: np.ndarray
    env: gymnasium.Env


def make_parser(description: str, name: str) -> argparse.ArgumentParser:
    """Creates a parser with the options that all examples share.

    Args:
        description: Description of the example.
        name: Name of the algorithm, used for the default folder.

    Returns:
        The parser, to which an example adds its own options.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    output = Path(f"runs/{name}-minari")
    parser.add_argument("dataset", help="identifier of a Minari dataset on this machine")
    parser.add_argument("--output", type=Path, default=output, help="new folder")
    parser.add_argument("--n-updates", type=int, default=10_000, help="total number of updates")
    parser.add_argument("--eval-frequency", type=int, default=1_000, help="evaluation interval")
    parser.add_argument("--n-evals", type=int, default=10, help="episodes per evaluation")
    parser.add_argument("--features", type=int, nargs="+", default=[64, 64], help="layer widths")
    parser.add_argument("--batch-size", type=int, default=256, help="transitions per batch")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of all networks")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line, and rejects early what would fail later."""
    options = parser.parse_args(argv)
    if options.output.exists():
        parser.error(f"{options.output} exists already: choose another --output.")
    local = minari.list_local_datasets(latest_version=False)
    if options.dataset not in local:
        there_are = ", ".join(local) or "none (sac_mujoco.py --minari-id ID writes one)"
        parser.error(f"There is no Minari dataset {options.dataset} here; there are {there_are}.")
    return options


def load(options: argparse.Namespace) -> Task:
    """Loads the dataset and creates its environment."""
    source = minari.load_dataset(options.dataset)
    dataset = from_minari(source)
    returns = episode_returns(dataset)
    print(
        f"{options.dataset}: {len(dataset):,} steps in {len(returns):,} episodes, "
        f"mean return {returns.mean():.1f}, best {returns.max():.1f}"
    )
    return Task(dataset, returns, source.recover_environment(eval_env=True))


def episode_returns(dataset: Dataset) -> np.ndarray:
    """The sum of rewards of each episode of a dataset."""
    starts = np.flatnonzero(np.append(True, dataset["ends"][:-1]))
    return np.add.reduceat(dataset["rewards"], starts, dtype=np.float64)


def sizes(options: argparse.Namespace) -> dict[str, Any]:
    """Configuration fields that all examples share."""
    return {
        "n_updates": options.n_updates,
        "minibatch_size": options.batch_size,
        "features": tuple(options.features),
        "eval_frequency": options.eval_frequency,
        "n_evals": options.n_evals,
        "checkpoint_dir": options.output,
    }


def train(
    agent: Agent, hyperparams: Any, task: Task, options: argparse.Namespace
) -> dict[str, Any]:
    """Trains an agent on its dataset and evaluates it.

    Args:
        agent: The agent.
        hyperparams: Its hyperparameters.
        task: The dataset and its environment.
        options: Options from `parse`.

    Returns:
        The `agent`, the `metrics` of its run, and the outcomes of `episodes` after it.
    """
    name = type(agent).__name__
    _, metrics = agent.train(options.seed, hyperparams)

    title = f"{name} on {options.dataset}"
    plot(metrics, task.returns, title, options.output / "learning_curve.png")
    episodes = agent.eval(options.seed + 1, n_evals=options.n_evals)
    returns = episodes["returns"]
    print(
        f"{name} in {options.n_evals} other episodes: "
        f"mean return {returns.mean():.1f}, from {returns.min():.1f} to {returns.max():.1f}"
    )
    print(f"\nCheckpoints, logs and a plot are in {options.output}.")
    return {"agent": agent, "metrics": metrics, "episodes": episodes}


def plot(metrics: dict[str, Any], returns: np.ndarray, title: str, path: Path) -> None:
    """Plots the evaluation returns next to the returns of the dataset."""
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    plot_learning_curve(metrics, ax=ax, title=title, label="agent")
    ax.axhline(returns.mean(), color="gray", linestyle="--", label="mean of the dataset")
    ax.axhline(returns.max(), color="gray", linestyle=":", label="best of the dataset")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
