"""Learning curves of several seeds, as tables and pictures."""

import itertools
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from parts import Part
from peers import Result, table


def learned(results: list[Result]) -> dict[str, list[Result]]:
    """The runs that learned something, by series."""
    runs = sorted((run for run in results if "steps" in run), key=lambda run: run["series"])
    return {name: list(group) for name, group in itertools.groupby(runs, lambda r: r["series"])}


def data_returns(results: list[Result]) -> dict[str, list[float]]:
    """The returns of the episodes in the data, by the name of these."""
    return {name: data["returns"] for run in results for name, data in run.get("data", {}).items()}


def summary(results: list[Result]) -> str:
    """A table of the returns at the end."""
    rows = []
    for name, runs in learned(results).items():
        means = [np.mean(run["returns"][-1]) for run in runs]
        n_episodes = sum(len(run["returns"][-1]) for run in runs)
        numbers = (f"{f(means):,.1f}" for f in (np.mean, np.min, np.max))
        rows.append([name, *numbers, len(runs), n_episodes])
    for name, returns in data_returns(results).items():
        rows.append(
            [f"the {name} data themselves", f"{np.mean(returns):,.1f}", "", "", "", len(returns)]
        )
    return table(["", "Mean return", "Lowest seed", "Highest seed", "Seeds", "Episodes"], rows)


def plot(part: Part, results: list[Result], path: Path) -> None:
    """Draws the mean of the seeds of each series, and each seed thinly.

    Args:
        part: What is shown.
        results: What its runs measured.
        path: File to write.
    """
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, runs in learned(results).items():
        shortest = min(len(run["steps"]) for run in runs)
        means = np.array([np.mean(run["returns"], axis=1)[:shortest] for run in runs])
        steps = runs[0]["steps"][:shortest]
        (line,) = axes.plot(steps, means.mean(axis=0), lw=2, label=f"{name} ({len(runs)} seeds)")
        axes.plot(steps, means.T, color=line.get_color(), lw=0.7, alpha=0.5)
    for (name, returns), style in zip(data_returns(results).items(), ("--", ":"), strict=False):
        axes.axhline(np.mean(returns), color="grey", ls=style, lw=1, label=f"{name} data")
    axes.set(xlabel=part.x_label, ylabel="mean return", title=part.title)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
