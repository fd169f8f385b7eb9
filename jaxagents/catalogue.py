"""The agents by the names that the command line and presets have for them, none of them imported."""

import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An agent of the catalogue.

    Attributes:
        module: Its module within the package.
        agent: Its class there.
        summary: Its algorithm in a few words.
        actions: Kinds of actions that it takes.
        learns_from_data: Whether it is given a dataset.
    """

    module: str
    agent: str
    summary: str
    actions: str
    learns_from_data: bool = False

    def types(self) -> tuple[type[Any], type[Any], type[Any]]:
        """Imports the agent: its class, those of its configuration and of its hyperparameters."""
        module = importlib.import_module(f"jaxagents.{self.module}")
        names = self.agent, "AgentConfig", "HyperParameters"
        agent, config, hyperparams = (getattr(module, name) for name in names)
        return agent, config, hyperparams


CATALOGUE = {
    "ppo": Entry("ppo", "PPO", "proximal policy optimization", "discrete, box"),
    "ippo": Entry("ippo", "IPPO", "independent PPO of several actors", "discrete, box"),
    "mappo": Entry("mappo", "MAPPO", "PPO of several actors, one critic", "discrete, box"),
    "a2c": Entry("a2c", "A2C", "advantage actor-critic", "discrete, box"),
    "reinforce": Entry("reinforce", "REINFORCE", "policy gradient, baseline", "discrete, box"),
    "rnd": Entry("rnd", "RND", "PPO, random network distillation", "discrete, box"),
    "dqn": Entry("dqn", "DQN", "deep Q-networks", "discrete"),
    "ddqn": Entry("dqn", "DDQN", "double Q-learning", "discrete"),
    "c51": Entry("c51", "C51", "distributions of returns, atoms", "discrete"),
    "qrdqn": Entry("qrdqn", "QRDQN", "distributions of returns, quantiles", "discrete"),
    "pqn": Entry("pqn", "PQN", "Q-networks without replay", "discrete"),
    "sac": Entry("sac", "SAC", "soft actor-critic", "discrete, box"),
    "td3": Entry("td3", "TD3", "twin delayed policy gradient", "box"),
    "bc": Entry("bc", "BC", "behavioural cloning of a dataset", "discrete, box", True),
    "td3bc": Entry("td3bc", "TD3BC", "TD3 near the actions of a dataset", "box", True),
    "awac": Entry("awac", "AWAC", "advantage-weighted actor-critic", "box", True),
    "iql": Entry("iql", "IQL", "implicit Q-learning from a dataset", "box", True),
    "cql": Entry("cql", "CQL", "conservative Q-learning from a dataset", "discrete, box", True),
}
