"""Checks of the arguments of agents, made on shapes alone, before anything is compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxagents.core.keys import as_key


def check_eval_rng(rng: Any) -> None:
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


def check_dataset_observations(observations: Any, expected: Any) -> None:
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
