"""Preprocessing of observations: one-hot categories, pixels scaled to [0, 1], channels last."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, PyTree

from jaxagents.core.arrays import atleast_nd
from jaxagents.networks.recurrent import NetworkWrapper


class Pixels(NamedTuple):
    """Scale and layout of an image.

    Attributes:
        high: Largest pixel value, which images are divided by; `None` leaves scaling to the network.
        channels_first: Whether the axes are channels, height and width; channels are then moved last.
    """

    high: float | None = None
    channels_first: bool = False


Part = int | tuple[int, ...] | Pixels | None
"""How to read one array of an observation: the number of values of an integer, these numbers for each
integer along the last axis, an image's `Pixels`, or `None` to leave the array unchanged."""


class Preprocessed(NetworkWrapper):
    """Feeds a network one-hot categories, pixels scaled to [0, 1], and images with channels last.

    Agents wrap their default networks in it if the observation space says more than the arrays do. You
    can also wrap your own networks:

    ```python
    obs = {"camera": jnp.zeros((3, 64, 64)), "gear": jnp.int32(0)}
    parts = (Pixels(255.0, channels_first=True), 6)
    network = Preprocessed(StateCritic(), parts)
    variables = network.init(jax.random.key(0), obs)
    ```

    Attributes:
        network: The network, with or without memory.
        parts: How to read each array of an observation, in the order of `jax.tree.leaves`; see
            [`preprocess`][jaxagents.networks.preprocess].
    """

    parts: tuple[Part, ...]

    def view_of(self, obs: PyTree) -> PyTree:
        """Preprocesses an observation."""
        return preprocess(obs, self.parts)


def preprocessed(network: nn.Module, parts: Sequence[Part]) -> nn.Module:
    """Wraps a network in `Preprocessed`; returns the network itself if no array changes."""
    is_needed = any(part is not None for part in parts)
    return Preprocessed(network, tuple(parts)) if is_needed else network


def preprocess(obs: PyTree, parts: Sequence[Part]) -> PyTree:
    """Preprocesses an observation for a network.

    Args:
        obs: One observation, or several with any leading axes.
        parts: For each array, one of: the number of values of an integer, which becomes one-hot; a tuple
            of such numbers for the integers along the last axis, whose one-hot vectors are concatenated;
            [`Pixels`][jaxagents.networks.Pixels] for an image; `None` for no change.

    Returns:
        The observation, in the same structure.
    """
    leaves, structure = jax.tree.flatten(obs)
    pairs = zip(leaves, parts, strict=True)
    return jax.tree.unflatten(structure, [_preprocess(jnp.asarray(x), part) for x, part in pairs])


def _preprocess(x: Array, part: Part) -> Array:
    if part is None:
        return x
    if isinstance(part, Pixels):
        x = jnp.moveaxis(x, -3, -1) if part.channels_first else x
        return x if part.high is None else x.astype(jnp.float32) / part.high
    x = x.astype(jnp.int32)  # datasets may hold whole numbers as floats
    if isinstance(part, int):
        return jax.nn.one_hot(x, part, dtype=jnp.float32)
    component = np.repeat(np.arange(len(part)), part)
    value = np.concatenate([np.arange(n, dtype=np.int32) for n in part])
    return (x[..., component] == atleast_nd(value, x.ndim)).astype(jnp.float32)
