"""Checks of the outcome of an update."""

from typing import Any, cast

import jax.numpy as jnp
from jaxtyping import PyTree

from jaxagents.agents.config import Config
from jaxagents.agents.kept_info import check_names_of_info
from jaxagents.core.report import Report
from jaxagents.core.trees import leaves_by_name


def check_update(outcome: object, before: Any, agent: str, config: Config) -> tuple[Any, Report]:
    """Raises unless an update gives a runner with the arrays that it had, and a report of numbers.

    Args:
        outcome: What the update gives.
        before: The runner before it.
        agent: Name of the agent.
        config: Its configuration, which names entries of infos that are metrics too.

    Returns:
        The runner and the report.

    Raises:
        TypeError: It gives something else.
        ValueError: The runner has other arrays, or a number has axes or the name of another metric.
    """
    step = f"{agent}._training_step, or a step that it calls,"
    is_pair = isinstance(outcome, tuple) and len(outcome) == 2
    if (
        not is_pair
        or not isinstance(outcome[0], type(before))
        or not isinstance(outcome[1], Report)
    ):
        found = [type(x).__name__ for x in (outcome if isinstance(outcome, tuple) else [outcome])]
        raise TypeError(
            f"{step} must return the runner after the update and its report, as in 'runner, report = "
            f"super()._training_step(runner)', got {' and '.join(found)}."
        )
    runner, report = cast(tuple[Any, Report], outcome)
    maker = "_create_networks or _create_runner"
    check_same_arrays(runner.replace(info={}), before.replace(info={}), step, maker)
    shapes = {name: jnp.shape(x) for name, x in report.numbers.items() if jnp.ndim(x)}
    if shapes:
        raise ValueError(
            f"{agent}: what an update reports is one number each, got the shapes {shapes}: give their "
            "means."
        )
    check_names_of_info(config, report.numbers)
    return runner, report


def check_same_arrays(after: PyTree, before: PyTree, step: str, maker: str) -> None:
    """Raises if an update adds arrays to what it is carried in, or drops some.

    Args:
        after: What is carried, after it.
        before: The same before it.
        step: What makes the update, for the message.
        maker: What makes the arrays before the first.

    Raises:
        ValueError: It does.
    """
    odd = sorted(leaves_by_name(after).keys() ^ leaves_by_name(before).keys())
    if odd:
        raise ValueError(
            f"{step} changes which arrays there are, by {odd}: they are the same before every update. "
            f"Have {maker} make what is to be remembered."
        )
