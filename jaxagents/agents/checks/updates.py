"""Checks of what an update changes."""

import jax.numpy as jnp
from jaxtyping import PyTree

from jaxagents.agents.runners import AnyRunner
from jaxagents.core.trees import leaves_by_name


def check_runner(runner: object, before: AnyRunner, hook: str) -> None:
    """Raises unless a hook returns a runner.

    Args:
        runner: What it returns.
        before: The runner that it was given.
        hook: Name of the hook, for the message.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(runner, type(before)):
        raise TypeError(
            f"{hook} must return the runner after it, such as runner.replace(...), got a "
            f"{type(runner).__name__}."
        )


def check_update(runner: AnyRunner, before: AnyRunner, agent: str) -> None:
    """Raises unless an update is counted, and reports what was reported before it, one number each.

    Args:
        runner: The runner after it.
        before: The runner before it.
        agent: Name of the agent.

    Raises:
        ValueError: It is not, or does not.
    """
    step = f"{agent}._training_step, or a step that it calls,"
    if runner.update_step is before.update_step:
        raise ValueError(
            f"{step} does not count the update: return runner.replace(update_step=runner.update_step + "
            "1, ...)."
        )
    odd = sorted(runner.info.keys() ^ before.info.keys())
    if odd:
        raise ValueError(
            f"{step} changes which entries runner.info has, by {odd}: they are the same after every "
            "update. Report numbers of your own in the dict that a loss returns."
        )
    maker = "_create_networks or _create_runner"
    check_same_arrays(runner.replace(info={}), before.replace(info={}), step, maker)
    shapes = {name: jnp.shape(x) for name, x in runner.info.items() if jnp.ndim(x)}
    if shapes:
        raise ValueError(
            f"{agent}: what an update reports is one number each, got the shapes {shapes}: give their "
            "means."
        )


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
