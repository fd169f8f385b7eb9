"""Checks of the arguments of agents, made on shapes alone, before anything is compiled."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxagents.core.keys import as_key
from jaxagents.learners.learner import Learner


def check_eval_rng(rng: object) -> None:
    """Raises if `config.eval_rng` is neither `None` nor a random key."""
    if rng is not None:
        as_key(rng)


def check_single(runner: Any) -> None:
    """Raises if a runner is a stack of several trainings.

    Raises:
        ValueError: It is.
    """
    if jnp.ndim(runner.update_step):
        raise ValueError(
            f"This runner is a stack of {runner.update_step.size} trainings: select one with "
            "jax.tree.map(lambda x: x[i], (runner, metrics)), or go on with all in jax.vmap."
        )


def check_dataset_observations(observations: PyTree, expected: PyTree) -> None:
    """Raises unless a dataset's observations are those of an environment.

    Args:
        observations: Arrays with a leading axis of rows.
        expected: One observation of the environment, as shapes.

    Raises:
        ValueError: Structure or shape differ.
    """
    found = jax.tree.map(lambda x: tuple(x.shape[1:]), observations)
    own = jax.tree.map(lambda x: tuple(x.shape), expected)
    if found != own:
        raise ValueError(
            f"The dataset's observations have shape {found}, but those of the environment have {own}."
        )


def check_no_hooks(agent: type, learner: type[Learner]) -> None:
    """Raises if an agent has a hook of its learner, which would never be called.

    Args:
        agent: Its class.
        learner: The class of its learner.

    Raises:
        TypeError: It has one.
    """
    for hook in learner.hooks:
        if getattr(agent, hook, None) is not None:
            raise TypeError(
                f"{agent.__name__}.{hook} would never be called: {hook} is a hook of the learner. Put "
                f"it there, and name that learner:\n\n"
                f"    class MyLearner({learner.__name__}):\n"
                f"        def {_signature(learner, hook)}: ...\n\n"
                f"    class {agent.__name__}({agent.__mro__[1].__name__}):\n"
                f"        {_place(learner)} = MyLearner"
            )


def _signature(learner: type[Learner], hook: str) -> str:
    return f"{hook}({', '.join(inspect.signature(getattr(learner, hook)).parameters)})"


def _place(learner: type[Learner]) -> str:
    return "_discrete_learner" if learner.discrete_actions else "_continuous_learner"
