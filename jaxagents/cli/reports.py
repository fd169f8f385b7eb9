"""Reports and pictures after a training."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from jaxagents.catalogue import CATALOGUE
from jaxagents.cli.curves import Curve, draw
from jaxagents.cli.runs import Run
from jaxagents.cli.tables import print_table
from jaxagents.cli.values import differences, in_words
from jaxagents.core.describe import describe, to_json

_EPISODES = 128


def report_start(agent: Any, folder: Path) -> None:
    """Says what is trained, where, and what of the configuration is other than by default."""
    chosen, default = to_json(agent.config), to_json(type(agent.config)())
    of_folder = "checkpoint_dir", "restore_agent"
    changed = {
        name: value
        for name, value in chosen.items()
        if value != default[name] and name not in of_folder
    }
    title = str(agent).splitlines()[0].rstrip(":")
    print(describe(f"{title}, in {folder}", changed), flush=True)


def report_training(agent: Any, run: Run, folder: Path) -> None:
    """Plays greedy episodes, and draws the learning curve."""
    updates, per_update = agent.previous_training_max_step, run.steps_per_update
    at_random = run.config.get("learning_starts")
    before = f" after {at_random:,} at random" if at_random else ""
    steps = f" ({updates * per_update:,} environment steps{before})" if per_update else ""
    print(f"After {updates:,} updates{steps}:")
    report_episodes(agent, run.seed + 1, _EPISODES, deterministic=True)
    title = f"{CATALOGUE[run.agent].agent} on {run.environment}"
    picture = folder / "learning_curve.png"
    try:
        draw([Curve(None, agent.training_metrics, per_update)], picture, title=title)
    except ImportError as error:
        print(f"There is no picture: {error}")
    print(f"Configuration, metrics, checkpoints and pictures are in {folder}. Try next:")
    name = shlex.quote(str(folder))
    if agent.episodes.env.can_draw:
        print(f"  jaxagents eval {name} --film episode.gif")
    print(f"  jaxagents resume {name} --n-steps {2 * updates}")
    print(f"  jaxagents export {name}")


def report_episodes(agent: Any, seed: int, n_evals: int, deterministic: bool) -> None:
    """Plays episodes, and prints statistics of their returns, for each actor."""
    import jax

    outcomes = agent.eval(jax.random.key(seed), n_evals=n_evals, deterministic=deterministic)
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
    last = np.asarray(result.metrics["returns"])[:, :, -1]
    means = last.reshape(*last.shape[:2], -1).mean(axis=-1)
    rows = []
    for i, values in enumerate(differences(run.hyperparams)):
        best = "best" if i == result.best and len(means) > 1 else ""
        numbers = [means[i].mean(), means[i].std(), means[i].min(), means[i].max()]
        rows.append([str(i), *(f"{x:.1f}" for x in numbers), best, in_words(values)])
    print(f"Returns of {means.shape[1]} seeds at the last evaluation:")
    print_table(["set", "mean", "std", "lowest", "highest", "", "values"], rows)
    print(f"Metrics and checkpoints are in {folder / 'sweep'}. Try next:")
    print(f"  jaxagents plot {shlex.quote(str(folder))}")
