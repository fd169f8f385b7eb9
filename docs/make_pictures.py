"""The pictures at the top of the README: a learning curve and two videos.

    python docs/make_pictures.py

trains PPO with eight seeds on CartPole-v1 and DQN on Breakout-MinAtar, in a few minutes on two cores,
and writes what they look like to `docs/pictures`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import figures
import gymnax
import jax

from jaxagents import DQN, dqn
from jaxagents.agents.config import annealed
from jaxagents.plotting import plot_learning_curve
from jaxagents.presets import preset

N_SEEDS = 8
N_ENVS = 8


def cartpole(folder: Path, n_updates: int) -> None:
    """A learning curve of several seeds of a preset, and an episode of the first of them."""
    chosen = preset("ppo-cartpole")
    frequency = max(n_updates // 25, 1)
    shorter = chosen.config.replace(
        n_updates=n_updates, eval_frequency=frequency
    )
    config = annealed(shorter)
    agent = chosen.agent(chosen.env, None, config)
    keys = jax.random.split(jax.random.key(0), N_SEEDS)
    result = agent.sweep(keys, chosen.hyperparams)
    with figures.drawn(folder / "cartpole_curve.svg") as axes:
        plot_learning_curve(
            result,
            steps_per_update=config.batch_size * config.rollout_length,
            title="PPO on CartPole-v1",
            label=f"{N_SEEDS} seeds: inter-quartile mean, 95 % interval",
            ax=axes,
        )
    agent.select(result, 0, 0)
    agent.render_episode(
        jax.random.key(1), folder / "cartpole.gif", max_steps=300
    )


def breakout(folder: Path, n_updates: int) -> None:
    """An episode of the best agent of a training."""
    with tempfile.TemporaryDirectory() as checkpoints:
        config = dqn.AgentConfig(
            n_steps=n_updates,
            batch_size=N_ENVS,
            minibatch_size=64,
            features=(128,),
            n_step_returns=3,
            buffer_size=100_000,
            learning_starts=5_000,
            eval_frequency=max(n_updates // 10, 1),
            checkpoint_dir=checkpoints,
            checkpoint_buffer=False,
        )
        hyperparams = dqn.HyperParameters(
            tau=0.01,
            critic_learning_rate=1e-3,
            epsilon=0.02,
            epsilon_steps=n_updates * N_ENVS / 10,
        )
        agent = DQN(*gymnax.make("Breakout-MinAtar"), config)
        agent.train(jax.random.key(0), hyperparams)
        agent.restore("best")
    agent.render_episode(
        jax.random.key(2), folder / "breakout.gif", max_steps=300, fps=20
    )


PICTURES = {"cartpole": (cartpole, 100), "breakout": (breakout, 50_000)}


def main(argv: Sequence[str] | None = None) -> None:
    """Makes the pictures.

    Args:
        argv: Words of the command line; `sys.argv` by default.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PICTURES)
    parser.add_argument("--folder", type=Path, default=Path("docs/pictures"))
    parser.add_argument(
        "--n-updates", type=int, help="instead of the default number"
    )
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, (make, n_updates) in PICTURES.items():
        if options.only in (None, name):
            for film in options.folder.glob(f"{name}.gif"):
                film.unlink()
            make(options.folder, options.n_updates or n_updates)


if __name__ == "__main__":
    main()
