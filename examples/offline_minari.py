"""The parts that examples of offline learning share: data, training, comparison with the data."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import matplotlib.pyplot as plt
import minari
import numpy as np

from jaxagents.data import Dataset, from_minari
from jaxagents.host import OfflineConfig, evaluate, rescale_actions, train_offline
from jaxagents.learners.learner import Learner
from jaxagents.plotting import plot_learning_curve


class Task(NamedTuple):
    """A task to be learnt.

    Attributes:
        dataset: Transitions, with actions in [-1, 1].
        returns: Returns of all episodes of the Minari dataset.
        env: Its environment, which takes actions in [-1, 1].
    """

    dataset: Dataset
    returns: np.ndarray
    env: gymnasium.Env


def make_parser(description: str, name: str) -> argparse.ArgumentParser:
    """Makes a parser of the options that all examples have.

    Args:
        description: What the example is.
        name: Name of the algorithm, after which the default folder is called.

    Returns:
        The parser, to which an example adds its own options.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    output = Path(f"runs/{name}-minari")
    parser.add_argument("dataset", help="identifier of a Minari dataset on this machine")
    parser.add_argument("--output", type=Path, default=output, help="new folder")
    parser.add_argument("--n-updates", type=int, default=10_000, help="updates in all")
    parser.add_argument("--eval-frequency", type=int, default=1_000, help="updates between points")
    parser.add_argument("--n-evals", type=int, default=10, help="episodes of an evaluation")
    parser.add_argument("--features", type=int, nargs="+", default=[64, 64], help="layer widths")
    parser.add_argument("--batch-size", type=int, default=256, help="steps in a batch")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of all networks")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line, and refuses at once what would fail only later."""
    options = parser.parse_args(argv)
    if options.output.exists():
        parser.error(f"{options.output} exists already: choose another --output.")
    local = minari.list_local_datasets(latest_version=False)
    if options.dataset not in local:
        there_are = ", ".join(local) or "none (sac_mujoco.py --minari-id ID writes one)"
        parser.error(f"There is no Minari dataset {options.dataset} here; there are {there_are}.")
    return options


def load(options: argparse.Namespace) -> Task:
    """Loads the dataset, and makes its environment."""
    source = minari.load_dataset(options.dataset)
    space = source.action_space
    if not isinstance(space, gymnasium.spaces.Box):
        raise ValueError(f"The learners here take continuous actions, got a dataset of {space}.")
    dataset = from_minari(source, rescale_actions=True)
    returns = episode_returns(dataset)
    print(
        f"{options.dataset}: {len(dataset):,} steps in {len(returns):,} episodes, "
        f"mean return {returns.mean():.1f}, best {returns.max():.1f}"
    )
    env = source.recover_environment(eval_env=True)
    return Task(dataset, returns, rescale_actions(env))


def episode_returns(dataset: Dataset) -> np.ndarray:
    """The sum of rewards of each episode of a dataset."""
    starts = np.flatnonzero(np.append(True, dataset["ends"][:-1]))
    return np.add.reduceat(dataset["rewards"], starts, dtype=np.float64)


def scale_rewards(task: Task) -> Task:
    """Brings rewards to a size for which hyperparameters are known, as the authors of IQL do.

    The best and the worst episode then differ by 1000.
    """
    scale = 1000.0 / (task.returns.max() - task.returns.min())
    rewards = task.dataset["rewards"] * np.float32(scale)
    return task._replace(dataset=Dataset({**task.dataset, "rewards": rewards}))


def train(
    learner_class: type[Learner], task: Task, options: argparse.Namespace, **settings: Any
) -> dict[str, Any]:
    """Trains a learner on the dataset, and plays episodes with it.

    Args:
        learner_class: Class of the learner.
        task: What there is to learn.
        options: What `parse` gave.
        **settings: Configuration and hyperparameters of the learner.

    Returns:
        The `learner`, the `metrics` of its training, and those of `episodes` after it.
    """
    name = learner_class.__name__.removesuffix("Learner")
    learner = learner_class.create(
        options.seed,
        task.dataset["observations"][0],
        task.dataset["actions"][0],
        features=options.features,
        **settings,
    )
    config = OfflineConfig(
        n_updates=options.n_updates,
        batch_size=options.batch_size,
        seed=options.seed,
        eval_frequency=options.eval_frequency,
        n_evals=options.n_evals,
        log_frequency=options.eval_frequency,
        checkpoint_dir=options.output,
    )
    learner, metrics = train_offline(learner, task.dataset, config, eval_env=task.env)

    title = f"{name} on {options.dataset}"
    plot(metrics, task.returns, title, options.output / "learning_curve.png")
    episodes = evaluate(learner.sample_actions, task.env, options.n_evals, seed=options.seed)
    returns = episodes["returns"]
    print(
        f"{name} in {options.n_evals} other episodes: "
        f"mean return {returns.mean():.1f}, from {returns.min():.1f} to {returns.max():.1f}"
    )
    print(f"\nCheckpoints, logs and a picture are in {options.output}.")
    return {"learner": learner, "metrics": metrics, "episodes": episodes}


def plot(metrics: dict[str, Any], returns: np.ndarray, title: str, path: Path) -> None:
    """Plots the returns of the evaluations beside those of the dataset."""
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    plot_learning_curve(metrics, ax=ax, title=title, label="learner")
    ax.axhline(returns.mean(), color="gray", linestyle="--", label="mean of the dataset")
    ax.axhline(returns.max(), color="gray", linestyle=":", label="best of the dataset")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
