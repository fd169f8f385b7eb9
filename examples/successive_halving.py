"""Successive halving: trains many sets of hyperparameters, keeping the better half until one is left.

    python examples/successive_halving.py --n-sets 16

All sets start in one sweep. In each round the better half continues its runs for twice as many
updates, on a CPU with the same compiled program. This takes a quarter of the time of training all
sets to the end.
"""

import argparse

import gymnax
import jax
import numpy as np

from jaxagents import PPO
from jaxagents.core.metrics import Metrics
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams, Runner


def draw_sets(n_sets: int, seed: int) -> HyperParameters:
    """Hyperparameters whose arrays have a leading axis of sets."""
    rng = np.random.default_rng(seed)
    rates = 10 ** rng.uniform(-5, -1, n_sets)
    optimizer = OptimizerParams(learning_rate=rates, grad_clip=0.5)
    return HyperParameters(
        gamma=1.0 - 10 ** rng.uniform(-3, -0.5, n_sets),
        ent_coeff=10 ** rng.uniform(-4, -1, n_sets),
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )


def better_half(trained: dict[int, tuple[Runner, Metrics]]) -> dict[int, tuple[Runner, Metrics]]:
    """The half with the higher mean returns at the last evaluation, best first."""
    means = {i: float(metrics["returns"][-1].mean()) for i, (_, metrics) in trained.items()}
    ranked = sorted(trained, key=lambda i: np.nan_to_num(means[i], nan=-np.inf), reverse=True)
    print(", ".join(f"set {i}: {means[i]:.1f}" for i in ranked))
    return {i: trained[i] for i in ranked[: max(1, len(ranked) // 2)]}


def search(n_sets: int, n_steps: int, seed: int) -> tuple[PPO, HyperParameters]:
    """The agent trained with the best set, and that set."""
    config = AgentConfig(n_steps=n_steps, batch_size=16, rollout_length=64, eval_frequency=n_steps)
    agent = PPO(*gymnax.make("CartPole-v1"), config)
    sets = draw_sets(n_sets, seed)
    first = agent.sweep(jax.random.key(seed)[None], sets, progress=False)
    stays = better_half({i: agent.select(first, i, 0) for i in range(n_sets)})
    while len(stays) > 1:
        n_steps *= 2
        stays = better_half(
            {
                i: agent.train(runner=runner, n_steps=n_steps, progress=False)
                for i, (runner, _) in stays.items()
            }
        )
    ((best, training),) = stays.items()
    agent.collect_training(*training)
    return agent, jax.tree.map(lambda x: x[best] if np.ndim(x) else x, sets)


def main(arguments: list[str] | None = None) -> tuple[PPO, HyperParameters]:
    """Runs the search, and prints the best set and its return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-sets", type=int, default=16)
    parser.add_argument("--n-steps", type=int, default=10, help="updates in the first round")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    agent, best = search(options.n_sets, options.n_steps, options.seed)
    updates = int(agent.training_runner.update_step)
    returns = agent.eval(jax.random.key(1), n_evals=64)["returns"]
    print(f"After {updates} updates the best set returns {returns.mean():.1f}, with")
    print(f"learning rate {best.actor_optimizer_params.learning_rate:.2g}, ", end="")
    print(f"gamma {best.gamma:.4f}, ent_coeff {best.ent_coeff:.2g}.")
    return agent, best


if __name__ == "__main__":
    main()
