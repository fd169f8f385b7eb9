"""Checks of the examples and batches passed to learners, by their shapes alone."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from jaxagents.core.arrays import atleast_nd, is_traced
from jaxagents.core.observed import observation_of
from jaxagents.data.rows import check_has

OPTIONAL_KEYS = ("discounts", "weights")
"""Optional keys of a batch."""
_NUMBERS = ("rewards", "masks", *OPTIONAL_KEYS)


def check_example(
    observations: PyTree,
    actions: ArrayLike,
    is_discrete: bool,
    n_actions: int | None,
    needs_vectors: bool,
) -> None:
    """Raises if a learner cannot be created from an example.

    Args:
        observations: One observation or a batch, as networks see them.
        actions: One action, or one per observation.
        is_discrete: Whether the learner takes discrete actions.
        n_actions: Number of discrete actions, if known.
        needs_vectors: Whether observations must be vectors because there is no encoder.

    Raises:
        TypeError: The actions are of the wrong kind.
        ValueError: Continuous actions are scalars, discrete ones are out of range, or there is not one
            observation vector per action.
    """
    dtype, kind = jnp.result_type(actions), jnp.integer if is_discrete else jnp.floating
    if not jnp.issubdtype(dtype, kind):
        raise TypeError(
            f"The learner takes {'integer' if is_discrete else 'float'} actions, got an example of type "
            f"{dtype}."
        )
    shape = jnp.shape(actions)
    if not is_discrete and not shape:
        raise ValueError("The learner takes actions of shape (..., action_dim), got a scalar.")
    if is_discrete and n_actions is not None and not is_traced(actions):
        given = np.asarray(actions)
        if not np.all((given >= 0) & (given < n_actions)):
            raise ValueError(
                f"Actions must lie in 0..{n_actions - 1} with n_actions={n_actions}, got "
                f"{given.min()} to {given.max()}."
            )
    lead, found = shape if is_discrete else shape[:-1], jax.tree.map(jnp.shape, observations)
    is_array = isinstance(found, tuple) and not isinstance(observations, tuple)
    are_vectors = is_array and len(found) == len(lead) + 1 and found[:-1] == lead
    if needs_vectors and not are_vectors:
        have_axes = is_array and 0 < len(found) <= len(lead) and not is_discrete
        raise ValueError(
            "Without an encoder, there must be one observation vector for each action, got "
            f"observations of shape {found} and actions of shape {shape}. "
            f"{_vectors_from(observations, have_axes)}"
        )


def _vectors_from(observations: PyTree, actions_have_axes: bool) -> str:
    """Advice on how to provide one observation vector per action."""
    if actions_have_axes:
        return "An action must be a vector too: flatten actions of several axes."
    leaves = jax.tree.leaves(observations)
    is_number = len(leaves) == 1 and jnp.ndim(leaves[0]) <= 1
    is_integer = is_number and jnp.issubdtype(jnp.result_type(leaves[0]), jnp.integer)
    one_hot = "; its n_categories= makes an integer one-hot" if is_integer else ""
    encoder = "encoder=jaxagents.networks.observation_encoder(observation)"
    return f"Images, dicts and scalars need an encoder, such as {encoder}{one_hot}."


def check_batch(
    batch: Mapping[str, PyTree], keys: Sequence[str], axes: Sequence[str], is_discrete: bool
) -> None:
    """Raises if a learner cannot learn from a batch, or from several along a first axis.

    Args:
        batch: Arrays by key.
        keys: Required keys.
        axes: Names of the leading axes.
        is_discrete: Whether actions are discrete.

    Raises:
        KeyError: A key is missing.
        TypeError: The batch is not a dict of arrays, or discrete actions are not integers.
        ValueError: An array has the wrong number of axes or different sizes from the others, or there
            are no samples.
    """
    if not hasattr(batch, "keys"):
        raise TypeError(
            f"A learner takes a dict of arrays with the keys {list(keys)}, got a "
            f"{type(batch).__name__}."
        )
    lists = [key for key in ("actions", *_NUMBERS) if isinstance(batch.get(key), list | tuple)]
    if lists:
        raise TypeError(f"{lists[0]!r} must be an array, got a list: give np.array(...).")
    check_has("The learner learns from", keys, batch, "the batch")
    dtype = jnp.result_type(batch["actions"])
    if is_discrete and not jnp.issubdtype(dtype, jnp.integer):
        raise TypeError(f"'actions' must be integers, got an array of type {dtype}.")
    for key in (*_NUMBERS, "actions"):
        is_vector = key == "actions" and not is_discrete
        own = [*axes, "action"] if is_vector else axes
        if key in batch and jnp.ndim(batch[key]) != len(own):
            raise ValueError(
                f"{key!r} must have one {'vector' if is_vector else 'number'} for each sample, shape "
                f"({', '.join(own)}), got shape {jnp.shape(batch[key])}."
            )
    shape = jnp.shape(batch["actions"])
    lead = shape[: len(axes)]
    if 0 in lead:
        raise ValueError(f"The learner needs at least one sample, got 'actions' of shape {shape}.")
    for key in {*keys, *_NUMBERS} & set(batch):
        for leaf in jax.tree.leaves(batch[key]):
            if jnp.shape(leaf)[: len(axes)] != lead:
                raise ValueError(
                    f"{key!r} has shape {jnp.shape(leaf)}, but 'actions' has shape {shape}: "
                    f"their axes ({', '.join(axes)}) must be equal."
                )
    if "next_observations" in keys:
        keys = "observations", "next_observations"
        shapes, after = (jax.tree.map(jnp.shape, observation_of(batch[key])) for key in keys)
        if shapes != after:
            raise ValueError(
                f"'next_observations' must have the shape of 'observations', {shapes}, got {after}."
            )


def check_targets(
    hook: str,
    targets: tuple[int, ...],
    batch: Mapping[str, PyTree],
    *,
    may_be_several: bool = False,
) -> None:
    """Raises unless a hook returned one target per sample, since others would be broadcast.

    Args:
        hook: Name of the hook.
        targets: Shape of the targets.
        batch: The batch.
        may_be_several: Whether a sample may have several targets.

    Raises:
        ValueError: The shape is wrong.
    """
    expected = jnp.shape(batch["actions"])[:1]
    if (targets[:1] if may_be_several else targets) != expected:
        raise ValueError(
            f"{hook} must return targets for each sample, shape {expected}, got shape {targets}."
        )


def weighted_mean(
    losses: Float[Array, "*critics batch"], batch: Mapping[str, PyTree]
) -> Float[Array, "*critics"]:
    """The mean loss of a batch, weighted by its `weights` if it has any.

    Args:
        losses: Losses, samples last.
        batch: The batch.

    Returns:
        The mean over the samples.
    """
    if "weights" in batch:
        losses = losses * atleast_nd(batch["weights"], losses.ndim)
    return losses.mean(axis=-1)
