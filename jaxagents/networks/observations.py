"""Encoding batches of observations of any structure as vectors."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, PyTree

from jaxagents.core.observed import network_input
from jaxagents.networks.convolution import Padding, PatchConv
from jaxagents.networks.torsos import IMAGE_NDIM, scaled


class ObservationEncoder(nn.Module):
    """Encodes observations of any structure as vectors.

    [`observation_encoder`][jaxagents.networks.observation_encoder] makes it for an example.

    Images (three axes: height, width, channels) pass through convolutions of 3 x 3 pixels with
    rectifiers; integers in them are scaled from 0..255 to 0..1. Everything is flattened, and the parts
    are concatenated. Each part may have any leading axes, the same for all.

    Attributes:
        ndims: Numbers of axes of the leaves of one observation.
        n_categories: Number of values of an observation that is one integer, which is then one-hot.
        channels: Numbers of channels of the convolutions.
        padding: Padding of the convolutions; see [`PatchConv`][jaxagents.networks.PatchConv].
    """

    ndims: tuple[int, ...]
    n_categories: int | None = None
    channels: tuple[int, ...] = (16,)
    padding: Padding = "SAME"

    @nn.compact
    def __call__(
        self, observations: PyTree, train: bool = False
    ) -> Float[Array, "*batch features"]:
        """Encodes observations; `train` makes no difference."""
        if self.n_categories is not None:
            return jax.nn.one_hot(observations, self.n_categories, dtype=jnp.float32)
        leaves = [jnp.asarray(x) for x in jax.tree.leaves(observations)]
        if len(leaves) != len(self.ndims):
            raise ValueError(
                f"The encoder was made for observations of {len(self.ndims)} arrays, got one of "
                f"{len(leaves)}: {jax.tree.map(jnp.shape, observations)}."
            )
        parts = [self._flat(x, ndim) for x, ndim in zip(leaves, self.ndims, strict=True)]
        return jnp.concatenate(parts, axis=-1)

    def _flat(self, x: Array, ndim: int) -> Float[Array, "*batch features"]:
        batch_shape = x.shape[: x.ndim - ndim]
        if ndim == IMAGE_NDIM:
            x = scaled(x)
            for n_channels in self.channels:
                x = nn.relu(PatchConv(n_channels, padding=self.padding)(x))
        return x.astype(jnp.float32).reshape(*batch_shape, -1)


def observation_encoder(obs: PyTree, n_categories: int | None = None) -> ObservationEncoder | None:
    """The encoder that makes observations fit a network of vectors.

    Args:
        obs: One observation, or its shapes and types. Its entries that networks do not see, such as
            `"action_mask"`, are left out.
        n_categories: Number of values of an observation that is one integer.

    Returns:
        The encoder; `None` if an observation is one vector of real numbers.
    """
    obs = network_input(obs)
    leaves = jax.tree.leaves(jax.eval_shape(lambda x: x, obs))
    ndims = tuple(x.ndim for x in leaves)
    is_real = jnp.issubdtype(leaves[0].dtype, jnp.floating)
    if jax.tree_util.all_leaves([obs]) and ndims == (1,) and is_real and n_categories is None:
        return None
    return ObservationEncoder(ndims, n_categories)
