"""Measures what normalisation of observations and rewards costs PPO, in one process.

The same agent with and without the switches takes turns, so that a slow moment of the machine meets
both. A ratio is the median over the turns of the time with them by the time without.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import gymnax
import jax
import numpy as np

from jaxagents import PPO
from jaxagents.ppo import AgentConfig, HyperParameters

SWITCHES = {
    "neither": {},
    "observations": {"normalise_observations": True},
    "rewards": {"normalise_rewards": True},
    "both": {"normalise_observations": True, "normalise_rewards": True},
}
ROLLOUT_LENGTH = 128
TITLE = "# What normalisation costs PPO"


def main() -> None:
    """Runs the benchmark, and prints its table."""
    args = parse_args()
    lines = [TITLE, "", "| Environment | Environments | Normalised | ms for an update | Ratio |"]
    lines += ["|---|---|---|---|---|"]
    for name in args.environments:
        for n_envs in args.envs:
            times = time_in_turns(name, n_envs, args)
            for normalised, taken in times.items():
                ratio = np.median(taken / times["neither"])
                milliseconds = 1e3 * np.median(taken)
                row = [name, n_envs, normalised, f"{milliseconds:.1f}", f"{ratio:.3f}"]
                lines.append(f"| {' | '.join(map(str, row))} |")
    table = "\n".join(lines)
    print(table)
    if args.markdown is not None:
        args.markdown.write_text(f"{table}\n", encoding="utf-8")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--environments", nargs="+", default=["CartPole-v1", "Pendulum-v1"], help="of gymnax")
    add("--envs", type=int, nargs="+", default=[64, 1024], help="numbers of them")
    kinds = [kind for kind in SWITCHES if kind != "neither"]
    add("--normalised", nargs="+", choices=kinds, default=kinds, help="beside neither")
    add("--turns", type=int, default=15, help="how often each agent is timed")
    add("--seconds", type=float, default=0.5, help="aimed length of a turn")
    add("--markdown", type=Path, help="file for the table")
    return parser.parse_args()


def time_in_turns(name: str, n_envs: int, args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Seconds of an update in each turn, by what is normalised."""
    kinds = ["neither", *args.normalised]
    trainings = {kind: Training(name, n_envs, SWITCHES[kind]) for kind in kinds}
    n_updates = max(1, round(args.seconds / trainings["neither"].seconds(1)))
    times = {kind: [] for kind in trainings}
    for _ in range(args.turns):
        for kind, training in trainings.items():
            times[kind].append(training.seconds(n_updates))
    return {kind: np.array(taken) for kind, taken in times.items()}


class Training:
    """An agent and its runner, compiled."""

    def __init__(self, name: str, n_envs: int, fields: dict[str, Any]) -> None:
        config = AgentConfig(
            batch_size=n_envs,
            rollout_length=ROLLOUT_LENGTH,
            minibatch_size=max(1, n_envs // 4),
            **fields,
        )
        self._agent = PPO(*gymnax.make(name), config, eval_during_training=False)
        self._runner = self._agent.start(jax.random.key(0), HyperParameters())
        self.seconds(1)

    def seconds(self, n_updates: int) -> float:
        """Makes updates; the seconds that one takes."""
        began = time.perf_counter()
        self._runner = jax.block_until_ready(self._agent.advance(self._runner, n_updates))
        return (time.perf_counter() - began) / n_updates


if __name__ == "__main__":
    main()
