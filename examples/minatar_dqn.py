"""DQN, C51 or QR-DQN on a MinAtar game, from images of 10 x 10 pixels.

    python examples/minatar_dqn.py
    python examples/minatar_dqn.py --agent qrdqn --env SpaceInvaders-MinAtar --output runs/invaders

This trains an agent with checkpoints, restores the best one, plots its learning curve, and records
a greedy episode. Everything is written to `runs/minatar-dqn`. With the default settings, DQN's
return in Breakout starts at about 0 and reaches 22 to 30; the first wall has 30 bricks.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnax
import jax

from jaxagents import c51, dqn, qrdqn
from jaxagents.plotting import plot_learning_curve

N_ENVS = 8
BUFFER_SIZE = 100_000
LEARNING_STARTS = 5_000
MAX_STEPS = 300
"""Length of the video."""
AGENTS = {"dqn": (dqn, dqn.DQN), "c51": (c51, c51.C51), "qrdqn": (qrdqn, qrdqn.QRDQN)}
SUPPORT = {"v_min": 0.0, "v_max": 20.0}  # for C51: larger returns count as 20
GAMES = ("Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "SpaceInvaders-MinAtar")


def make_agent(options: argparse.Namespace) -> dqn.DQNBase:
    """Creates the agent. Its default network has a convolution for images."""
    module, agent_class = AGENTS[options.agent]
    env, env_params = gymnax.make(options.env)
    n_updates = max(options.n_steps // N_ENVS, 1)
    config = module.AgentConfig(
        n_steps=n_updates,
        batch_size=N_ENVS,
        minibatch_size=64,
        features=(128,),
        n_step_returns=3,
        buffer_size=BUFFER_SIZE,
        learning_starts=LEARNING_STARTS,
        eval_frequency=max(n_updates // 10, 1),
        checkpoint_dir=options.output,
        checkpoint_buffer=False,  # its images would take hundreds of megabytes in each checkpoint
    )
    return agent_class(env, env_params, config)


def make_hyperparams(options: argparse.Namespace) -> dqn.HyperParameters:
    """Creates hyperparameters; exploration decays in the first tenth of the run."""
    module, _ = AGENTS[options.agent]
    return module.HyperParameters(
        gamma=0.99,
        tau=0.01,
        critic_learning_rate=1e-3,
        epsilon=0.02,
        epsilon_steps=options.n_steps / 10,
        **(SUPPORT if options.agent == "c51" else {}),
    )


def train(agent: dqn.DQNBase, options: argparse.Namespace) -> dict[str, Any]:
    """Trains the agent, plots its learning curve, and restores the best checkpoint."""
    hyperparams = make_hyperparams(options)
    print(agent)
    print(agent.log_hyperparams(hyperparams))
    _, metrics = agent.train(jax.random.key(options.seed), hyperparams)
    plot_learning_curve(
        metrics,
        options.output / "learning_curve.png",
        steps_per_update=N_ENVS,
        title=f"{type(agent).__name__} on {options.env}",
    )
    runner, _ = agent.restore("best")
    episodes = agent.eval(jax.random.key(options.seed + 1))
    best_step = int(runner.update_step) * N_ENVS
    print(f"\nMean return before training: {metrics['returns'][0].mean():.1f}")
    print(f"Mean return after {options.n_steps:,} steps: {metrics['returns'][-1].mean():.1f}")
    print(f"Best agent, after {best_step:,} steps: {episodes['returns'].mean():.1f}")
    return {"metrics": metrics, "runner": runner, "episodes": episodes}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example.

    Args:
        argv: Command-line arguments; `sys.argv` by default.

    Returns:
        The results of each part.
    """
    parser = argparse.ArgumentParser(
        description="DQN, C51 or QR-DQN on a MinAtar game.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("runs/minatar-dqn"), help="new folder")
    parser.add_argument("--agent", choices=AGENTS, default="dqn")
    parser.add_argument("--env", choices=GAMES, default="Breakout-MinAtar")
    parser.add_argument("--n-steps", type=int, default=400_000, help="environment steps")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.output.exists():
        parser.error(f"{options.output} exists already: choose another --output.")

    agent = make_agent(options)
    trained = train(agent, options)
    film = options.output / "episode.gif"
    frames = agent.render_episode(
        jax.random.key(options.seed + 2), film, max_steps=MAX_STEPS, fps=15
    )
    print(f"\nCheckpoints, a learning curve and an episode are in {options.output}.")
    return {**trained, "frames": frames}


if __name__ == "__main__":
    main()
