"""Checks of the observations that networks are given."""

import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jaxtyping import PyTree


@contextlib.contextmanager
def naming_observations(
    obs: PyTree, expected: PyTree, batches: bool = False, method: str = "policy"
) -> Iterator[None]:
    """Where a method fails since it is given something other than an observation, raises for that.

    Args:
        obs: What it is given.
        expected: One observation, as shapes.
        batches: Whether it also takes a batch of observations.
        method: Its name.

    Raises:
        ValueError: Structure or shape differ.
    """
    try:
        yield
    except Exception:
        _check_observation(obs, expected, batches, method)
        raise


def check_dataset_observations(
    observations: PyTree, expected: PyTree, key: str = "observations"
) -> None:
    """Raises unless a dataset's observations are those of an environment.

    Args:
        observations: Arrays with a leading axis of rows.
        expected: One observation of the environment, as shapes.
        key: Their key in the dataset.

    Raises:
        ValueError: Structure or shape differ.
    """
    found = jax.tree.map(lambda x: tuple(x.shape[1:]), observations)
    own = jax.tree.map(lambda x: tuple(x.shape), expected)
    if found != own:
        raise ValueError(
            f"The dataset's {key} have shape {found}, but those of the environment have {own}."
        )


def _check_observation(obs: PyTree, expected: PyTree, batches: bool, method: str) -> None:
    or_batch = ", or a batch of them" if batches else ""
    if isinstance(obs, list) and isinstance(expected, jax.ShapeDtypeStruct):
        raise ValueError(
            f"{method} takes one observation{or_batch}, as an array of shape {expected.shape}, got a "
            "list: give np.array(...)."
        )
    found, own = jax.tree.structure(obs), jax.tree.structure(expected)
    if found != own:
        raise ValueError(
            f"{method} takes one observation{or_batch}, structured as {own}, got {found}."
        )
    for leaf, one in zip(jax.tree.leaves(obs), jax.tree.leaves(expected), strict=True):
        shape = jnp.shape(leaf)
        is_batch = len(shape) > one.ndim and shape[len(shape) - one.ndim :] == one.shape
        if shape == one.shape or (batches and is_batch):
            continue
        if is_batch:
            raise ValueError(
                f"{method} takes one observation, of shape {one.shape}, got a batch of shape {shape}: "
                "map it over them, jax.vmap(agent.policy)(obs), or with a state of training "
                "jax.vmap(agent.policy, (None, 0))(training, obs)."
            )
        raise ValueError(
            f"{method} takes one observation, of shape {one.shape}{or_batch}, got shape {shape}."
        )
