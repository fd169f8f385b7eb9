"""Measures the returns of off-policy and offline agents in gymnax environments, over several seeds.

One `sweep` trains the seeds of an agent. Results are saved in a file, so that agents and environments
can run at the same time or on different days: a run replaces its own rows, and the report shows all of
them.
"""

import argparse
import datetime
import sys
import time
from pathlib import Path
from typing import Any

import gymnax
import jax
import numpy as np
import reports
from matplotlib import pyplot as plt
from off_policy_tasks import TASKS, Task

from jaxagents.presets import preset

DATA_STEPS = 10_000
HIGHLIGHTS = {
    "cartpole": "DQN",
    "pendulum": "SAC",
    "mountain_car_continuous": "TD3",
    "breakout": "Rainbow",
    "pendulum_offline": "IQL",
}
"""The agent of each task whose mean return opens the page."""


def main() -> None:
    """Trains, and writes the results, the plots and the report."""
    args = parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    results_file = args.output / "off_policy.json"
    for name in args.only if not args.report else ():
        task = TASKS[name]
        for label in task.agents if args.agents is None else args.agents:
            if label in task.agents:
                reports.keep(results_file, name, label, result=run(name, label, args))
    found = reports.kept(results_file)
    learned = {
        name: {label: found[name][label] for label in task.agents if label in found[name]}
        for name, task in TASKS.items()
        if name in found
    }
    for name, results in learned.items():
        curves = {label: (result["steps"], result["curves"]) for label, result in results.items()}
        x_label = "environment steps" if TASKS[name].data is None else "updates"
        picture = args.output / f"off_policy_{name}.png"
        reports.draw(picture, TASKS[name].env, curves, x_label=x_label)
    if learned:
        draw_returns(args.output / "off_policy.svg", learned)
    reports.write(report(learned), args.output / "off_policy.md", opening)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=TASKS, default=list(TASKS), help="environments")
    labels = list(dict.fromkeys(label for task in TASKS.values() for label in task.agents))
    add("--agents", nargs="+", choices=labels, help="agents (default: all of each environment)")
    add("--seeds", type=int, default=5, help="seeds per agent")
    add("--quick", action="store_true", help="only check that everything runs")
    add("--report", action="store_true", help="only rewrite the report")
    add("--output", type=Path, default=Path("runs/off-policy"), help="folder for the results")
    return parser.parse_args()


def run(name: str, label: str, args: argparse.Namespace) -> dict[str, Any]:
    """Trains several seeds of an agent, and returns the results to save."""
    task = TASKS[name]
    env, agent_type, config, hyperparams, _ = preset(task.agents[label])
    is_offline = task.data is not None
    steps_per_update = 1 if is_offline else config.rollout_length * config.batch_size
    n_seeds = args.seeds
    if args.quick:
        n_seeds, config = 2, config.replace(n_steps=20, eval_frequency=2)
    data = {"dataset": task.data(200 if args.quick else DATA_STEPS)} if is_offline else {}
    agent = agent_type(*gymnax.make(env), config, **data)
    print(f"{label} on {env}: {n_seeds} seeds", file=sys.stderr)
    began = time.perf_counter()
    result = agent.sweep(jax.random.split(jax.random.key(0), n_seeds), hyperparams)
    seconds = time.perf_counter() - began
    metrics = jax.tree.map(lambda x: x[0], result.metrics)
    test_returns = [
        round(tested(agent, jax.tree.map(lambda x, i=i: x[0, i], result.runners)), 2)
        for i in range(n_seeds)
    ]
    return {
        "steps": (metrics["update_step"][0] * steps_per_update).tolist(),
        "curves": metrics["returns"].mean(axis=-1, dtype=float).round(2).tolist(),
        "returns": test_returns,
        "seconds": round(seconds, 1),
        "date": f"{datetime.date.today():%Y-%m-%d}",
    }


def tested(agent: Any, runner: Any) -> float:
    """The mean return over 100 greedy episodes after training."""
    agent.collect_training(runner, {})
    return float(np.mean(agent.eval(jax.random.key(1), n_evals=100)["returns"]))


def report(results: dict[str, Any]) -> str:
    """The page: a table and a plot for each environment."""
    lines = [
        "# Returns of off-policy and offline agents",
        "",
        INTRODUCTION,
        "",
        measured_on(results),
        "",
    ]
    for name, task in TASKS.items():
        lines += section(name, task, results.get(name, {}))
    return "\n".join(lines).rstrip()


