"""IPPO on a zero-sum game: a pursuer and an evader learn against each other.

    python examples/pursuit_ippo.py
    python examples/pursuit_ippo.py --ready-made --output runs/pursuit-ready-made

This trains both roles against each other, with a custom policy or with the ready-made one, lets
them play against simple opponents, and writes plots and an animation to `runs/pursuit`. The game
itself is in `pursuit_game.py`.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.scipy.stats import norm
from pursuit_game import ROLES, Pursuit, animate, plot_learning, plot_trajectories

from jaxagents import IPPO, IPPOBase
from jaxagents.ippo import AgentConfig, HyperParameters, OptimizerParams

N_ENVS = 32
ROLLOUT_LENGTH = 128
MAX_EPISODE_STEPS = 200

Player = Callable[[Any, Any], Any]


class RoleNetwork(nn.Module):
    """The network of one role, from its own observation."""

    n_outputs: int
    gain: float

    @nn.compact
    def __call__(self, obs):
        x = nn.tanh(nn.Dense(64)(obs))
        x = nn.tanh(nn.Dense(64)(x))
        return nn.Dense(self.n_outputs, kernel_init=nn.initializers.orthogonal(self.gain))(x)


class PolicyNetwork(nn.Module):
    """Mean velocity commands of both roles, shape (2 agents, 2)."""

    config: AgentConfig

    @nn.compact
    def __call__(self, obs):
        networks = [RoleNetwork(2, 0.01, name=role) for role in ROLES]
        return jnp.stack([network(own) for network, own in zip(networks, obs, strict=True)])


class ValueNetwork(nn.Module):
    """Values of both roles, shape (2 agents,)."""

    config: AgentConfig

    @nn.compact
    def __call__(self, obs):
        networks = [RoleNetwork(1, 1.0, name=role) for role in ROLES]
        return jnp.stack([network(own)[0] for network, own in zip(networks, obs, strict=True)])


class PursuitIPPO(IPPOBase):
    """IPPO with a Gaussian policy of fixed width; each hook handles one observation.

    Actions are clipped to the bounds of the environment's action space.
    """

    log_std = -0.7

    def _entropy(self, training, obs):
        per_component = self.log_std + 0.5 * np.log(2.0 * np.pi * np.e)
        return jnp.full(self.n_actors, 2.0 * per_component)

    def _log_prob(self, training, params, obs, actions):
        mean = training.apply_fn(params, obs)
        return norm.logpdf(actions, mean, np.exp(self.log_std)).sum(axis=-1)

    def policy(self, training, obs):
        return training.apply_fn(training.params, obs)

    def _sample_actions(self, rng, training, obs):
        mean = training.apply_fn(training.params, obs)
        return mean + np.exp(self.log_std) * jax.random.normal(rng, mean.shape)

    def _eval_metrics(self, terminated, truncated, final_rewards, returns):
        metrics = super()._eval_metrics(terminated, truncated, final_rewards, returns)
        return {**metrics, "catch_rate": terminated.mean()}


def make_agent(n_steps: int, ready_made: bool = False) -> IPPOBase:
    """Creates an agent that trains both roles for `n_steps` updates."""
    env = Pursuit()
    networks = {"actor_network": PolicyNetwork, "critic_network": ValueNetwork}
    config = AgentConfig(
        n_steps=n_steps,
        batch_size=N_ENVS,
        minibatch_size=N_ENVS // 4,
        rollout_length=ROLLOUT_LENGTH,
        eval_frequency=max(n_steps // 15, 1),
        n_evals=64,
        max_episode_steps=MAX_EPISODE_STEPS,
        **({} if ready_made else networks),
    )
    agent_class = IPPO if ready_made else PursuitIPPO
    return agent_class(env, env.default_params, config)


def train(agent: IPPOBase, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Trains both roles, and prints and plots their learning curves."""
    optimizer_params = OptimizerParams(learning_rate=1e-3, grad_clip=0.5)
    hyperparams = HyperParameters(
        gamma=0.99,
        gae_lambda=0.95,
        actor_optimizer_params=optimizer_params,
        critic_optimizer_params=optimizer_params,
    )
    runner, metrics = agent.train(jax.random.key(options.seed), hyperparams)

    env_steps = metrics["update_step"] * N_ENVS * ROLLOUT_LENGTH
    plot_learning(env_steps, metrics["returns"], options.output / "learning.png")
    print("\nMean returns of the evaluations during training:")
    print("environment steps   pursuer    evader    caught")
    caught = metrics["terminated"].mean(1) if options.ready_made else metrics["catch_rate"]
    for steps, returns, share in zip(env_steps, metrics["returns"].mean(1), caught, strict=True):
        print(f"{steps:17,d}{returns[0]:10.2f}{returns[1]:10.2f}{share:10.0%}")
    return runner, metrics


