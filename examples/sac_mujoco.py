"""SAC in an environment of MuJoCo, with everything around a training on the host.

    python examples/sac_mujoco.py
    python examples/sac_mujoco.py --n-steps 30000 --resume
    python examples/sac_mujoco.py --env HalfCheetah-v5 --n-steps 300000 --features 256 256 \\
        --output runs/sac-cheetah --minari-id cheetah/sac-v0

trains with evaluations, checkpoints and logs, goes on exactly from the last checkpoint, and films the
best learner. Everything is written to `runs/sac-mujoco`; with `--minari-id`, all that happened in
training becomes a Minari dataset, from which `iql_minari.py`, `cql_minari.py` and `bc_minari.py` learn.
Pictures of MuJoCo need OpenGL: on a machine without a screen, set the environment variable
`MUJOCO_GL=egl`.
"""

import argparse
import contextlib
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib.pyplot as plt
import minari
from gymnasium.wrappers import TimeLimit

from jaxagents.data import Dataset, ReplayBuffer, to_minari
from jaxagents.host import (
    OnlineConfig,
    evaluate,
    example_transition,
    record_video,
    rescale_actions,
    restore_learner,
    train_online,
)
from jaxagents.loggers import ConsoleLogger, TensorBoardLogger
from jaxagents.plotting import plot_learning_curve
from jaxagents.sac import SACLearner

FILM_SECONDS = 8
PRINTED = (
    "evaluation/return",
    "training/episode_return",
    "training/critic_loss",
    "training/entropy",
)


class ShortConsoleLogger(ConsoleLogger):
    """Prints some of the metrics; the files of the other loggers hold all."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        super().log(step, {name: metrics[name] for name in PRINTED if name in metrics})


def make_env(options: argparse.Namespace, render_mode: str | None = None) -> gymnasium.Env:
    """Makes the environment, whose actions are rescaled from [-1, 1] to its bounds."""
    return rescale_actions(gymnasium.make(options.env, render_mode=render_mode))


def make_learner(options: argparse.Namespace, transition: dict[str, Any]) -> SACLearner:
    """Makes a learner before its first update."""
    return SACLearner.create(
        options.seed,
        transition["observations"],
        transition["actions"],
        features=options.features,
        actor_learning_rate=options.learning_rate,
        critic_learning_rate=options.learning_rate,
        temperature_learning_rate=options.learning_rate,
    )


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Trains, or goes on from the last checkpoint; the buffer keeps all that happened."""
    env, eval_env = make_env(options), make_env(options)
    transition = example_transition(env)
    config = OnlineConfig(
        n_steps=options.n_steps,
        start_steps=options.start_steps,
        batch_size=options.batch_size,
        seed=options.seed,
        eval_frequency=options.eval_frequency,
        n_evals=options.n_evals,
        log_frequency=options.eval_frequency,
        checkpoint_dir=options.output,
    )
    learner = make_learner(options, transition)
    buffer = ReplayBuffer.create(transition, config.buffer_size)
    with TensorBoardLogger(options.output / "tensorboard") as tensorboard:
        learner, metrics = train_online(
            learner,
            env,
            config,
            eval_env=eval_env,
            buffer=buffer,
            resume=options.resume,
            loggers=[ShortConsoleLogger(), tensorboard],
        )
    return {"learner": learner, "metrics": metrics, "buffer": buffer}


def evaluate_best(options: argparse.Namespace, learner: SACLearner) -> dict[str, Any]:
    """Restores the learner of the best checkpoint, and plays episodes that it has not met."""
    best, metrics = restore_learner(learner, options.output, "best")
    episodes = evaluate(best.sample_actions, make_env(options), options.n_evals, seed=options.seed)
    returns = episodes["returns"]
    print(
        f"\nThe best learner, of step {metrics['step'][-1]:,}, in {options.n_evals} other episodes: "
        f"mean return {returns.mean():.1f}, from {returns.min():.1f} to {returns.max():.1f}"
    )
    return {"best": best, "episodes": episodes}


