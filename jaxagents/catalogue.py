"""Agents and their tuned settings by name, for the command line. Importing it imports no agent."""

import importlib
from typing import Any, NamedTuple

Fields = dict[str, Any]


class Entry(NamedTuple):
    """An agent in the catalogue.

    Attributes:
        module: Name of its module in the package.
        agent: Name of its class.
        summary: The algorithm in a few words.
        actions: The kinds of actions that it supports.
        learns_from_data: Whether it trains on a dataset.
    """

    module: str
    agent: str
    summary: str
    actions: str
    learns_from_data: bool = False

    def types(self) -> tuple[type[Any], type[Any], type[Any]]:
        """Imports the classes of the agent, configuration and hyperparameters."""
        module = importlib.import_module(f"jaxagents.{self.module}")
        names = self.agent, "AgentConfig", "HyperParameters"
        agent, config, hyperparams = (getattr(module, name) for name in names)
        return agent, config, hyperparams


CATALOGUE = {
    "ppo": Entry("ppo", "PPO", "proximal policy optimization", "discrete, continuous"),
    "ippo": Entry("ippo", "IPPO", "independent PPO, multi-agent", "discrete, continuous"),
    "mappo": Entry("mappo", "MAPPO", "PPO with one critic, multi-agent", "discrete, continuous"),
    "a2c": Entry("a2c", "A2C", "advantage actor-critic", "discrete, continuous"),
    "reinforce": Entry(
        "reinforce", "REINFORCE", "policy gradient, baseline", "discrete, continuous"
    ),
    "rnd": Entry("rnd", "RND", "PPO, random network distillation", "discrete, continuous"),
    "dqn": Entry("dqn", "DQN", "deep Q-networks", "discrete"),
    "ddqn": Entry("dqn", "DDQN", "double Q-learning", "discrete"),
    "c51": Entry("c51", "C51", "distributions of returns, atoms", "discrete"),
    "qrdqn": Entry("qrdqn", "QRDQN", "distributions of returns, quantiles", "discrete"),
    "pqn": Entry("pqn", "PQN", "Q-networks without replay", "discrete"),
    "sac": Entry("sac", "SAC", "soft actor-critic", "discrete, continuous"),
    "td3": Entry("td3", "TD3", "twin delayed policy gradient", "continuous"),
    "bc": Entry("bc", "BC", "behavioural cloning of a dataset", "discrete, continuous", True),
    "td3bc": Entry("td3bc", "TD3BC", "TD3 near the actions of a dataset", "continuous", True),
    "awac": Entry("awac", "AWAC", "advantage-weighted actor-critic", "continuous", True),
    "iql": Entry("iql", "IQL", "implicit Q-learning from a dataset", "continuous", True),
    "cql": Entry(
        "cql", "CQL", "conservative Q-learning from a dataset", "discrete, continuous", True
    ),
}


class Settings(NamedTuple):
    """Tuned settings of an agent in an environment.

    Attributes:
        agent: The agent's name in the catalogue.
        env: The environment's name.
        config: Fields of the configuration.
        hyperparams: Hyperparameters. A dict holds an optimizer's parameters or the fields of a linear
            schedule.
        anneals: Whether the learning rate is annealed linearly to zero.
        sees_images: Whether a small convolution encodes the observations.
        holds_noise: Whether TD3 keeps its exploration noise for a whole update.
    """

    agent: str
    env: str
    config: Fields
    hyperparams: Fields
    anneals: bool = False
    sees_images: bool = False
    holds_noise: bool = False


