"""PPO with a custom policy on CartPole, through every stage of an agent's life.

    python examples/cartpole_ppo.py

This trains and evaluates an agent, restores its last checkpoint in a second agent that continues
the run, trains several seeds and learning rates in parallel, and plays an episode step by step.
Everything is written to `runs/cartpole`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import linen as nn
from jax_tqdm import scan_tqdm

from jaxagents.plotting import plot_learning_curve
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams, PPOBase

N_ENVS = 16
ROLLOUT_LENGTH = 128
LEARNING_RATES = (2e-4, 2e-3, 2e-2)


class PolicyNetwork(nn.Module):
    """Logits of the two actions, push left and push right."""

    config: AgentConfig

    @nn.compact
    def __call__(self, obs):
        x = nn.tanh(nn.Dense(64)(obs))
        x = nn.tanh(nn.Dense(64)(x))
        return nn.Dense(2)(x)


class ValueNetwork(nn.Module):
    """Value of an observation."""

    config: AgentConfig

    @nn.compact
    def __call__(self, obs):
        x = nn.tanh(nn.Dense(64)(obs))
        x = nn.tanh(nn.Dense(64)(x))
        return nn.Dense(1)(x)


class CartPolePPO(PPOBase):
    """PPO with a categorical policy; each hook handles one observation."""

    def _entropy(self, training, obs):
        log_probs = nn.log_softmax(training.apply_fn(training.params, obs))
        return -jnp.sum(jnp.exp(log_probs) * log_probs)

    def _log_prob(self, training, params, obs, actions):
        return nn.log_softmax(training.apply_fn(params, obs))[actions]

    def policy(self, training, obs):
        return jnp.argmax(training.apply_fn(training.params, obs))

    def _sample_actions(self, rng, training, obs):
        return jax.random.categorical(rng, training.apply_fn(training.params, obs))


def make_agent(n_steps: int, **files: Any) -> CartPolePPO:
    """Creates an agent that trains for `n_steps` updates.

    Args:
        n_steps: Number of updates.
        **files: Configuration fields for checkpoints.

    Returns:
        The agent.
    """
    env, env_params = gymnax.make("CartPole-v1")
    config = AgentConfig(
        n_steps=n_steps,
        batch_size=N_ENVS,
        minibatch_size=4,
        rollout_length=ROLLOUT_LENGTH,
        actor_epochs=4,
        critic_epochs=4,
        actor_network=PolicyNetwork,
        critic_network=ValueNetwork,
        optimizer=optax.adam,
        eval_frequency=max(n_steps // 10, 1),
        n_evals=32,
        **files,
    )
    return CartPolePPO(env, env_params, config)


def make_hyperparams(learning_rate: Any = 2e-3) -> HyperParameters:
    """Creates hyperparameters with one learning rate for both networks."""
    optimizer_params = OptimizerParams(learning_rate=learning_rate, grad_clip=0.5)
    return HyperParameters(
        gamma=0.99,
        gae_lambda=0.95,
        eps_clip=0.2,
        ent_coeff=0.01,
        actor_optimizer_params=optimizer_params,
        critic_optimizer_params=optimizer_params,
    )


def train_and_evaluate(options: argparse.Namespace) -> dict[str, Any]:
    """Trains an agent with checkpoints, plots its learning curve, and plays greedy episodes."""
    agent = make_agent(options.n_steps, checkpoint_dir=options.output)
    hyperparams = make_hyperparams()
    print(agent)
    print(agent.log_hyperparams(hyperparams))
    runner, metrics = agent.train(jax.random.key(options.seed), hyperparams)

    plot_learning_curve(
        metrics,
        options.output / "learning_curve.png",
        steps_per_update=N_ENVS * ROLLOUT_LENGTH,
        title="PPO on CartPole",
    )
    stats = agent.summarize(metrics["returns"])
    print("\nReturns of the evaluations during training:\nupdate   mean    min    max")
    for row in zip(agent.eval_steps_in_training, stats.mean, stats.min, stats.max, strict=True):
        print("{:6d} {:6.1f} {:6.1f} {:6.1f}".format(*row))

    episodes = agent.eval(jax.random.key(options.seed + 1), n_evals=options.n_evals)
    print(f"\nMean return of {options.n_evals} episodes: {episodes['returns'].mean():.1f}")
    return {"runner": runner, "metrics": metrics, "episodes": episodes}


def restore_and_go_on(options: argparse.Namespace) -> dict[str, Any]:
    """Restores the checkpoints in a second agent, and continues as if the run had not stopped."""
    agent = make_agent(options.n_steps, checkpoint_dir=options.output, restore_agent=True)
    best, _ = agent.restore("best")
    safest, _ = agent.restore("best", best_fn=lambda metrics: metrics["returns"].min(1).argmax())
    last, _ = agent.restore("last")
    print(
        f"\nUpdates of the restored runners: {best.update_step} (best mean return), "
        f"{safest.update_step} (best worst return), {last.update_step} (last)"
    )

    n_more = max(options.n_steps // 5, 1)
    resumed, _ = agent.train(runner=last, n_steps=n_more)
    rng = jax.random.key(options.seed)
    uninterrupted, _ = make_agent(options.n_steps).train(
        rng, make_hyperparams(), n_steps=options.n_steps + n_more
    )
    same = jax.tree.map(
        np.array_equal, resumed.actor_training.params, uninterrupted.actor_training.params
    )
    identical = jax.tree.all(same)
    print(f"Identical to {uninterrupted.update_step} updates without interruption: {identical}")
    return {"best": best, "last": last, "resumed": resumed, "identical": identical}


def train_many(options: argparse.Namespace) -> dict[str, Any]:
    """Trains seeds and learning rates in parallel, with `jax.vmap` and with `sweep`."""
    agent = make_agent(max(options.n_steps // 2, 1))
    rng = jax.random.key(options.seed)
    rngs = jax.random.split(rng, options.n_seeds)

    runners, by_seed = jax.vmap(agent.train, in_axes=(0, None))(rngs, make_hyperparams())
    print(f"\nFinal mean return of each seed: {_final_means(by_seed)}")
    agent.collect_training(*jax.tree.map(lambda x: x[0], (runners, by_seed)))
    print(f"Mean return of the first seed's agent: {agent.eval(rng)['returns'].mean():.1f}")

    hyperparams = jax.vmap(make_hyperparams)(jnp.array(LEARNING_RATES))
    _, by_learning_rate = jax.vmap(agent.train, in_axes=(None, 0))(rng, hyperparams)
    print(f"Final mean return with learning rates {LEARNING_RATES}:")
    print(f"  one seed: {_final_means(by_learning_rate)}")

    sweep = agent.sweep(rngs, hyperparams)
    print(f"  {options.n_seeds} seeds: {_final_means(sweep.metrics).mean(axis=1).round(1)}")
    print(f"Best: {sweep.best_hyperparams.actor_optimizer_params.learning_rate:.2g}")
    plot_sweep(sweep.metrics, options.output / "sweep.png")
    return {"by_seed": by_seed, "by_learning_rate": by_learning_rate, "sweep": sweep}


def _final_means(metrics: dict[str, Any]) -> np.ndarray:
    return np.asarray(metrics["returns"][..., -1, :].mean(axis=-1)).round(1)


def plot_sweep(metrics: dict[str, Any], path: Path) -> None:
    """Plots the mean return of each learning rate, with its seeds as thin lines."""
    steps = np.asarray(metrics["update_step"][0, 0])
    returns = np.asarray(metrics["returns"].mean(axis=-1))
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for learning_rate, seeds in zip(LEARNING_RATES, returns, strict=True):
        (line,) = axes.plot(steps, seeds.mean(axis=0), lw=2, label=f"{learning_rate:g}")
        axes.plot(steps, seeds.T, color=line.get_color(), lw=0.7, alpha=0.5)
    axes.set(xlabel="update steps", ylabel="mean return", title="PPO on CartPole, all seeds")
    axes.legend(title="learning rate", frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def play_episode(options: argparse.Namespace, training: Any) -> dict[str, Any]:
    """Plays 500 steps in a custom rollout, and plots the cart and the pole."""
    agent = make_agent(options.n_steps)
    n_steps = 500

    @scan_tqdm(n_steps, desc="own rollout")
    def step(carry, _):
        rng, obs, envstate = carry
        action = agent.policy(training, obs)
        rng, next_obs, envstate, reward, done, _ = agent.env_step(rng, envstate, action)
        return (rng, next_obs, envstate), {"obs": obs, "reward": reward, "done": done}

    start = agent.env_reset(jax.random.key(options.seed + 2))
    _, record = jax.block_until_ready(jax.lax.scan(step, start, jnp.arange(n_steps)))
    jax.effects_barrier()  # let the progress bar finish before anything else is printed
    length = int(record["done"].argmax()) + 1 if record["done"].any() else n_steps
    print(f"\nThe first episode of the custom rollout lasts {length} steps.")

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(record["obs"][:length, 0], label="cart position (m)")
    axes.plot(record["obs"][:length, 2], label="pole angle (rad)")
    axes.set(xlabel="step", title="One greedy episode of CartPole")
    axes.legend(frameon=False)
    figure.savefig(options.output / "episode.png", dpi=150)
    plt.close(figure)
    return record


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example.

    Args:
        argv: Command-line arguments; `sys.argv` by default.

    Returns:
        The results of each part.
    """
    parser = argparse.ArgumentParser(
        description="PPO with a custom policy on CartPole.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("runs/cartpole"), help="new folder")
    parser.add_argument("--n-steps", type=int, default=100, help="number of updates")
    parser.add_argument("--n-seeds", type=int, default=4, help="seeds trained in parallel")
    parser.add_argument("--n-evals", type=int, default=128, help="episodes played after training")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.output.exists():
        parser.error(f"{options.output} exists already: choose another --output.")

    trained = train_and_evaluate(options)
    results = {
        **trained,
        **restore_and_go_on(options),
        **train_many(options),
        "record": play_episode(options, trained["runner"].actor_training),
    }
    print(f"\nCheckpoints and pictures are in {options.output}.")
    return results


if __name__ == "__main__":
    main()
