"""Checks of the examples and batches that learners are given, made on shapes before anything runs."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from jaxagents.core.arrays import atleast_nd, is_traced
from jaxagents.core.observed import observation_of

OPTIONAL_KEYS = ("discounts", "weights")
"""The keys that a batch may have besides those that its learner needs."""
_NUMBERS = ("rewards", "masks", *OPTIONAL_KEYS)


def check_example_actions(actions: ArrayLike, is_discrete: bool, n_actions: int | None) -> None:
    """Raises if an example of actions is of the wrong kind.

    Args:
        actions: One action or a batch of them.
        is_discrete: Whether the learner takes discrete actions.
        n_actions: Number of discrete actions, if it is known.

    Raises:
        TypeError: The actions are of the wrong kind.
        ValueError: Continuous actions have no components, or discrete ones are out of range.
    """
    dtype, kind = jnp.result_type(actions), jnp.integer if is_discrete else jnp.floating
    if not jnp.issubdtype(dtype, kind):
        raise TypeError(
            f"The learner takes {kind.__name__} actions, got an example of type {dtype}."
        )
    if not is_discrete and jnp.ndim(actions) == 0:
        raise ValueError(
            "The learner takes actions with a last axis of components, got a scalar: an environment's "
            "action has shape (action_dim,)."
        )
    if is_discrete and n_actions is not None and not is_traced(actions):
        found = np.asarray(actions)
        if not np.all((found >= 0) & (found < n_actions)):
            raise ValueError(
                f"Actions must lie in 0..{n_actions - 1} with n_actions={n_actions}, got "
                f"{found.min()} to {found.max()}."
            )


def check_example_vectors(observations: PyTree, actions: ArrayLike, is_discrete: bool) -> None:
    """Raises unless there is one vector of observations for each action.

    Args:
        observations: One observation or a batch of them.
        actions: As many actions.
        is_discrete: Whether the actions are discrete.

    Raises:
        ValueError: The observations are not vectors, or not as many as the actions.
    """
    shape = jnp.shape(actions)
    lead = shape if is_discrete else shape[:-1]
    found = jax.tree.map(jnp.shape, observations)
    if isinstance(found, tuple) and len(found) == len(lead) + 1 and found[:-1] == lead:
        return
    has_fewer_axes = isinstance(found, tuple) and 0 < len(found) <= len(lead)
    raise ValueError(
        "Without an encoder there must be one vector of observations for each action, got observations "
        f"of shape {found} and actions of shape {shape}. "
        + (_FLATTEN if has_fewer_axes and not is_discrete else _encoder_for(observations))
    )


_FLATTEN = "An action must be a vector too: flatten actions of several axes."


def _encoder_for(observations: PyTree) -> str:
    return (
        "Images, dicts and scalars need an encoder, such as "
        f"encoder=jaxagents.networks.observation_encoder(observation){_n_categories(observations)}."
    )


def _n_categories(observations: PyTree) -> str:
    leaves = jax.tree.leaves(observations)
    is_number = len(leaves) == 1 and jnp.ndim(leaves[0]) <= 1
    is_integer = is_number and jnp.issubdtype(jnp.result_type(leaves[0]), jnp.integer)
    return "; its n_categories= makes an integer one-hot" if is_integer else ""


def check_batch(
    batch: Mapping[str, PyTree], keys: Sequence[str], axes: Sequence[str], is_discrete: bool
) -> None:
    """Raises if a learner cannot learn from a batch, or from several along a first axis.

    Args:
        batch: Arrays by key.
        keys: The keys that the learner needs.
        axes: Names of the leading axes.
        is_discrete: Whether actions are discrete.

    Raises:
        KeyError: A key is missing.
        TypeError: The batch is no dict of arrays, or discrete actions are not integers.
        ValueError: An array has too few or too many axes, or not the sizes of the others, or there are
            no samples.
    """
    if not hasattr(batch, "keys"):
        raise TypeError(
            f"A learner is given a dict of arrays under {list(keys)}, got a {type(batch).__name__}."
        )
    lists = [key for key in ("actions", *_NUMBERS) if isinstance(batch.get(key), list | tuple)]
    if lists:
        raise TypeError(f"{lists[0]!r} must be an array, got a list: give np.array(...).")
    missing = [key for key in keys if key not in batch]
    if missing:
        raise KeyError(
            f"The learner learns from {list(keys)}, but the batch lacks {missing}; it has "
            f"{sorted(batch)}."
        )
    dtype = jnp.result_type(batch["actions"])
    if is_discrete and not jnp.issubdtype(dtype, jnp.integer):
        raise TypeError(f"'actions' must be integers, got an array of type {dtype}.")
    numbers = (*_NUMBERS, "actions") if is_discrete else _NUMBERS
    for key in numbers:
        if key in batch:
            _check_axes(key, batch[key], axes)
    if not is_discrete:
        _check_axes("actions", batch["actions"], [*axes, "action"])
    shape = jnp.shape(batch["actions"])
    lead = shape[: len(axes)]
    if 0 in lead:
        raise ValueError(f"The learner needs one sample or more, got 'actions' of shape {shape}.")
    for key in {*keys, *_NUMBERS} & set(batch):
        for leaf in jax.tree.leaves(batch[key]):
            if jnp.shape(leaf)[: len(axes)] != lead:
                raise ValueError(
                    f"{key!r} has shape {jnp.shape(leaf)}, but 'actions' has shape {shape}: their axes "
                    f"({', '.join(axes)}) must be the same."
                )
    if "next_observations" in keys:
        _check_same_shapes(batch["observations"], batch["next_observations"])


def _check_axes(key: str, array: ArrayLike, axes: Sequence[str]) -> None:
    if jnp.ndim(array) != len(axes):
        what = "vector" if axes[-1] == "action" else "number"
        raise ValueError(
            f"{key!r} must have one {what} for each sample, shape ({', '.join(axes)}), got shape "
            f"{jnp.shape(array)}."
        )


def _check_same_shapes(observations: PyTree, successors: PyTree) -> None:
    seen = observation_of(observations), observation_of(successors)
    shapes, next_shapes = (jax.tree.map(jnp.shape, tree) for tree in seen)
    if shapes != next_shapes:
        raise ValueError(
            f"'next_observations' must be shaped as 'observations', {shapes}, got {next_shapes}."
        )


def check_targets(
    hook: str,
    targets: tuple[int, ...],
    batch: Mapping[str, PyTree],
    *,
    may_be_several: bool = False,
) -> None:
    """Raises unless a hook gives targets of each sample, which would be broadcast otherwise.

    Args:
        hook: Name of the hook.
        targets: Shape of the targets.
        batch: The batch.
        may_be_several: Whether there may be several for each sample.

    Raises:
        ValueError: The shape is another.
    """
    expected = jnp.shape(batch["actions"])[:1]
    if (targets[:1] if may_be_several else targets) != expected:
        raise ValueError(
            f"{hook} must give the targets of each sample, of shape {expected}, got shape {targets}."
        )


def weighted_mean(
    losses: Float[Array, "*critics batch"], batch: Mapping[str, PyTree]
) -> Float[Array, "*critics"]:
    """The mean of the losses of a batch's samples, weighed by `weights` where the batch has them.

    Args:
        losses: Losses, samples last.
        batch: The batch.

    Returns:
        The mean over the samples.
    """
    if "weights" in batch:
        losses = losses * atleast_nd(batch["weights"], losses.ndim)
    return losses.mean(axis=-1)