def _ten_evaluations(n_updates: int) -> Fields:
    """Settings for `n_updates` updates, with ten evaluations of 32 episodes."""
    return {"n_steps": n_updates, "eval_frequency": n_updates // 10, "n_evals": 32}


def _both_optimizers(**params: float) -> Fields:
    return {"actor_optimizer_params": params, "critic_optimizer_params": params}


def _value_based(
    env: str, n_updates: int, bounds: tuple[float, float], config: Fields, **rates: float
) -> dict[str, Settings]:
    """DQN, DDQN, C51 and QR-DQN in classic control.

    QR-DQN has bounded gradients, and takes twice the learning rate of the others.
    """
    shared = {"minibatch_size": 128, "features": (128, 128), "n_step_returns": 3, **config}
    doubled = {"critic_learning_rate": 2.0 * rates["critic_learning_rate"]}
    own = {
        "dqn": ({}, {}),
        "ddqn": ({}, {}),
        "c51": ({}, {"v_min": bounds[0], "v_max": bounds[1]}),
        "qrdqn": ({"n_quantiles": 25}, doubled),
    }
    return {
        f"{agent}-{env.partition('-')[0].lower()}": Settings(
            agent=agent,
            env=env,
            config={**_ten_evaluations(n_updates), **shared, **own_config},
            hyperparams={"tau": 0.005, **rates, **own_rates},
            anneals=True,
        )
        for agent, (own_config, own_rates) in own.items()
    }


def _minatar(*games: str) -> dict[str, Settings]:
    """DQN, C51, Rainbow and QR-DQN in MinAtar games. Checkpoints leave out their buffers.

    Rainbow is C51 with all other options of DQN; it explores only by its noisy networks.
    """
    config = {
        "batch_size": 10,
        "minibatch_size": 32,
        "features": (128,),
        "n_step_returns": 3,
        "buffer_size": 100_000,
        "learning_starts": 5_000,
        "checkpoint_buffer": False,
    }
    rates = {"tau": 0.01, "critic_learning_rate": 5e-4, "epsilon": 0.02, "epsilon_steps": 1e5}
    bounds = {"v_min": 0.0, "v_max": 20.0}
    greedy = {"initial_epsilon": 0.0, "epsilon": 0.0}
    options = ("double", "dueling", "prioritised_replay", "noisy")
    own = {
        "dqn": ("dqn", {}, {}),
        "c51": ("c51", {}, bounds),
        "rainbow": ("c51", dict.fromkeys(options, True), {**bounds, **greedy}),
        "qrdqn": ("qrdqn", {}, {}),
    }
    return {
        f"{name}-{game.lower()}": Settings(
            agent=agent,
            env=f"{game}-MinAtar",
            config={**_ten_evaluations(100_000), **config, **own_config},
            hyperparams={**rates, **own_rates},
            sees_images=True,
        )
        for game in games
        for name, (agent, own_config, own_rates) in own.items()
    }


def _pqn(
    env: str, n_updates: int, config: Fields, rate: float, q_lambda: float, **how: bool
) -> Settings:
    """PQN, with epsilon annealed over the first tenth of updates, and the learning rate over all."""
    hyperparams = {
        "q_lambda": q_lambda,
        "epsilon": {"initial": 1.0, "final": 0.05, "n_steps": n_updates // 10},
        "critic_learning_rate": {"initial": rate, "final": 0.0, "n_steps": n_updates},
    }
    config = {**_ten_evaluations(n_updates), **config}
    return Settings("pqn", env, config, hyperparams, **how)


def _offline(agent: str, config: Fields, **hyperparams: float) -> Settings:
    sizes = {"features": (64, 64), "minibatch_size": 256}
    config = {**_ten_evaluations(12_000), **sizes, **config}
    return Settings(agent, "Pendulum-v1", config, hyperparams)


_SIXTEEN_ENVS = {"batch_size": 16, "gradient_steps": 4}
_ONE_ENV = {"batch_size": 1, "minibatch_size": 256, "features": (64, 64)}
_PENDULUM = {**_ten_evaluations(10_000), **_ONE_ENV, "buffer_size": 20_000}
_RATES = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
_ANY_REWARDS = {"normalise_rewards": True}
_CQL_RATES = {  # with a penalty and a temperature for such rewards
    "conservative_weight": 0.1,
    "initial_temperature": 0.1,
    "actor_learning_rate": 3e-4,
}

PRESETS = {
    "ppo-cartpole": Settings(
        agent="ppo",
        env="CartPole-v1",
        config={"n_steps": 300, "eval_frequency": 15, "batch_size": 16, "minibatch_size": 4},
        hyperparams={"ent_coeff": 0.01, **_both_optimizers(learning_rate=2e-3, grad_clip=0.5)},
        anneals=True,
    ),
    "ppo-pendulum": Settings(
        agent="ppo",
        env="Pendulum-v1",
        config={
            "n_steps": 200,
            "batch_size": 32,
            "minibatch_size": 8,
            "rollout_length": 64,
            "actor_epochs": 8,
            "critic_epochs": 8,
            "eval_frequency": 20,
        },
        hyperparams={"gamma": 0.95, **_both_optimizers(learning_rate=1e-3)},
        anneals=True,
    ),
    "a2c-cartpole": Settings(
        agent="a2c",
        env="CartPole-v1",
        config={**_ten_evaluations(2_000), "rollout_length": 16},
        hyperparams={"ent_coeff": 0.01, **_both_optimizers(learning_rate=2e-3, grad_clip=0.5)},
        anneals=True,
    ),
    "reinforce-cartpole": Settings(
        agent="reinforce",
        env="CartPole-v1",
        config={**_ten_evaluations(300), "rollout_length": 256},
        hyperparams=_both_optimizers(learning_rate=2e-3, grad_clip=0.5),
        anneals=True,
    ),
    "rnd-deepsea": Settings(
        agent="rnd",
        env="DeepSea-bsuite",
        config={"n_steps": 50, "eval_frequency": 5, "n_evals": 8, "rollout_length": 64},
        hyperparams={"ent_coeff": 0.01, **_both_optimizers(learning_rate=1e-3, grad_clip=0.5)},
    ),
    **_value_based("CartPole-v1", 6_250, (0.0, 100.0), _SIXTEEN_ENVS, critic_learning_rate=2e-3),
    **_value_based("Acrobot-v1", 6_250, (-100.0, 0.0), _SIXTEEN_ENVS, critic_learning_rate=1e-3),
    **_value_based(
        "MountainCar-v0",
        12_500,
        (-50.0, 0.0),
        {"batch_size": 1, "rollout_length": 16, "gradient_steps": 8},
        critic_learning_rate=4e-3,
        gamma=0.98,
        epsilon=0.07,
        epsilon_steps=24_000.0,
    ),
    "pqn-cartpole": _pqn(
        "CartPole-v1",
        250,
        {"batch_size": 32, "rollout_length": 64, "gradient_steps": 64},
        rate=1e-3,
        q_lambda=0.95,
    ),
    "pqn-breakout": _pqn(
        "Breakout-MinAtar",
        1_000,
        {"batch_size": 64, "rollout_length": 32, "gradient_steps": 32, "features": (128,)},
        rate=5e-4,
        q_lambda=0.65,
        sees_images=True,
    ),
    "sac-pendulum": Settings(agent="sac", env="Pendulum-v1", config=_PENDULUM, hyperparams=_RATES),
    "td3-pendulum": Settings(agent="td3", env="Pendulum-v1", config=_PENDULUM, hyperparams=_RATES),
    "td3-mountaincarcontinuous": Settings(
        agent="td3",
        env="MountainCarContinuous-v0",
        config={
            **_ten_evaluations(1_562),
            **_ONE_ENV,
            "rollout_length": 32,
            "gradient_steps": 12,
            "n_step_returns": 3,
            "buffer_size": 50_000,
        },
        hyperparams={**_RATES, "exploration_noise": 1.0},
        holds_noise=True,
    ),
    "bc-pendulum": _offline("bc", {}),
    "td3bc-pendulum": _offline("td3bc", _ANY_REWARDS, value_weight=10.0, **_RATES),
    "iql-pendulum": _offline("iql", _ANY_REWARDS),
    "awac-pendulum": _offline("awac", _ANY_REWARDS),
    "cql-pendulum": _offline(
        "cql", {**_ANY_REWARDS, "minibatch_size": 128, "n_action_samples": 4}, **_CQL_RATES
    ),
    **_minatar("Breakout", "Freeway", "Asterix", "SpaceInvaders"),
}
"""By name: the agent (Rainbow is C51 with all options) and the environment, in lower case."""

NO_PRESET = "none"


def preset_of(agent: str, env: str) -> str | None:
    """The name of the preset of an agent in an environment, the first if there are several."""
    found = (name for name, settings in PRESETS.items() if settings[:2] == (agent, env))
    return next(found, None)
