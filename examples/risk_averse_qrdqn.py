"""QR-DQN with a custom risk-averse policy, compared with plain QR-DQN.

    python examples/risk_averse_qrdqn.py

The agent has to get around a lake. The bridge is short but sometimes breaks; the shore is longer
but safe. Plain QR-DQN maximises the mean of its quantiles and takes the bridge, which has the
higher mean return. A subclass maximises the mean of the lowest quarter of the quantiles, the
conditional value at risk (Rockafellar and Uryasev, 2000, "Optimization of conditional
value-at-risk"), and takes the shore. The learned quantiles are compared with the true ones, and
plotted to `runs/risk-averse`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from flax import struct
from gymnax.environments import spaces

from jaxagents import QRDQN, QRDQNLearner, ops
from jaxagents.qrdqn import AgentConfig, HyperParameters

N_BRIDGE = 3  # steps over the bridge
N_SHORE = 6  # steps along the shore
N_PLACES = N_BRIDGE + N_SHORE
WAYS = ("over the bridge", "along the shore")
COLOURS = ("#0072B2", "#D55E00")
N_ENVS = 8


@struct.dataclass
class LakeParams:
    """The danger of the bridge.

    Attributes:
        break_probability: Probability that it breaks.
        loss: Cost of falling into the water.
    """

    break_probability: float = 0.06
    loss: float = 35.0


class Lake:
    """A walk around a lake from place 0 to place `N_BRIDGE`; it ends there or in the water.

    The places 0 to `N_PLACES - 1` lie on a ring. Action 0 moves to the next place, action 1 to the
    previous one. A step costs 1. Place 1 is the bridge.
    """

    default_params = LakeParams()
    name = "Lake"

    def action_space(self, params):
        return spaces.Discrete(2)

    def observation_space(self, params):
        return spaces.Discrete(N_PLACES)

    def reset_env(self, key, params):
        place = jnp.zeros((), jnp.int32)
        return place, place

    def step_env(self, key, place, action, params):
        place = (place + 1 - 2 * action) % N_PLACES
        falls = (place == 1) & jax.random.bernoulli(key, params.break_probability)
        reward = jnp.where(falls, -params.loss, -1.0)
        return place, place, reward, falls | (place == N_BRIDGE), {}


class RiskAverseLearner(QRDQNLearner):
    """Values an action by the worst quarter of its returns."""

    def _q(self, params, obs):
        quantiles = jnp.sort(self._quantiles(params, obs), axis=-1)
        return quantiles[..., : self.config.n_quantiles // 4].mean(axis=-1)


class RiskAverseQRDQN(QRDQN):
    """QR-DQN that acts on these values."""

    _discrete_learner = RiskAverseLearner


def make_agent(agent_class: type[QRDQN], n_steps: int) -> QRDQN:
    """Creates an agent that trains for `n_steps` environment steps."""
    config = AgentConfig(
        n_steps=max(n_steps // N_ENVS, 1),
        batch_size=N_ENVS,
        minibatch_size=128,
        features=(64, 64),
        max_episode_steps=50,
    )
    return agent_class(Lake(), None, config, eval_during_training=False)


def true_quantiles(probabilities: np.ndarray, params: LakeParams) -> np.ndarray:
    """True quantiles of the returns of both routes.

    Args:
        probabilities: Their probabilities.
        params: Parameters of the lake.

    Returns:
        The quantiles, shape (routes, probabilities).
    """
    falls = probabilities < params.break_probability
    over_bridge = np.where(falls, -params.loss, -float(N_BRIDGE))
    return np.stack([over_bridge, np.full_like(over_bridge, -N_SHORE)])


def worst_tenth(returns: np.ndarray) -> float:
    """The mean of the lowest tenth."""
    return float(np.sort(returns)[: max(len(returns) // 10, 1)].mean())


def learn(agent_class: type[QRDQN], options: argparse.Namespace) -> dict[str, Any]:
    """Trains an agent and evaluates it on greedy episodes.

    Args:
        agent_class: Its class.
        options: Numbers of steps and of episodes, and the seed.

    Returns:
        `returns` of the episodes; `shares`, the fraction of episodes that took each route; `values`, the
        agent's action values at the start; and their `quantiles`, shape (routes, quantiles).
    """
    hyperparams = HyperParameters(
        gamma=1.0,
        tau=0.01,
        critic_learning_rate=1e-3,
        epsilon=0.2,
        epsilon_steps=options.n_steps / 2,
    )
    agent = make_agent(agent_class, options.n_steps)
    agent.train(jax.random.key(options.seed), hyperparams)
    episodes = agent.eval(jax.random.key(options.seed + 1), n_evals=options.n_evals)
    over_bridge = np.asarray(episodes["lengths"] <= N_BRIDGE)
    along_shore = ~over_bridge & np.asarray(episodes["terminated"])
    _, start, _ = agent.env_reset(jax.random.key(0))
    return {
        "returns": np.asarray(episodes["returns"]),
        "shares": (over_bridge.mean(), along_shore.mean()),
        "values": np.asarray(agent.q(start)),
        "quantiles": np.sort(agent.learner.critic(start), axis=-1),
    }


def report(results: dict[str, Any]) -> None:
    """Prints the true returns of both routes, and how the agents act."""
    exact = true_quantiles((np.arange(10_000) + 0.5) / 10_000, LakeParams())
    print(f"\n{'':24}{'mean return':>12}{'worst tenth':>13}{WAYS[0]:>17}{WAYS[1]:>17}")
    for way, returns in zip(WAYS, exact, strict=True):
        print(f"{way:24}{returns.mean():12.2f}{worst_tenth(returns):13.2f}")
    for name, result in results.items():
        returns, (bridge, shore) = result["returns"], result["shares"]
        ways = f"{bridge:17.0%}{shore:17.0%}"
        print(f"{name:24}{returns.mean():12.2f}{worst_tenth(returns):13.2f}{ways}")


def plot(results: dict[str, Any], path: Path) -> None:
    """Plots the quantiles of both routes, learned by each agent and true."""
    figure, panels = plt.subplots(
        1, len(results), figsize=(10, 4.2), sharey=True, layout="constrained"
    )
    for axes, (name, result) in zip(panels, results.items(), strict=True):
        learned, (bridge, shore) = result["quantiles"], result["values"]
        probabilities = np.asarray(ops.quantile_midpoints(learned.shape[-1]))
        true = true_quantiles(probabilities, LakeParams())
        for way, colour, own, exact in zip(WAYS, COLOURS, learned, true, strict=True):
            axes.plot(
                probabilities,
                exact,
                color=colour,
                ls="--",
                lw=1,
                drawstyle="steps-mid",
                label=f"{way}, true",
            )
            axes.plot(probabilities, own, "o", color=colour, ms=4, label=f"{way}, learned")
        axes.axvspan(0.0, 0.25, color="0.92", zorder=0, label="worst quarter")
        title = f"{name} values the bridge at {bridge:.1f}, the shore at {shore:.1f}"
        axes.set(xlabel="probability", xlim=(0.0, 1.0))
        axes.set_title(title, fontsize="medium")
    panels[0].set_ylabel("quantile of the return")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example.

    Args:
        argv: Command-line arguments; `sys.argv` by default.

    Returns:
        The results of each agent.
    """
    parser = argparse.ArgumentParser(
        description="QR-DQN with a risk-averse policy, compared with plain QR-DQN.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("runs/risk-averse"), help="new folder")
    parser.add_argument("--n-steps", type=int, default=40_000, help="environment steps")
    parser.add_argument(
        "--n-evals", type=int, default=10_000, help="episodes played after training"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.output.exists():
        parser.error(f"{options.output} exists already: choose another --output.")
    options.output.mkdir(parents=True)

    agents = (QRDQN, RiskAverseQRDQN)
    results = {agent_class.__name__: learn(agent_class, options) for agent_class in agents}
    report(results)
    plot(results, options.output / "quantiles.png")
    print(f"\nThe quantiles are plotted in {options.output / 'quantiles.png'}.")
    return results


if __name__ == "__main__":
    main()