def plot(metrics: dict[str, Any], options: argparse.Namespace) -> None:
    """Plots the returns of the evaluations, and those of the training's own episodes."""
    title = f"SAC on {options.env}"
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    plot_learning_curve(metrics, ax=ax, metric="episode_return", label="training")
    plot_learning_curve(metrics, ax=ax, title=title, label="evaluation")
    figure.savefig(unused(options.output / "learning_curve.png"), dpi=150)
    plt.close(figure)


def film(best: SACLearner, options: argparse.Namespace) -> None:
    """Films the beginning of an episode, if this machine can render the environment."""
    with contextlib.closing(make_env(options, render_mode="rgb_array")) as env:
        try:
            env.reset()
            env.render()
        except Exception as error:  # of whatever kind MuJoCo, OpenGL or the window system raise
            print(f"No film, since {options.env} cannot be rendered here: {error}")
            print("Try again with MUJOCO_GL=egl, --resume and the same options.")
            return
        beginning = TimeLimit(env, round(FILM_SECONDS * env.metadata["render_fps"]))
        path = unused(options.output / "episode.gif")
        record_video(best.sample_actions, beginning, path, seed=options.seed)


def unused(path: Path) -> Path:
    """The path, numbered if a file has it already: a training that goes on keeps its pictures."""
    stem, number = path.stem, 1
    while path.exists():
        number += 1
        path = path.with_stem(f"{stem}-{number}")
    return path


def write_dataset(buffer: ReplayBuffer, options: argparse.Namespace) -> None:
    """Writes the replay buffer as a dataset of Minari, with actions within the environment's bounds."""
    env = gymnasium.make(options.env)
    transitions = buffer.to_dataset()
    low, high = env.action_space.low, env.action_space.high
    actions = low + (transitions["actions"] + 1.0) * (high - low) / 2.0
    with warnings.catch_warnings():
        # Minari asks for an author and a link to the code, which a dataset to be published should have.
        warnings.simplefilter("ignore", UserWarning)
        dataset = to_minari(
            Dataset({**transitions, "actions": actions}),
            options.minari_id,
            env=env,
            algorithm_name="SAC",
            description=f"The last {len(buffer)} steps of a training.",
        )
    print(f"\n{dataset.total_episodes} episodes are in the Minari dataset {options.minari_id}.")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses at once what would fail only after the training."""
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
        argv: Words of the command line; those of the process by default.

    Returns:
        The results of each part.
    """
    parser = argparse.ArgumentParser(
        description="SAC in an environment of MuJoCo.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("runs/sac-mujoco"), help="new folder")
    parser.add_argument("--resume", action="store_true", help="go on with the training in --output")
    parser.add_argument("--env", default="InvertedDoublePendulum-v5", help="any of Gymnasium's")
    parser.add_argument("--n-steps", type=int, default=15_000, help="steps in all")
    parser.add_argument("--start-steps", type=int, default=1_000, help="random steps at first")
    parser.add_argument("--eval-frequency", type=int, default=1_500, help="steps between points")
    parser.add_argument("--n-evals", type=int, default=10, help="episodes of an evaluation")
    parser.add_argument("--features", type=int, nargs="+", default=[128, 128], help="layer widths")
    parser.add_argument("--batch-size", type=int, default=256, help="steps in a batch")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of all networks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minari-id", help="name of a new dataset, such as cheetah/sac-v0")
    options = parser.parse_args(argv)
    check(parser, options)

    trained = train(options)
    plot(trained["metrics"], options)
    evaluated = evaluate_best(options, trained["learner"])
    film(evaluated["best"], options)
    if options.minari_id:
        write_dataset(trained["buffer"], options)
    print(f"\nCheckpoints, logs and pictures are in {options.output}.")
    return {**trained, **evaluated}


if __name__ == "__main__":
    main()
