"""Training from a terminal: `jaxagents train ppo CartPole-v1`."""

from typing import Any

from jaxagents.cli.commands import main

__all__ = ["main"]


def __getattr__(name: str) -> Any:
    """Imports `annealed_adam`, which moved to `jaxagents.agents.annealing`, once it is used."""
    if name == "annealed_adam":
        from jaxagents.agents.annealing import annealed_adam

        return annealed_adam
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
