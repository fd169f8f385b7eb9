"""Names of 0.2.5, whose imports fail with the name that took their place."""

from collections.abc import Callable
from typing import Any, NoReturn

_AGENTS = {
    "PPOAgent": "PPOBase, or PPO, which is complete",
    "PPOAgentBase": "PPOBase",
    "IPPOAgent": "IPPOBase, or IPPO, which is complete",
    "ReinforceAgent": "REINFORCEBase, or REINFORCE, which is complete",
    "DQN_Agent": "DQN",
    "DDQN_Agent": "DDQN",
    "CategoricalDQN_Agent": "C51",
    "QRDDQN_Agent": "QRDQN",
    "TruncationWrapper": "the field max_episode_steps of the configuration",
}
_MODULES = {
    "utils": "jaxagents.ppo and jaxagents.ippo, for AgentConfig, HyperParameters and OptimizerParams",
    "depreceated": "jaxagents itself, for REINFORCE, DQN, DDQN, C51 and QRDQN",
}


def former_names(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that had, or might have had, names of 0.2.5.

    Args:
        module: Its name.

    Returns:
        The function.
    """

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        if name in _AGENTS:
            raise ImportError(_has_moved(f"{name} was the name in 0.2.5", _AGENTS[name]))
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def former_module(name: str) -> ImportError:
    """The error of a module of 0.2.5.

    Args:
        name: Its full name.

    Returns:
        The error, which names what took its place.
    """
    return ImportError(_has_moved(f"{name} was a part of 0.2.5", _MODULES[name.rpartition(".")[2]]))


def _has_moved(what: str, place: str) -> str:
    return f"{what}; use {place}. See Migrating in the guide."
