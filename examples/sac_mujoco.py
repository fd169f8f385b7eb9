"""SAC in a MuJoCo environment, with checkpoints, logs, a video and a dataset.

    python examples/sac_mujoco.py
    python examples/sac_mujoco.py --n-steps 30000 --resume
    python examples/sac_mujoco.py --env HalfCheetah-v5 --n-steps 300000 --features 256 256 \\
        --output runs/sac-cheetah --minari-id cheetah/sac-v0

This trains with evaluations, checkpoints and logs, resumes exactly from the last checkpoint, and
records a video of the best agent. Everything is written to `runs/sac-mujoco`. With `--minari-id`, all
transitions of the run become a Minari dataset for `iql_minari.py`, `cql_minari.py` and `bc_minari.py`.

MuJoCo needs OpenGL to render: on a machine without a screen, set the environment variable
`MUJOCO_GL=egl`.
"""

import argparse
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib.pyplot as plt
import minari

from jaxagents import SAC, sac
from jaxagents.data import Dataset, to_minari
from jaxagents.loggers import ConsoleLogger, TensorBoardLogger
from jaxagents.plotting import plot_learning_curve

FILM_SECONDS = 8
PRINTED = ("returns", "critic_loss", "entropy")


class ShortConsoleLogger(ConsoleLogger):
    """Prints some of the metrics; the other loggers write all of them to files."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        super().log(step, {name: metrics[name] for name in PRINTED if name in metrics})


def make_agent(options: argparse.Namespace) -> SAC:
    """Creates the agent. Its buffer keeps all transitions."""
    config = sac.AgentConfig(
        n_envs=1,
        n_updates=options.n_steps,
        learning_starts=options.start_steps,
        minibatch_size=options.batch_size,
        buffer_size=options.buffer_size,
        features=tuple(options.features),
        eval_frequency=options.eval_frequency,
        n_evals=options.n_evals,
        checkpoint_dir=options.output,
        restore_agent=options.resume,
    )
    return SAC(gymnasium.make(options.env, render_mode="rgb_array"), None, config)


def train(agent: SAC, options: argparse.Namespace) -> dict[str, Any]:
    """Trains, or resumes from the last checkpoint."""
    hyperparams = sac.HyperParameters(
        actor_learning_rate=options.learning_rate,
        critic_learning_rate=options.learning_rate,
        temperature_learning_rate=options.learning_rate,
    )
    with TensorBoardLogger(options.output / "tensorboard") as tensorboard:
        loggers = [ShortConsoleLogger(), tensorboard]
        go = agent.resume if options.resume else agent.train
        runner, metrics = go(options.seed, hyperparams, loggers=loggers)
    return {"runner": runner, "metrics": metrics}


def evaluate_best(agent: SAC, options: argparse.Namespace) -> dict[str, Any]:
    """Restores the best checkpoint and evaluates it on new episodes."""
    best, metrics = agent.restore("best")
    episodes = agent.eval(options.seed + 1, n_evals=options.n_evals)
    returns = episodes["returns"]
    print(
        f"\nThe best agent, of step {metrics['update_step'][-1]:,}, "
        f"in {options.n_evals} other episodes: mean return {returns.mean():.1f}, "
        f"from {returns.min():.1f} to {returns.max():.1f}"
    )
    return {"best": best, "episodes": episodes}


def plot(metrics: dict[str, Any], options: argparse.Namespace) -> None:
    """Plots the returns of the evaluations."""
    path = unused(options.output / "learning_curve.png")
    plot_learning_curve(metrics, path, title=f"SAC on {options.env}", steps_per_update=1)
    plt.close("all")


def film(agent: SAC, options: argparse.Namespace) -> None:
    """Records the beginning of an episode, if this machine can render the environment."""
    path = unused(options.output / "episode.gif")
    max_steps = round(FILM_SECONDS * agent.env.render_fps)
    try:
        agent.render_episode(options.seed, path, max_steps=max_steps)
    except Exception as error:  # MuJoCo, OpenGL and the window system raise various errors
        print(f"No video, since {options.env} cannot be rendered here: {error}")
        print("Try again with MUJOCO_GL=egl, --resume and the same options.")


def unused(path: Path) -> Path:
    """The path, numbered if the file exists: a resumed run keeps its earlier plots."""
    stem, number = path.stem, 1
    while path.exists():
        number += 1
        path = path.with_stem(f"{stem}-{number}")
    return path


def write_dataset(transitions: Dataset, options: argparse.Namespace) -> None:
    """Exports the replay buffer as a Minari dataset."""
    with warnings.catch_warnings():
        # Minari warns that an author and a link to the code are missing; published datasets need them.
        warnings.simplefilter("ignore", UserWarning)
        dataset = to_minari(
            transitions,
            options.minari_id,
            env=gymnasium.make(options.env),
            algorithm_name="SAC",
            description=f"The last {len(transitions)} steps of a run.",
        )
    print(f"\n{dataset.total_episodes} episodes are in the Minari dataset {options.minari_id}.")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Rejects early what would fail only after training."""
    if options.output.exists() and not options.resume:
        parser.error(f"{options.output} exists already: choose another --output, or --resume.")
    if options.resume and not options.output.exists():
        parser.error(f"There is nothing to resume in {options.output}.")
    if options.minari_id and not re.search(r"-v\d+$", options.minari_id):
        parser.error(f"--minari-id must end in a version such as -v0, got {options.minari_id}.")
    if options.minari_id in minari.list_local_datasets(latest_version=False):
        parser.error(f"The Minari dataset {options.minari_id} exists: choose another --minari-id.")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example.

    Args:
        argv: Command-line arguments; `sys.argv` by default.

    Returns:
        The results of each part.
    """
    parser = argparse.ArgumentParser(
        description="SAC in an environment of MuJoCo.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("runs/sac-mujoco"), help="new folder")
    parser.add_argument("--resume", action="store_true", help="continue the run in --output")
    parser.add_argument("--env", default="InvertedDoublePendulum-v5", help="any of Gymnasium's")
    parser.add_argument("--n-steps", type=int, default=15_000, help="steps, with one update each")
    parser.add_argument("--start-steps", type=int, default=1_000, help="random steps before them")
    parser.add_argument("--eval-frequency", type=int, default=1_500, help="evaluation interval")
    parser.add_argument("--n-evals", type=int, default=10, help="episodes per evaluation")
    parser.add_argument("--features", type=int, nargs="+", default=[128, 128], help="layer widths")
    parser.add_argument("--batch-size", type=int, default=256, help="transitions per batch")
    parser.add_argument("--buffer-size", type=int, default=100_000, help="steps to keep")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of all networks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minari-id", help="name of a new dataset, such as cheetah/sac-v0")
    options = parser.parse_args(argv)
    check(parser, options)

    agent = make_agent(options)
    trained = train(agent, options)
    plot(trained["metrics"], options)
    evaluated = evaluate_best(agent, options)
    film(agent, options)
    if options.minari_id:
        write_dataset(trained["runner"].buffer.to_dataset(), options)
    print(f"\nCheckpoints, logs and plots are in {options.output}.")
    return {**trained, **evaluated}


if __name__ == "__main__":
    main()
