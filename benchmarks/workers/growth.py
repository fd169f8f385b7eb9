"""Measures PPO of jaxagents on CartPole at one size of the work, or what is around its compiled loop."""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnax
import jax
import numpy as np
import process

from jaxagents import PPO
from jaxagents.loggers import JSONLLogger
from jaxagents.networks import CategoricalActor, StateCritic
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

HYPERPARAMS = HyperParameters(
    ent_coeff=0.01,
    actor_optimizer_params=OptimizerParams(learning_rate=2.5e-4),
    critic_optimizer_params=OptimizerParams(learning_rate=2.5e-4),
)
N_CALLS = 3
N_POINTS = 10
N_EPISODES = 32
N_ENVS = 64

Train = Callable[[int], Any]
Kind = Callable[[dict[str, Any], Path], Train]


def main() -> None:
    """Measures, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers(required=True)
    of_size = subparsers.add_parser("size")
    for name in ("envs", "width", "rollout", "epochs", "minibatches"):
        of_size.add_argument(f"--{name}", type=int, required=True)
    of_size.set_defaults(measure=size)
    of_overhead = subparsers.add_parser("overhead")
    of_overhead.add_argument("--rounds", type=int, required=True)
    of_overhead.set_defaults(measure=overhead)
    for subparser in (of_size, of_overhead):
        subparser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    versions = process.versions("jaxagents", "gymnax")
    print(json.dumps({"library": "jaxagents", "versions": versions, **args.measure(args)}))


def make_agent(
    envs: int,
    *,
    width: int = 64,
    rollout: int = 128,
    epochs: int = 4,
    minibatches: int = 4,
    evaluated: bool = False,
    **config: Any,
) -> PPO:
    """The agent; a minibatch has samples of one environment at least."""
    env, env_params = gymnax.make("CartPole-v1")
    hidden = (width, width)
    whole = AgentConfig(
        batch_size=envs,
        rollout_length=rollout,
        minibatch_size=max(1, envs // minibatches),
        actor_epochs=epochs,
        critic_epochs=epochs,
        actor_network=CategoricalActor(env.num_actions, hidden, jax.nn.tanh),
        critic_network=StateCritic(hidden, jax.nn.tanh),
        n_evals=N_EPISODES,
        **{"eval_frequency": 10**9, **config},
    )
    return PPO(env, env_params, whole, eval_during_training=evaluated)


def seconds_of_an_update(train: Train, seconds: float) -> tuple[int, float]:
    """How many updates a call of about that length makes, and how long each takes.

    Args:
        train: Makes a number of updates.
        seconds: Aimed length of a call.

    Returns:
        The number, and the median of the seconds over the calls.
    """

    def timed(n_updates: int) -> float:
        began = time.perf_counter()
        jax.block_until_ready(train(n_updates))
        return (time.perf_counter() - began) / n_updates

    for n_updates in (1, 2):
        steady = timed(n_updates)
    n_updates = max(1, math.ceil(seconds / steady))
    return n_updates, statistics.median(timed(n_updates) for _ in range(N_CALLS))


# One size of the work.


def size(args: argparse.Namespace) -> dict[str, Any]:
    """Compiles a training of this size, and makes some updates."""
    agent = make_agent(
        args.envs,
        width=args.width,
        rollout=args.rollout,
        epochs=args.epochs,
        minibatches=args.minibatches,
    )
    runner = jax.block_until_ready(agent.start(jax.random.key(0), HYPERPARAMS))
    multiply_adds = multiply_adds_of_a_step(runner, args.epochs)
    began = time.perf_counter()
    program = jax.jit(agent.advance, donate_argnums=0).lower(runner, np.int32(1)).compile()
    compile_seconds = time.perf_counter() - began

    def train(n_updates: int) -> Any:
        nonlocal runner
        runner = program(runner, np.int32(n_updates))
        return runner

    _, seconds = seconds_of_an_update(train, args.seconds)
    n_samples = args.envs * args.rollout
    temporary = program.memory_analysis().temp_size_in_bytes
    return {
        "steps_per_second": n_samples / seconds,
        "multiply_adds_per_second": multiply_adds * n_samples / seconds,
        "compile_seconds": compile_seconds,
        "instructions": program.as_text().count(" = "),
        "temporary_mib": temporary / 2**20,
        "temporary_bytes_of_a_sample": temporary / n_samples,
        "memory_mib": process.peak_memory_mib(),
    }


def multiply_adds_of_a_step(runner: Any, epochs: int) -> int:
    """Multiply-adds in the products of layers for one environment step.

    The actor acts once and the critic gives two values; then each has a forward and a backward pass
    in every epoch, of which the latter is as much as two of the former.
    """
    actor, critic = (
        sum(x.size for x in jax.tree.leaves(training.params) if x.ndim == 2)
        for training in (runner.actor_training, runner.critic_training)
    )
    return actor * (1 + 3 * epochs) + critic * (2 + 3 * epochs)


# What is around the compiled loop.


def overhead(args: argparse.Namespace) -> dict[str, Any]:
    """Makes the same updates barely, with records, and with evaluations, in turns."""
    calibrated = bare({"envs": N_ENVS}, Path())
    _, seconds = seconds_of_an_update(calibrated, args.seconds / 10)
    between_points = max(1, math.ceil(args.seconds / seconds / N_POINTS))
    config = {"envs": N_ENVS, "eval_frequency": between_points}

    def timed(kind: Kind, n_updates: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            train = kind(config, Path(folder))
            began = time.perf_counter()
            jax.block_until_ready(train(n_updates))
            return time.perf_counter() - began

    kinds = {"bare": bare, "records": with_records, "evaluations": with_evaluations}
    for kind in kinds.values():
        timed(kind, 1)
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for i in range(args.rounds):
        for name in list(kinds)[:: 1 if i % 2 == 0 else -1]:
            found[name].append(timed(kinds[name], N_POINTS * between_points))
    return {"envs": N_ENVS, "updates": N_POINTS * between_points, "seconds": found}


def bare(config: dict[str, Any], folder: Path) -> Train:
    """Only the compiled loop."""
    agent = make_agent(**config)

    def train(n_updates: int) -> Any:
        runner = agent.start(jax.random.key(0), HYPERPARAMS)
        return agent.advance(runner, np.int32(n_updates))

    return train


def with_records(config: dict[str, Any], folder: Path) -> Train:
    """A plain `train` that shows progress, and writes checkpoints and logs at each point."""
    agent = make_agent(**config, checkpoint_dir=folder / "checkpoints")
    loggers = [JSONLLogger(folder / "log.jsonl")]
    return lambda n_updates: agent.train(
        jax.random.key(0), HYPERPARAMS, n_steps=n_updates, loggers=loggers
    )


def with_evaluations(config: dict[str, Any], folder: Path) -> Train:
    """A plain `train` that only plays episodes at each point."""
    agent = make_agent(**config, evaluated=True)
    return lambda n_updates: agent.train(
        jax.random.key(0), HYPERPARAMS, n_steps=n_updates, progress=False
    )


if __name__ == "__main__":
    main()
