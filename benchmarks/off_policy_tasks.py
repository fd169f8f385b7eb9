"""What the benchmark of off-policy agents trains, and the figures of others.

These are of RL Baselines3 Zoo (https://github.com/DLR-RM/rl-baselines3-zoo, benchmark.md), one run each.
"""

import functools
from typing import Any, NamedTuple

import jax
import optax

from jaxagents import c51, dqn, qrdqn, sac, td3
from jaxagents.networks import ObservationEncoder


class Task(NamedTuple):
    """Agents in an environment.

    Attributes:
        env: The environment.
        n_steps: Environment steps of a training.
        meaning: What a return means.
        published: Returns that others report, by the name of the agent.
        agents: Class, configuration and hyperparameters, by name.
    """

    env: str
    n_steps: int
    meaning: str
    published: dict[str, float]
    agents: dict[str, tuple[type, Any, Any]]


class HeldNoiseTD3(td3.TD3):
    """Explores with one draw of noise for each update step, as cars must swing to climb a mountain."""

    def _explore(self, key: Any, learner: Any, obs: Any, n_steps: Any) -> Any:
        return learner.sample_actions(obs, seed=jax.random.fold_in(learner.rng, 1))


def annealed(learning_rate: Any, n_updates: int) -> optax.GradientTransformation:
    """Adam, with a learning rate that falls to zero."""
    decay = optax.linear_schedule(1.0, 0.0, n_updates)
    return optax.chain(optax.adam(learning_rate), optax.scale_by_schedule(decay))


def value_based(
    rates: dict[str, Any], bounds: tuple[float, float], **fields: Any
) -> dict[str, tuple[type, Any, Any]]:
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
    rate: float,
    bounds: tuple[float, float],
    rates: dict[str, Any],
    **fields: Any,
) -> Task:
    """The value-based agents in classic control, with step sizes that fall to zero.

    QR-DQN, whose gradients are bounded, takes twice the step size of the others.
    """
    rates = {"tau": 0.005, "critic_learning_rate": rate, **rates}
    shared = {"minibatch_size": 128, "features": (128, 128), "n_step_returns": 3}
    n_updates = round(n_steps * dqn.AgentConfig(**fields).update_to_data_ratio)
    optimizer = functools.partial(annealed, n_updates=n_updates)
    agents = value_based(rates, bounds, optimizer=optimizer, **shared, **fields)
    agent_type, config, hyperparams = agents["QR-DQN"]
    larger = hyperparams.replace(critic_learning_rate=2.0 * rate)
    agents["QR-DQN"] = (agent_type, config.replace(n_quantiles=25), larger)
    return Task(env, n_steps, meaning, published, agents)


def continuous(rates: dict[str, Any], **fields: Any) -> dict[str, tuple[type, Any, Any]]:
    """SAC and TD3 with the same settings."""
    return {
        "SAC": (sac.SAC, sac.AgentConfig(**fields), sac.HyperParameters(**rates)),
        "TD3": (td3.TD3, td3.AgentConfig(**fields), td3.HyperParameters(**rates)),
    }


MINATAR = {
    "batch_size": 10,
    "minibatch_size": 32,
    "encoder": ObservationEncoder((3,), padding="VALID"),
    "features": (128,),
    "n_step_returns": 3,
    "buffer_size": 100_000,
    "learning_starts": 5_000,
}
MINATAR_RATES = {
    "tau": 0.01,
    "epsilon": 0.02,
    "epsilon_steps": 100_000.0,
    "critic_learning_rate": 5e-4,
}


def minatar(name: str, meaning: str) -> Task:
    """DQN, C51 and QR-DQN in a game of MinAtar."""
    agents = value_based(MINATAR_RATES, (0.0, 20.0), **MINATAR)
    del agents["DDQN"]
    return Task(f"{name}-MinAtar", 1_000_000, meaning, {}, agents)


TASKS = {
    "cartpole": classic(
        "CartPole-v1",
        100_000,
        "The largest return is 500.",
        {"DQN": 500.0, "QR-DQN": 500.0},
        2e-3,
        (0.0, 100.0),
        {},
        batch_size=16,
        gradient_steps=4,
    ),
    "acrobot": classic(
        "Acrobot-v1",
        100_000,
        "A return is minus the number of steps to the goal.",
        {"DQN": -76.6, "QR-DQN": -69.1},
        1e-3,
        (-100.0, 0.0),
        {},
        batch_size=16,
        gradient_steps=4,
    ),
    "mountain_car": classic(
        "MountainCar-v0",
        200_000,
        "An episode that does not reach the flag returns -200; -110 counts as solved.",
        {"DQN": -100.8, "QR-DQN": -106.0},
        4e-3,
        (-50.0, 0.0),
        {"gamma": 0.98, "epsilon": 0.07, "epsilon_steps": 24_000.0},
        batch_size=1,
        rollout_length=16,
        gradient_steps=8,
    ),
    "pendulum": Task(
        "Pendulum-v1",
        20_000,
        "Returns depend on the start, and are never positive.",
        {"SAC": -157.0, "TD3": -151.9},
        continuous(
            {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3},
            batch_size=1,
            minibatch_size=256,
            features=(64, 64),
            buffer_size=20_000,
        ),
    ),
    "mountain_car_continuous": Task(
        "MountainCarContinuous-v0",
        50_000,
        "A return above 90 counts as solved. Independent noise in each step seldom takes the car to the "
        "flag; here it is drawn anew every 32 steps.",
        {"TD3": 93.5},
        {
            "TD3": (
                HeldNoiseTD3,
                td3.AgentConfig(
                    batch_size=1,
                    rollout_length=32,
                    gradient_steps=12,
                    minibatch_size=256,
                    features=(64, 64),
                    n_step_returns=3,
                    buffer_size=50_000,
                ),
                td3.HyperParameters(
                    actor_learning_rate=1e-3, critic_learning_rate=1e-3, exploration_noise=1.0
                ),
            )
        },
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
