"""Measures what it costs that every update looks for numbers that are not finite.

    python benchmarks/watch_speed.py --rounds 10

Runs the loop of updates of agents with and without it in turns, on one machine, and prints the ratio
of the processor's time that both take.
"""

import argparse
import time
from pathlib import Path

import gymnax
import jax
import jax.numpy as jnp
import numpy as np

from jaxagents import DQN, PPO, SAC, dqn, ppo, sac

HEAD = "| Agent | Median ratio | Half of the rounds |"
CASES = {
    "PPO": (
        PPO,
        ppo.AgentConfig(batch_size=64, minibatch_size=16),
        ppo.HyperParameters(),
        "CartPole-v1",
        4,
    ),
    "DQN": (DQN, dqn.AgentConfig(), dqn.HyperParameters(), "CartPole-v1", 2_000),
    "SAC": (SAC, sac.AgentConfig(batch_size=1), sac.HyperParameters(), "Pendulum-v1", 60),
}


def programs(agent):
    """The compiled loops with and without the look at numbers."""
    program = agent.program

    def update(_, runner):
        return agent.behaviour._training_step(runner)[0].replace(info={})

    def without(runner, n_updates):
        return jax.lax.fori_loop(0, n_updates, update, runner)

    def with_look(runner, n_updates):
        return program.advance(runner, n_updates)[0].replace(info={})

    return {
        "with": jax.jit(with_look, donate_argnums=0),
        "without": jax.jit(without, donate_argnums=0),
    }


def measure(name, rounds):
    """The seconds of the processor that each loop takes, in each round."""
    kind, config, hyperparams, env, n_updates = CASES[name]
    agent = kind(*gymnax.make(env), config, eval_during_training=False)
    start = agent.start(0, hyperparams)
    seconds = {"with": [], "without": []}
    runners = {which: jax.tree.map(jnp.copy, start) for which in seconds}
    compiled = programs(agent)
    for turn in range(rounds + 1):
        for which, loop in compiled.items():
            began = time.process_time()
            runners[which] = jax.block_until_ready(loop(runners[which], np.int32(n_updates)))
            if turn:
                seconds[which].append(time.process_time() - began)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=CASES, default=[*CASES])
    parser.add_argument("--markdown", type=Path, help="file for the table")
    args = parser.parse_args()
    lines = ["# Looking for numbers that are not finite", "", HEAD, "|---|---|---|"]
    for name in args.only:
        seconds = measure(name, args.rounds)
        ratios = np.divide(seconds["with"], seconds["without"])
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        lines.append(f"| {name} | {middle:.3f} | {low:.3f} to {high:.3f} |")
        print(lines[-1], flush=True)
    if args.markdown is not None:
        args.markdown.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
