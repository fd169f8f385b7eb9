"""Checks of what is kept of the environment's info, made before anything is compiled."""

import inspect
from collections.abc import Callable, Collection

from jaxagents.agents.config import Config
from jaxagents.core.clashes import check_not_taken
from jaxagents.envs.play import NAMES_OF_METRICS


def takes_info(hook: Callable[..., object]) -> bool:
    """Whether an `_eval_metrics` has an argument `info`."""
    return "info" in inspect.signature(hook).parameters


def check_eval_metrics(agent: str, config: Config, hook: Callable[..., object]) -> None:
    """Raises if an `_eval_metrics` needs the environment's info, of which nothing is kept.

    Args:
        agent: Name of the agent.
        config: Its configuration, which names the entries that are.
        hook: The `_eval_metrics`.

    Raises:
        ValueError: It does.
    """
    if not takes_info(hook) or config.final_info or config.summed_info:
        return
    if inspect.signature(hook).parameters["info"].default is inspect.Parameter.empty:
        raise ValueError(
            f"{agent}._eval_metrics takes info, but the configuration keeps none: name the entries in "
            "final_info or summed_info, such as final_info=('won',), or give the argument a default."
        )


def check_names_of_info(config: Config, reported: Collection[str]) -> None:
    """Raises if what updates report would take the place of other metrics, or info that of either.

    Args:
        config: The configuration, which names the entries.
        reported: Names of what updates report.

    Raises:
        ValueError: They would.
    """
    what = "A loss, or a learner, reports"
    check_not_taken(what, reported, NAMES_OF_METRICS, "which names another metric")
    taken = [name for name in (*config.final_info, *config.summed_info) if name in reported]
    if taken:
        raise ValueError(
            f"final_info and summed_info name {taken}, which updates report already, beside "
            f"{sorted(set(reported) - {*taken})}: have the environment give it under another name."
        )
