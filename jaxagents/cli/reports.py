"""Reports of runs: summaries, tables and plots."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxagents.catalogue import CATALOGUE, NO_PRESET
from jaxagents.cli.runs import FILE, Run

_EPISODES = 128


def report_start(agent: Any, run: Run, folder: Path) -> None:
    """Prints the agent, its folder, the preset, and the settings that differ from the defaults."""
    from jaxagents.core.describe import describe, to_json

    default = to_json(type(agent.config)())
    default |= {"checkpoint_dir": str(folder.absolute()), "restore_agent": True}
    chosen = to_json(agent.config).items()
    changed = {name: value for name, value in chosen if value != default[name]}
    if run.preset:
        note = f"{run.preset} (--preset {NO_PRESET} takes the agent's defaults)"
        changed = {"preset": note, **changed}
    title = str(agent).splitlines()[0].rstrip(":")
    print(describe(f"{title}, in {folder}", changed), flush=True)


def report_training(agent: Any, run: Run, folder: Path) -> None:
    """Plays greedy episodes, and draws the learning curve."""
    from jaxagents.plotting import plot_learning_curve

    updates, per_update = agent.previous_training_max_step, run.steps_per_update
    at_random = run.config.get("learning_starts")
    before = f" after {at_random:,} at random" if at_random else ""
    steps = f" ({updates * per_update:,} environment steps{before})" if per_update else ""
    print(f"After {updates:,} updates{steps}:")
    report_episodes(agent, run.seed + 1, _EPISODES, deterministic=True)
    title = f"{CATALOGUE[run.agent].agent} on {run.environment}"
    try:
        plot_learning_curve(
            agent.training_metrics,
            folder / "learning_curve.png",
            steps_per_update=per_update,
            title=title,
        )
        _close_pictures()
    except ImportError as error:
        print(f"There is no picture: {error}")
    print(f"Configuration, metrics, checkpoints and pictures are in {folder}. Try next:")
    name = shlex.quote(str(folder))
    if agent.episodes.env.can_draw:
        print(f"  jaxagents eval {name} --film episode.gif")
    print(f"  jaxagents resume {name} --n-steps {2 * updates}")
    print(f"  jaxagents export {name}")


def report_episodes(agent: Any, seed: int, n_evals: int, deterministic: bool) -> None:
    """Plays episodes, and prints statistics of each actor's returns."""
    import numpy as np

    outcomes = agent.eval(seed, n_evals=n_evals, deterministic=deterministic)
    returns = np.asarray(outcomes["returns"])
    how = "greedy" if deterministic else "sampled"
    for actor, of_actor in enumerate(returns.reshape(n_evals, -1).T):
        who = f" for actor {actor}" if returns.ndim > 1 else ""
        stats = agent.summarize(of_actor)
        print(
            f"{n_evals} {how} episodes return {stats.mean:.1f}{who} on average (std {stats.std:.1f}, "
            f"min {stats.min:.1f}, max {stats.max:.1f})."
        )


def report_sweep(result: Any, run: Run, folder: Path) -> None:
    """Prints the returns of each set of hyperparameters at the last evaluation."""
    import numpy as np

    from jaxagents.plotting.trainings import labels_of

    last = np.asarray(result.metrics["returns"])[:, :, -1]
    means = last.reshape(*last.shape[:2], -1).mean(axis=-1)
    columns = {
        name: np.array([of_set[name] for of_set in run.hyperparams], float)
        for name in run.hyperparams[0]
    }
    labels = labels_of(columns, len(means)) if len(means) > 1 else [""]
    rows = []
    for i, label in enumerate(labels):
        best = "best" if i == result.best and len(means) > 1 else ""
        numbers = [means[i].mean(), means[i].std(), means[i].min(), means[i].max()]
        rows.append([str(i), *(f"{x:.1f}" for x in numbers), best, label])
    print(f"Returns of {means.shape[1]} seeds at the last evaluation:")
    print_table(["set", "mean", "std", "lowest", "highest", "", "values"], rows)
    print(f"Metrics and checkpoints are in {folder / 'sweep'}. Try next:")
    print(f"  jaxagents plot {shlex.quote(str(folder))}")


def draw_runs(folders: Sequence[Path], metric: str, path: Path) -> None:
    """Plots a metric of several runs in one figure, over environment steps if known for all runs.

    Args:
        folders: Folders of runs or sweeps, from the command line or from Python.
        metric: The metric.
        path: File of the figure.

    Raises:
        FileNotFoundError: A folder holds no metrics.
        KeyError: A folder does not hold this metric.
        MistakeError: The description of a run cannot be read.
    """
    from jaxagents.plotting import plot_learning_curve

    runs = [Run.read(folder) if (folder / FILE).is_file() else None for folder in folders]
    sizes = [run and run.steps_per_update for run in runs]
    axes = None
    for folder, per_update in zip(folders, sizes, strict=True):
        axes = plot_learning_curve(
            folder,
            path if folder is folders[-1] else None,
            metric=metric,
            steps_per_update=per_update if all(sizes) else None,
            label=folder.resolve().name,
            ax=axes,
        )
    _close_pictures()


def _close_pictures() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows in columns, with numbers right-aligned."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    are_numbers = [all(map(_is_number, column[1:])) for column in columns]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, are_numbers, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
