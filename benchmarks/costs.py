"""Measures how much slower features make an update of an agent.

Updates with and without a feature alternate in one process, so a slow phase of the machine affects both.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import peers
import reports
from flax import linen as nn

from jaxagents import DQN, PPO, SAC, dqn, make, ppo, sac
from jaxagents.envs import Environment
from jaxagents.networks import CategoricalActor, Recurrent, StateCritic
from jaxagents.networks.recurrent import at_each_step

CARTPOLE, N_ENVS = "CartPole-v1", 64
Train = Callable[[int], float]
"""Makes the given number of updates, and returns the seconds per update."""


def main() -> None:
    """Runs the benchmark and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=FEATURES, default=list(FEATURES), help="features to measure")
    add("--turns", type=peers.positive, default=41, help="number of timed pairs")
    add("--seconds", type=float, default=0.25, help="approximate length of a timed run")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    rows = []
    for name in args.only:
        with_it, without = (make_training() for make_training in FEATURES[name])
        n_updates = max(1, round(args.seconds / without(1)))
        times = [(with_it(n_updates), without(n_updates)) for _ in range(args.turns)]
        ratios = [numerator / denominator for numerator, denominator in times]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        milliseconds = 1e3 * np.median(times, axis=0)
        rows.append(
            [name, *(f"{x:.2f}" for x in milliseconds), f"{middle:.3f}", f"{low:.3f} to {high:.3f}"]
        )
        print(*rows[-1], sep=" | ", file=sys.stderr)
    origin = reports.measured_by("python benchmarks/costs.py")
    versions = f"Versions: {reports.versions('jaxagents', 'jax')}."
    parts = HEAD, reports.table(COLUMNS, rows), NOTES, origin, versions
    reports.write("\n\n".join(parts), args.markdown, opening)


def opening(page: str, chart: Path) -> str:
    """The cost of each feature, the largest first."""
    (table,) = reports.tables(page)
    bars = [
        reports.Bar(feature, "", reports.numbers_in(f"{ratio} {middle_half}"))
        for feature, _, _, ratio, middle_half in table.rows
    ]
    bars.sort(key=lambda bar: bar.numbers, reverse=True)
    form = "{:.2f}\N{MULTIPLICATION SIGN}"
    pictures = reports.draw_bars(chart, "Update time with a feature / without", bars, form)
    numbers = reports.in_words(bars[:5], form, "the time of an update without the feature: {title}")
    return reports.in_large(numbers, pictures)


class AllAllowed(Environment):
    """An environment with an action mask that allows every action."""

    def __init__(self, env: Environment) -> None:
        self.env, self.action_space, self.max_steps = env, env.action_space, env.max_steps

    def reset(self, key: Any) -> Any:
        return self.env.reset(key)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        return self.env.step(key, state, action)

    def action_mask(self, state: Any) -> Any:
        space: Any = self.action_space
        return jnp.ones(space.n, bool)


class Remembering(Recurrent):
    """A recurrent network that carries its memory along without using it."""

    network: nn.Module

    def initial(self) -> Any:
        return jnp.zeros(1)

    def __call__(self, carry: Any, obs: Any) -> Any:
        return carry, self.network(obs)

    def unroll(self, carry: Any, obs: Any, first: Any, *more: Any, **options: Any) -> Any:
        outputs = at_each_step(self, lambda it: it.network, obs, *more, **options)
        return jnp.broadcast_to(carry, (len(first), *carry.shape)), outputs


class LossOfMinibatch(PPO):
    """PPO whose losses are one number per minibatch."""

    def _actor_loss(self, *args: Any, **options: Any) -> Any:
        return jax.tree.map(jnp.mean, super()._actor_loss(*args, **options))

    def _critic_loss(self, *args: Any, **options: Any) -> Any:
        return jax.tree.map(jnp.mean, super()._critic_loss(*args, **options))


def train_ppo(
    kind: type[PPO] = PPO, env: Any = None, *, looks: bool = True, **fields: Any
) -> Train:
    """PPO in CartPole-v1."""
    config = ppo.AgentConfig(batch_size=N_ENVS, minibatch_size=N_ENVS // 4, **fields)
    agent = kind(env or make(CARTPOLE), None, config, eval_during_training=False)
    return training(agent, ppo.HyperParameters(), looks)


def train_dqn(*, looks: bool = True) -> Train:
    """DQN in CartPole-v1."""
    agent = DQN(make(CARTPOLE), None, dqn.AgentConfig(), eval_during_training=False)
    return training(agent, dqn.HyperParameters(), looks)


def train_sac(*, looks: bool = True) -> Train:
    """SAC in Pendulum-v1, with one update per step."""
    config = sac.AgentConfig(batch_size=1)
    agent = SAC(make("Pendulum-v1"), None, config, eval_during_training=False)
    return training(agent, sac.HyperParameters(), looks)


def training(agent: Any, hyperparams: Any, looks: bool) -> Train:
    """A compiled function that trains the agent, with or without the check for non-finite numbers."""

    def update(_: Any, runner: Any) -> Any:
        return agent.behaviour._training_step(runner)[0].replace(info={})

    def advance(runner: Any, n_updates: Any) -> Any:
        if looks:
            return agent.program.advance(runner, n_updates)[0].replace(info={})
        return jax.lax.fori_loop(0, n_updates, update, runner)

    program = jax.jit(advance, donate_argnums=0)
    last = jax.tree.map(jnp.copy, agent.start(0, hyperparams).replace(info={}))

    def train(n_updates: int) -> float:
        nonlocal last
        began = time.perf_counter()
        last = jax.block_until_ready(program(last, np.int32(n_updates)))
        return (time.perf_counter() - began) / n_updates

    train(1)
    return train


def networks(wrap: Callable[[nn.Module], nn.Module]) -> dict[str, nn.Module]:
    """The networks of PPO in CartPole-v1."""
    return {"actor_network": wrap(CategoricalActor(2)), "critic_network": wrap(StateCritic())}


COLUMNS = ("Feature", "With (ms)", "Without (ms)", "Ratio", "Middle half of the ratios")
HEAD = """# Cost of features

How much does a feature slow down an update? Each row compares updates with and without
the feature, which alternate in one process. They are updates of PPO in CartPole-v1 with 64 environments,
of DQN in CartPole-v1, or of SAC in Pendulum-v1. The ratio is the median over all pairs. If the middle
half of the ratios includes 1, the difference is within the noise."""
NOTES = """The action mask allows every action. The memory is carried along but not used; with it, PPO
learns from sequences and computes values step by step. Without per-sample losses, the loss is one number
per minibatch."""
FEATURES = {
    "check for non-finite numbers (PPO)": (train_ppo, lambda: train_ppo(looks=False)),
    "check for non-finite numbers (DQN)": (train_dqn, lambda: train_dqn(looks=False)),
    "check for non-finite numbers (SAC)": (train_sac, lambda: train_sac(looks=False)),
    "normalise_observations": (lambda: train_ppo(normalise_observations=True), train_ppo),
    "normalise_rewards": (lambda: train_ppo(normalise_rewards=True), train_ppo),
    "normalise_values": (lambda: train_ppo(normalise_values=True), train_ppo),
    "action mask": (lambda: train_ppo(env=AllAllowed(make(CARTPOLE))), train_ppo),
    "memory": (
        lambda: train_ppo(**networks(Remembering)),
        lambda: train_ppo(**networks(lambda network: network)),
    ),
    "per-sample losses": (train_ppo, lambda: train_ppo(LossOfMinibatch)),
}


if __name__ == "__main__":
    main()
