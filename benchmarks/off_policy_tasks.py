"""The tasks of the benchmark of off-policy and offline agents, and published returns.

The published returns are from RL Baselines3 Zoo (https://github.com/DLR-RM/rl-baselines3-zoo,
benchmark.md), with one run each.
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
    """An environment and the agents to train in it.

    Attributes:
        env: The environment.
        meaning: What a return means.
        published: Published return of each agent.
        agents: Preset of each agent.
        data: Makes the dataset of offline agents, given a number of environment steps.
    """

    env: str
    meaning: str
    published: dict[str, float]
    agents: dict[str, str]
    data: Callable[[int], Dataset] | None = None


def mixed_data(n_steps: int) -> Dataset:
    """A dataset of Pendulum-v1: episodes of SAC after `n_steps` steps, and as many of random actions."""
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
    arrays = {key: x if x.dtype == bool else np.float32(x) for key, x in data.items()}
    return Dataset(arrays, action_space=env.action_space)


def value_based(name: str, *labels: str) -> dict[str, str]:
    """Presets of value-based agents in an environment."""
    return {label: f"{VALUE_BASED[label]}-{name}" for label in labels or REPLAYED}


def minatar(game: str, meaning: str, *further: str) -> Task:
    """A MinAtar game with DQN, C51, QR-DQN, further agents and Rainbow."""
    agents = value_based(game.lower(), "DQN", "C51", "QR-DQN", *further, "Rainbow")
    return Task(f"{game}-MinAtar", meaning, {}, agents)


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        "The maximum return is 500.",
        {"DQN": 500.0, "QR-DQN": 500.0},
        value_based("cartpole", *REPLAYED, "PQN"),
    ),
    "acrobot": Task(
        "Acrobot-v1",
        "The return is minus the number of steps to the goal.",
        {"DQN": -76.6, "QR-DQN": -69.1},
        value_based("acrobot"),
    ),
    "mountain_car": Task(
        "MountainCar-v0",
        "Episodes that do not reach the flag return -200; a return of -110 counts as solved.",
        {"DQN": -100.8, "QR-DQN": -106.0},
        value_based("mountaincar"),
    ),
    "pendulum": Task(
        "Pendulum-v1",
        "Returns depend on the initial state and are never positive.",
        {"SAC": -157.0, "TD3": -151.9},
        {"SAC": "sac-pendulum", "TD3": "td3-pendulum"},
    ),
    "mountain_car_continuous": Task(
        "MountainCarContinuous-v0",
        "A return above 90 counts as solved. Independent noise at each step rarely takes the car to the "
        "flag, so the exploration noise changes only every 32 steps.",
        {"TD3": 93.5},
        {"TD3": "td3-mountaincarcontinuous"},
    ),
    "pendulum_offline": Task(
        "Pendulum-v1",
        "The dataset has 50 episodes of SAC after 10,000 steps, and 50 of random actions. The "
        "column Steps counts updates.",
        {},
        {
            "BC": "bc-pendulum",
            "TD3+BC": "td3bc-pendulum",
            "IQL": "iql-pendulum",
            "AWAC": "awac-pendulum",
            "CQL": "cql-pendulum",
        },
        mixed_data,
    ),
    "breakout": minatar(
        "Breakout", "The return is the number of bricks hit; a wall has 30.", "PQN"
    ),
    "freeway": minatar("Freeway", "The return is the number of crossings in 2,500 steps."),
    "asterix": minatar("Asterix", "The return is the number of treasures collected."),
    "space_invaders": minatar(
        "SpaceInvaders",
        "The return is the number of aliens hit. gymnax's game is deterministic, so all greedy episodes "
        "of an agent are the same.",
    ),
}
