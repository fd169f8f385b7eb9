"""What the benchmark of off-policy and offline agents trains, and the figures of others.

These are of RL Baselines3 Zoo (https://github.com/DLR-RM/rl-baselines3-zoo, benchmark.md), one run each.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
import optax

from jaxagents import bc, c51, cql, dqn, host, iql, qrdqn, sac, td3
from jaxagents.data import Dataset
from jaxagents.networks import ObservationEncoder

Agents = dict[str, tuple[type, Any, Any]]
"""Class, configuration and hyperparameters, by name."""


class Task(NamedTuple):
    """Agents in an environment.

    Attributes:
        env: The environment.
        n_steps: Environment steps of a training, or updates of offline agents.
        meaning: What a return means.
        published: Returns that others report, by the name of the agent.
        agents: The agents.
        data: Makes what offline agents learn from, of so many environment steps.
    """

    env: str
    n_steps: int
    meaning: str
    published: dict[str, float]
    agents: Agents
    data: Callable[[int], Dataset] | None = None


class HeldNoiseTD3(td3.TD3):
    """Explores with one draw of noise for each update step, as cars must swing to climb a mountain."""

    def _explore(self, key: Any, learner: Any, obs: Any, n_steps: Any) -> Any:
        return learner.sample_actions(obs, seed=jax.random.fold_in(learner.rng, 1))


def annealed(learning_rate: Any, n_updates: int) -> optax.GradientTransformation:
    """Adam, with a learning rate that falls to zero."""
    decay = optax.linear_schedule(1.0, 0.0, n_updates)
    return optax.chain(optax.adam(learning_rate), optax.scale_by_schedule(decay))


def value_based(rates: dict[str, Any], bounds: tuple[float, float], **fields: Any) -> Agents:
    """DQN, DDQN, C51 and QR-DQN with the same settings."""
    support = {"v_min": bounds[0], "v_max": bounds[1]}
    return {
        "DQN": (dqn.DQN, dqn.AgentConfig(**fields), dqn.HyperParameters(**rates)),
        "DDQN": (dqn.DDQN, dqn.AgentConfig(**fields), dqn.HyperParameters(**rates)),
        "C51": (c51.C51, c51.AgentConfig(**fields), c51.HyperParameters(**rates, **support)),
        "QR-DQN": (qrdqn.QRDQN, qrdqn.AgentConfig(**fields), qrdqn.HyperParameters(**rates)),
    }


def classic(
    env: str,
    n_steps: int,
    meaning: str,
    published: dict[str, float],
    bounds: tuple[float, float],
    rates: dict[str, float],
    **fields: int,
) -> Task:
    """The value-based agents in classic control, with step sizes that fall to zero.

    QR-DQN, whose gradients are bounded, takes twice the step size of the others.
    """
    shared = {"minibatch_size": 128, "features": (128, 128), "n_step_returns": 3}
    n_updates = round(n_steps * dqn.AgentConfig(**fields).update_to_data_ratio)
    optimizer = functools.partial(annealed, n_updates=n_updates)
    agents = value_based({"tau": 0.005, **rates}, bounds, optimizer=optimizer, **shared, **fields)
    agent_type, config, hyperparams = agents["QR-DQN"]
    larger = hyperparams.replace(critic_learning_rate=2.0 * rates["critic_learning_rate"])
    agents["QR-DQN"] = (agent_type, config.replace(n_quantiles=25), larger)
    return Task(env, n_steps, meaning, published, agents)


def minatar(name: str, meaning: str) -> Task:
    """DQN, C51 and QR-DQN in a game of MinAtar."""
    agents = value_based(MINATAR_RATES, (0.0, 20.0), **MINATAR)
    del agents["DDQN"]
    return Task(f"{name}-MinAtar", 1_000_000, meaning, {}, agents)


def mixed_data(n_steps: int) -> Dataset:
    """Episodes of SAC after a training of as many steps, and as many of random actions.

    Rewards are a tenth of Pendulum's, which lie between -16 and 0.
    """
    env = host.rescale_actions(gymnasium.make("Pendulum-v1"))
    examples = env.observation_space.sample(), env.action_space.sample()
    learner = sac.SACLearner.create(0, *examples, features=(64, 64))
    config = host.OnlineConfig(n_steps=n_steps, start_steps=n_steps // 10, eval_frequency=n_steps)
    learner, _ = host.train_online(learner, env, config, progress=False)
    rng = np.random.default_rng(0)
    policies = (learner.sample_actions, lambda _: rng.uniform(-1.0, 1.0, 1))
    trajectories = [
        trajectory
        for policy in policies
        for trajectory in host.evaluate_with_trajectories(policy, env, n_steps // 200)[1]
    ]
    data = {**host.concatenate_trajectories(trajectories)}
    data |= {"rewards": 0.1 * data["rewards"], "actions": 2.0 * data["actions"]}
    return Dataset({key: x if x.dtype == bool else np.float32(x) for key, x in data.items()})


SIXTEEN_ENVS = {"batch_size": 16, "gradient_steps": 4}
ONE_ENV = {"batch_size": 1, "minibatch_size": 256, "features": (64, 64)}
RATES = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
MINATAR_RATES = {"tau": 0.01, "critic_learning_rate": 5e-4, "epsilon": 0.02, "epsilon_steps": 1e5}
MINATAR = {
    "batch_size": 10,
    "minibatch_size": 32,
    "encoder": ObservationEncoder((3,), padding="VALID"),
    "features": (128,),
    "n_step_returns": 3,
    "buffer_size": 100_000,
    "learning_starts": 5_000,
}
PENDULUM = {**ONE_ENV, "buffer_size": 20_000}
HILL = {**ONE_ENV, "rollout_length": 32, "gradient_steps": 12, "n_step_returns": 3}
HILL_CONFIG = td3.AgentConfig(**HILL, buffer_size=50_000)
HILL_RATES = td3.HyperParameters(**RATES, exploration_noise=1.0)
OFFLINE = {"features": (64, 64), "minibatch_size": 256}
CQL_CONFIG = cql.AgentConfig(**OFFLINE, n_action_samples=4)
CQL_RATES = cql.HyperParameters(  # a penalty and a temperature that fit rewards of this size
    conservative_weight=0.1, initial_temperature=0.1, actor_learning_rate=3e-4
)
TASKS = {
    "cartpole": classic(
        "CartPole-v1",
        100_000,
        "The largest return is 500.",
        {"DQN": 500.0, "QR-DQN": 500.0},
        (0.0, 100.0),
        {"critic_learning_rate": 2e-3},
        **SIXTEEN_ENVS,
    ),
    "acrobot": classic(
        "Acrobot-v1",
        100_000,
        "A return is minus the number of steps to the goal.",
        {"DQN": -76.6, "QR-DQN": -69.1},
        (-100.0, 0.0),
        {"critic_learning_rate": 1e-3},
        **SIXTEEN_ENVS,
    ),
    "mountain_car": classic(
        "MountainCar-v0",
        200_000,
        "An episode that does not reach the flag returns -200; -110 counts as solved.",
        {"DQN": -100.8, "QR-DQN": -106.0},
        (-50.0, 0.0),
        {"critic_learning_rate": 4e-3, "gamma": 0.98, "epsilon": 0.07, "epsilon_steps": 24_000.0},
        batch_size=1,
        rollout_length=16,
        gradient_steps=8,
    ),
    "pendulum": Task(
        "Pendulum-v1",
        20_000,
        "Returns depend on the start, and are never positive.",
        {"SAC": -157.0, "TD3": -151.9},
        {
            "SAC": (sac.SAC, sac.AgentConfig(**PENDULUM), sac.HyperParameters(**RATES)),
            "TD3": (td3.TD3, td3.AgentConfig(**PENDULUM), td3.HyperParameters(**RATES)),
        },
    ),
    "mountain_car_continuous": Task(
        "MountainCarContinuous-v0",
        50_000,
        "A return above 90 counts as solved. Independent noise in each step seldom takes the car to the "
        "flag; here it is drawn anew every 32 steps.",
        {"TD3": 93.5},
        {"TD3": (HeldNoiseTD3, HILL_CONFIG, HILL_RATES)},
    ),
    "pendulum_offline": Task(
        "Pendulum-v1",
        12_000,
        "From 50 episodes of SAC after 10,000 steps, and as many of random actions. Steps are updates.",
        {},
        {
            "BC": (bc.BC, bc.AgentConfig(**OFFLINE), bc.BCHyperparameters()),
            "IQL": (iql.IQL, iql.AgentConfig(**OFFLINE), iql.IQLHyperparameters()),
            "CQL": (cql.CQL, CQL_CONFIG, CQL_RATES),
        },
        mixed_data,
    ),
    "breakout": minatar("Breakout", "A return is the number of bricks, of which a wall has 30."),
    "freeway": minatar("Freeway", "A return is the number of crossings in 2,500 steps."),
    "asterix": minatar("Asterix", "A return is the number of treasures."),
    "space_invaders": minatar(
        "SpaceInvaders",
        "A return is the number of aliens hit. Nothing is random in gymnax's game, so that all greedy "
        "episodes of an agent are the same.",
    ),
}
