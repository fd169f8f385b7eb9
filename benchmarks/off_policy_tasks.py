"""The tasks of the benchmark of off-policy and offline agents, and the figures of others.

These are of RL Baselines3 Zoo (https://github.com/DLR-RM/rl-baselines3-zoo, benchmark.md), one run each.
"""

from collections.abc import Callable
from typing import NamedTuple

import gymnasium
import numpy as np

from jaxagents import SAC, host, sac
from jaxagents.data import Dataset

VALUE_BASED = {
    "DQN": "dqn",
    "DDQN": "ddqn",
    "C51": "c51",
    "Rainbow": "rainbow",
    "QR-DQN": "qrdqn",
    "PQN": "pqn",
}
REPLAYED = ("DQN", "DDQN", "C51", "QR-DQN")


class Task(NamedTuple):
    """Agents in an environment.

    Attributes:
        env: The environment.
        meaning: What a return means.
        published: Returns that others report, by the name of the agent.
        agents: The names of their presets, by those of the agents.
        data: Makes what offline agents learn from, of so many environment steps.
    """

    env: str
    meaning: str
    published: dict[str, float]
    agents: dict[str, str]
    data: Callable[[int], Dataset] | None = None


def mixed_data(n_steps: int) -> Dataset:
    """Episodes of SAC after a training of as many steps, and as many of random actions.

    Rewards are a tenth of Pendulum's, which lie between -16 and 0.
    """
    config = sac.AgentConfig(
        n_envs=1,
        n_updates=n_steps - n_steps // 10,
        learning_starts=n_steps // 10,
        minibatch_size=256,
        buffer_size=n_steps,
        features=(64, 64),
    )
    env = gymnasium.make("Pendulum-v1")
    agent = SAC(env, None, config, eval_during_training=False)
    agent.train(0, progress=False)
    rng = np.random.default_rng(0)
    policies = (agent.policy, lambda _: rng.uniform(-2.0, 2.0, 1))
    trajectories = [
        trajectory
        for policy in policies
        for trajectory in host.evaluate_with_trajectories(policy, env, n_steps // 200)[1]
    ]
    data = {**host.concatenate_trajectories(trajectories)}
    data["rewards"] = 0.1 * data["rewards"]
    arrays = {key: x if x.dtype == bool else np.float32(x) for key, x in data.items()}
    return Dataset(arrays, action_space=env.action_space)


def value_based(name: str, *labels: str) -> dict[str, str]:
    """Presets of the value-based agents in an environment."""
    return {label: f"{VALUE_BASED[label]}-{name}" for label in labels or REPLAYED}


def minatar(game: str, meaning: str, *further: str) -> Task:
    """DQN, C51, QR-DQN, further agents and Rainbow in a game of MinAtar."""
    agents = value_based(game.lower(), "DQN", "C51", "QR-DQN", *further, "Rainbow")
    return Task(f"{game}-MinAtar", meaning, {}, agents)


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        "The largest return is 500.",
        {"DQN": 500.0, "QR-DQN": 500.0},
        value_based("cartpole", *REPLAYED, "PQN"),
    ),
    "acrobot": Task(
        "Acrobot-v1",
        "A return is minus the number of steps to the goal.",
        {"DQN": -76.6, "QR-DQN": -69.1},
        value_based("acrobot"),
    ),
    "mountain_car": Task(
        "MountainCar-v0",
        "An episode that does not reach the flag returns -200; -110 counts as solved.",
        {"DQN": -100.8, "QR-DQN": -106.0},
        value_based("mountaincar"),
    ),
    "pendulum": Task(
        "Pendulum-v1",
        "Returns depend on the start, and are never positive.",
        {"SAC": -157.0, "TD3": -151.9},
        {"SAC": "sac-pendulum", "TD3": "td3-pendulum"},
    ),
    "mountain_car_continuous": Task(
        "MountainCarContinuous-v0",
        "A return above 90 counts as solved. Independent noise in each step seldom takes the car to the "
        "flag; here it is drawn anew every 32 steps.",
        {"TD3": 93.5},
        {"TD3": "td3-mountaincarcontinuous"},
    ),
    "pendulum_offline": Task(
        "Pendulum-v1",
        "From 50 episodes of SAC after 10,000 steps, and as many of random actions. Steps are updates.",
        {},
        {
            "BC": "bc-pendulum",
            "TD3+BC": "td3bc-pendulum",
            "IQL": "iql-pendulum",
            "CQL": "cql-pendulum",
        },
        mixed_data,
    ),
    "breakout": minatar("Breakout", "A return is the number of bricks hit; a wall has 30.", "PQN"),
    "freeway": minatar("Freeway", "A return is the number of crossings in 2,500 steps."),
    "asterix": minatar("Asterix", "A return is the number of treasures."),
    "space_invaders": minatar(
        "SpaceInvaders",
        "A return is the number of aliens hit. Nothing is random in gymnax's game, so that all greedy "
        "episodes of an agent are the same.",
    ),
}