def trained(agent: IPPOBase, training: Any, role: int) -> Player:
    """The greedy policy that `agent` has learned for a role."""
    return lambda rng, obs: agent.policy(training, obs)[role]


def randomly(rng: Any, obs: Any) -> Any:
    """Samples a new velocity at every step."""
    return jax.random.uniform(rng, (2,), minval=-1.0, maxval=1.0)


def straight_at_evader(rng: Any, obs: Any) -> Any:
    """Pure pursuit: heads straight for the evader at full speed."""
    to_evader = obs[0, 4:6]
    return to_evader / jnp.linalg.norm(to_evader)


def play_matches(
    agent: IPPOBase, rng: Any, n_matches: int, pursuer: Player, evader: Player
) -> dict[str, np.ndarray]:
    """Plays matches in parallel, in a custom loop around the agent's environment.

    Returns:
        `positions` after the reset and after each step, in m, shape (matches, time, 2 agents, 2);
        whether the evader was `caught`, and the `seconds` that it stayed free, shape (matches,).
    """

    def play(rng):
        rng, obs, envstate = agent.env_reset(rng)

        def step(carry, _):
            rng, obs, envstate = carry
            rng, pursuer_rng, evader_rng = jax.random.split(rng, 3)
            actions = jnp.stack([pursuer(pursuer_rng, obs), evader(evader_rng, obs)])
            rng, next_obs, envstate, _, _, info = agent.env_step(rng, envstate, actions)
            # After the last step, next_obs is the first observation of the next match.
            return (rng, next_obs, envstate), (info["final_observation"], info["terminated"])

        _, (later, terminated) = jax.lax.scan(step, (rng, obs, envstate), length=MAX_EPISODE_STEPS)
        observations = jnp.concatenate([obs[None], later])
        caught = terminated.any()
        n_steps = jnp.where(caught, terminated.argmax() + 1, MAX_EPISODE_STEPS)
        return observations[..., :2], caught, n_steps

    outcome = jax.jit(jax.vmap(play))(jax.random.split(rng, n_matches))
    positions, caught, n_steps = map(np.asarray, outcome)
    params = agent.env_params
    return {
        "positions": positions * params.half_width,
        "caught": caught,
        "seconds": n_steps * params.dt,
    }


def compare(agent: IPPOBase, training: Any, options: argparse.Namespace) -> dict[tuple, Any]:
    """Lets trained and simple players play each other, and prints the results."""
    pursuers = {
        "random": randomly,
        "straight at the evader": straight_at_evader,
        "trained": trained(agent, training, role=0),
    }
    evaders = {"random": randomly, "trained": trained(agent, training, role=1)}
    rng = jax.random.key(options.seed + 1)

    print(f"\nMatches of at most {MAX_EPISODE_STEPS * agent.env_params.dt:g} s:")
    print(f"{'pursuer':24}{'evader':10}{'caught':>6}{'mean time':>12}")
    matches = {}
    for (pursuer_name, pursuer), (evader_name, evader) in itertools.product(
        pursuers.items(), evaders.items()
    ):
        match = play_matches(agent, rng, options.n_matches, pursuer, evader)
        matches[pursuer_name, evader_name] = match
        share, seconds = match["caught"].mean(), match["seconds"].mean()
        print(f"{pursuer_name:24}{evader_name:10}{share:6.0%}{seconds:10.1f} s")
    return matches


def draw(match: dict[str, np.ndarray], output: Path) -> None:
    """Plots and animates the match with the latest catch, or the first if there is none."""
    chosen = np.where(match["caught"], match["seconds"], 0.0).argmax()
    positions = match["positions"][chosen]
    plot_trajectories(positions, output / "trajectories.png")
    animate(positions, output / "pursuit.gif")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example.

    Args:
        argv: Command-line arguments; `sys.argv` by default.

    Returns:
        The results of each part.
    """
    parser = argparse.ArgumentParser(
        description="IPPO on a two-player pursuit game.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("runs/pursuit"), help="new folder")
    parser.add_argument("--ready-made", action="store_true", help="use IPPO without subclassing")
    parser.add_argument("--n-steps", type=int, default=300, help="number of updates")
    parser.add_argument("--n-matches", type=int, default=256, help="matches per pairing")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.output.exists():
        parser.error(f"{options.output} exists already: choose another --output.")
    options.output.mkdir(parents=True)

    agent = make_agent(options.n_steps, options.ready_made)
    print(agent)
    runner, metrics = train(agent, options)
    matches = compare(agent, runner.actor_training, options)
    draw(matches["trained", "trained"], options.output)
    print(f"\nPlots and an animation are in {options.output}.")
    return {"runner": runner, "metrics": metrics, "matches": matches}


if __name__ == "__main__":
    main()
