"""What the benchmark of off-policy agents trains, and the figures of others."""

import functools
from typing import Any, NamedTuple

import optax

from jaxagents import c51, dqn, qrdqn, sac, td3
from jaxagents.networks import ObservationEncoder


class Task(NamedTuple):
    """Agents in an environment.

    Attributes:
        env: The environment.
        n_steps: Environment steps of a training.
        reference: What others report.
        agents: Class, configuration and hyperparameters, by name.
    """

    env: str
    n_steps: int
    reference: str
    agents: dict[str, tuple[type, Any, Any]]


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
    n_steps: int, rate: float, bounds: tuple[float, float], rates: dict[str, Any], **fields: Any
) -> dict[str, tuple[type, Any, Any]]:
    """The value-based agents for classic control, with step sizes that fall to zero.

    QR-DQN, whose gradients are bounded, takes twice the step size of the others.
    """
    steps_per_update = fields["batch_size"] * fields.get("rollout_length", 1)
    n_updates = n_steps // steps_per_update * fields["gradient_steps"]
    agents = value_based(
        {"tau": 0.005, "critic_learning_rate": rate, **rates},
        bounds,
        minibatch_size=128,
        features=(128, 128),
        n_step_returns=3,
        optimizer=functools.partial(annealed, n_updates=n_updates),
        **fields,
    )
    agent_type, config, hyperparams = agents["QR-DQN"]
    larger = hyperparams.replace(critic_learning_rate=2.0 * rate)
    return {**agents, "QR-DQN": (agent_type, config.replace(n_quantiles=25), larger)}


def continuous(
    fields: dict[str, Any], sac_rates: dict[str, Any], td3_rates: dict[str, Any]
) -> dict[str, tuple[type, Any, Any]]:
    """SAC and TD3 with the same settings."""
    return {
        "SAC": (sac.SAC, sac.AgentConfig(**fields), sac.HyperParameters(**sac_rates)),
        "TD3": (td3.TD3, td3.AgentConfig(**fields), td3.HyperParameters(**td3_rates)),
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


def minatar(name: str, reference: str) -> Task:
    """DQN, C51 and QR-DQN in a game of MinAtar."""
    agents = value_based(MINATAR_RATES, (0.0, 20.0), **MINATAR)
    del agents["DDQN"]
    return Task(f"{name}-MinAtar", 1_000_000, reference, agents)


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        100_000,
        "The largest return is 500.",
        classic(100_000, 2e-3, (0.0, 100.0), {}, batch_size=16, gradient_steps=4),
    ),
    "acrobot": Task(
        "Acrobot-v1",
        100_000,
        "About -80 is what well-tuned agents reach.",
        classic(100_000, 1e-3, (-100.0, 0.0), {}, batch_size=16, gradient_steps=4),
    ),
    "mountain_car": Task(
        "MountainCar-v0",
        200_000,
        "An episode that does not reach the flag returns -200; -110 counts as solved.",
        classic(
            200_000,
            4e-3,
            (-50.0, 0.0),
            {"gamma": 0.98, "epsilon": 0.07, "epsilon_steps": 24_000.0},
            batch_size=1,
            rollout_length=16,
            gradient_steps=8,
        ),
    ),
    "pendulum": Task(
        "Pendulum-v1",
        20_000,
        "About -150 is what well-tuned agents reach.",
        continuous(
            {
                "batch_size": 1,
                "minibatch_size": 256,
                "features": (64, 64),
                "buffer_size": 20_000,
                "learning_starts": 1_000,
            },
            {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3},
            {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3},
        ),
    ),
    "mountain_car_continuous": Task(
        "MountainCarContinuous-v0",
        50_000,
        "A return above 90 counts as solved.",
        continuous(
            {
                "batch_size": 1,
                "minibatch_size": 256,
                "features": (64, 64),
                "buffer_size": 50_000,
                "learning_starts": 1_000,
            },
            {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3},
            {
                "actor_learning_rate": 1e-3,
                "critic_learning_rate": 1e-3,
                "exploration_noise": 0.5,
            },
        ),
    ),
    "breakout": minatar("Breakout", ""),
    "freeway": minatar("Freeway", ""),
    "asterix": minatar("Asterix", ""),
    "space_invaders": minatar("SpaceInvaders", ""),
}
