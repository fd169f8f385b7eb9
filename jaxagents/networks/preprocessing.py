"""Observations as networks take them: one-hot categories, pixels from 0 to 1, and channels last."""

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
    """The values and the axes of an image.

    Attributes:
        high: Largest value of a pixel, by which images are divided; `None` leaves the scale to the
            network.
        channels_first: Whether the axes are channels, height and width, and the first is to become the
            last.
    """

    high: float | None = None
    channels_first: bool = False


Part = int | tuple[int, ...] | Pixels | None
"""The reading of an array of an observation: the number of values of an integer, the numbers of
those of a vector of integers (or of the last axis of an array of them), how an image is to be read, or
`None` for numbers that stay as they are."""


class Preprocessed(NetworkWrapper):
    """A network that is given one-hot categories, pixels from 0 to 1, and images with channels last.

    Default networks of agents are behind it where the space of observations says more than their arrays
    do. Networks of your own may be, too:

    ```python
    obs = {"camera": jnp.zeros((3, 64, 64)), "gear": jnp.int32(0)}
    parts = (Pixels(255.0, channels_first=True), 6)
    network = Preprocessed(StateCritic(), parts)
    variables = network.init(jax.random.key(0), obs)
    ```

    Attributes:
        network: The network, with or without a memory.
        parts: How each array of an observation is read, in the order of `jax.tree.leaves`; see
            [`preprocess`][jaxagents.networks.preprocess].
    """

    parts: tuple[Part, ...]

    def view_of(self, obs: PyTree) -> PyTree:
        """The observation as the network is given it."""
        return preprocess(obs, self.parts)


def preprocessed(network: nn.Module, parts: Sequence[Part]) -> nn.Module:
    """A network behind preprocessing; the network itself, if all arrays stay as they are."""
    is_needed = any(part is not None for part in parts)
    return Preprocessed(network, tuple(parts)) if is_needed else network


def preprocess(obs: PyTree, parts: Sequence[Part]) -> PyTree:
    """An observation as networks take it.

    Args:
        obs: One observation, or several with any leading axes.
        parts: For each of its arrays, the number of values of an integer, which becomes one-hot; a tuple
            of the numbers of values of integers along a last axis, which become one-hot side by side;
            [`Pixels`][jaxagents.networks.Pixels] of an image; or `None`.

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
