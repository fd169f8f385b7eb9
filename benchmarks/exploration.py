"""Trains PPO with and without random network distillation in a hard exploration task.

In DeepSea of size N, a step to the left costs nothing, a step to the right costs a little, and an agent
that goes right in all N steps of an episode earns a reward of 1. Which action goes right differs between
cells. Random actions find the reward once in 2^N episodes. Both agents have the same settings, except
for those of the exploration bonus.
"""

import argparse
import sys
from pathlib import Path

import gymnax
import jax
import numpy as np

from jaxagents import PPO, RND
from jaxagents.ppo import OptimizerParams

TITLE = "# PPO with and without random network distillation"
AGENTS = {"PPO": PPO, "RND": RND}
EPISODES_OF_A_ROLLOUT = 5


def main() -> None:
    """Runs the benchmark and prints its table."""
    args = parse_args()
    head = "| Task | Agent | Mean return of each seed | Steps until all seeds found the reward |"
    lines = [TITLE, "", head, "|---|---|---|---|"]
    for size in args.sizes:
        for name in args.agents:
            returns, n_steps = train(name, size, args)
            by_seed = ", ".join(f"{x:.2f}" for x in returns[:, -1])
            found = (returns > 0.5).all(axis=0)
            first = f"{n_steps[found.argmax()]:,}" if found.any() else "-"
            lines.append(f"| DeepSea, {size} | {name} | {by_seed} | {first} |")
            print(lines[-1], file=sys.stderr)
    table = "\n".join(lines)
    print(table)
    if args.markdown is not None:
        args.markdown.write_text(f"{table}\n", encoding="utf-8")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--sizes", type=int, nargs="+", default=[16, 20])
    add("--agents", nargs="+", default=list(AGENTS), choices=list(AGENTS))
    add("--updates", type=int, default=200)
    add("--seeds", type=int, default=3)
    add("--markdown", type=Path, help="file for the table")
    return parser.parse_args()


def train(name: str, size: int, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """The mean return of each seed at each evaluation, and the environment steps before each."""
    agent_type = AGENTS[name]
    config = agent_type._config_type(
        n_steps=args.updates,
        eval_frequency=max(1, args.updates // 20),
        n_evals=8,
        batch_size=16,
        rollout_length=EPISODES_OF_A_ROLLOUT * size,
    )
    optimizer = OptimizerParams(learning_rate=1e-3, grad_clip=0.5)
    hyperparams = agent_type._hyperparams_type(
        ent_coeff=0.01, actor_optimizer_params=optimizer, critic_optimizer_params=optimizer
    )
    agent = agent_type(*gymnax.make("DeepSea-bsuite", size=size), config)
    keys = jax.random.split(jax.random.key(0), args.seeds)
    _, metrics = jax.vmap(lambda key: agent.train(key, hyperparams))(keys)
    n_steps = np.asarray(metrics["update_step"])[0] * config.batch_size * config.rollout_length
    return np.asarray(metrics["returns"]).mean(axis=-1), n_steps


if __name__ == "__main__":
    main()