def measured_on(results: dict[str, Any]) -> str:
    """The paragraph that says when the results were measured, and how to reproduce them."""
    dates = {found["date"] for task in results.values() for found in task.values()}
    when = f"Measured {reports.period(dates)}. " if dates else ""
    return f"{when}To reproduce: `python benchmarks/off_policy.py --output docs/benchmarks`."


def opening(page: str, chart: Path) -> str:
    """The mean returns of some agents; the chart shows the return of each seed, which tables lack."""
    means = {
        (table.heading, label): mean
        for table in reports.tables(page)
        for label, mean, *_ in table.rows
    }
    numbers = [
        (f"{reports.numbers_in(means[place])[0]:.3g}", f"{label}, {heading(TASKS[name])}")
        for name, label in HIGHLIGHTS.items()
        if (place := (heading(TASKS[name]), label)) in means
    ]
    return reports.in_large(numbers, {"Return of each seed after training": chart.name})


def heading(task: Task) -> str:
    """The heading of a task."""
    return f"{task.env}{', offline' * (task.data is not None)}"


def draw_returns(path: Path, results: dict[str, Any]) -> None:
    """Draws a panel for each environment, with the mean of each agent and a dot for each seed."""
    names = [name for name in TASKS if name in results]
    with plt.style.context(reports.STYLE):
        rows = -(-len(names) // 2)
        figure, panels = plt.subplots(rows, 2, figsize=(6.4, 2.1 * rows), squeeze=False)
        for axes in panels.flat[len(names) :]:
            axes.axis("off")
        for axes, name in zip(panels.flat, names, strict=False):
            for row, returns in enumerate(found["returns"] for found in results[name].values()):
                axes.plot(returns, [row] * len(returns), "C0o", alpha=0.4)
                axes.plot(np.mean(returns), row, "k|", ms=14)
            axes.set_title(heading(TASKS[name]), fontsize="medium")
            axes.set(ylim=(len(results[name]) - 0.5, -0.5))
            axes.set_yticks(range(len(results[name])), results[name])
            axes.locator_params(axis="x", nbins=3)
            axes.grid(alpha=0.3)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def section(name: str, task: Task, results: dict[str, Any]) -> list[str]:
    """The section about an environment."""
    rows = []
    for label, result in results.items():
        means = result["returns"]
        numbers = [f"{f(means):,.1f}" for f in (np.mean, np.std, np.min, np.max)]
        total = f"{result['steps'][-1]:,}"
        published = [f"{task.published[label]:,.1f}" if label in task.published else "-"]
        rows.append([label, *numbers, len(means), total, *(published if task.published else [])])
    head = ["", "Mean", "Std", "Lowest", "Highest", "Seeds", "Steps"]
    if task.published:
        head.append("RL Zoo")
    missing = [label for label in task.agents if label not in results]
    picture = f"![Learning curves](off_policy_{name}.png)"
    parts = [
        f"## {heading(task)}",
        task.meaning,
        *([reports.table(head, rows), picture] if rows else []),
        *([f"Not measured yet: {', '.join(missing)}."] if missing else []),
    ]
    return [line for part in parts for line in (part, "")]


INTRODUCTION = """\
What returns do off-policy and offline agents reach with the [presets](../guide/command_line.md#presets)?
Each seed plays 100 greedy episodes after the last update; the tables show the mean, standard deviation,
lowest and highest of the seeds' mean returns. We selected no seeds or checkpoints. The curves show ten
evaluations of 32 greedy episodes: the mean over seeds, and each seed as a thin line. The settings for
classic control were tuned on these seeds; the settings for MinAtar were not tuned.

The column RL Zoo shows the mean return of one trained agent from [RL Baselines3
Zoo](https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md). Its DQN and QR-DQN trained
for 50,000 steps in CartPole, 100,000 in Acrobot and 120,000 in MountainCar, its SAC and TD3 for 20,000
in Pendulum, and its TD3 for 300,000 in MountainCarContinuous. We know of no such table for MinAtar. The
MinAtar games are from gymnax, without sticky actions, with at most 1,000 steps per episode (Freeway:
2,500)."""


if __name__ == "__main__":
    main()
