"""Networks that map observations to features."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, PyTree

from jaxagents.networks.convolution import PatchConv
from jaxagents.networks.dense import Dense
from jaxagents.networks.noisy import NoisyDense

Activation = Callable[[Array], Array]
Initialiser = Callable[..., Array]
IMAGE_NDIM = 3
_ORTHOGONAL = nn.initializers.orthogonal(np.sqrt(2.0))


class MLP(nn.Module):
    r"""Fully connected layers.

    Attributes:
        features: Widths of the layers.
        activation: Nonlinearity after every layer.
        activate_final: Whether it also follows the last layer.
        layer_norm: Whether layers are normalised (Ba et al., 2016) before the nonlinearity.
        dropout_rate: Share of the outputs of every nonlinearity that is dropped while training.
        kernel_init: Initialiser of the weights; the default is orthogonal with gain $\sqrt 2$.
        noisy: Whether layers are [noisy][jaxagents.networks.NoisyDense].
    """

    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    activate_final: bool = True
    layer_norm: bool = False
    dropout_rate: float = 0.0
    kernel_init: Initialiser = _ORTHOGONAL
    noisy: bool = False

    @nn.compact
    def __call__(
        self, x: Float[Array, "*batch inputs"], train: bool = False
    ) -> Float[Array, "*batch features"]:
        """Applies the layers; with `train=True` dropout is active and needs an rng named `"dropout"`."""
        layer = NoisyDense if self.noisy else Dense
        for i, width in enumerate(self.features):
            x = layer(width, kernel_init=self.kernel_init)(x)
            if i == len(self.features) - 1 and not self.activate_final:
                break
            if self.layer_norm:
                x = nn.LayerNorm()(x)
            x = self.activation(x)
            x = nn.Dropout(self.dropout_rate, deterministic=not train)(x)
        return x


class Torso(nn.Module):
    """Features of one observation of any structure.

    Images (three axes: height, width, channels) pass through two convolutions; everything else is
    flattened as it is. The parts are concatenated and passed through an
    [`MLP`][jaxagents.networks.MLP]. Integer images are scaled from 0..255 to 0..1.

    Attributes:
        features: Widths of the fully connected layers.
        activation: Nonlinearity.
        n_categories: Number of values of an observation that is one integer, which is then one-hot.
        layer_norm: Whether the fully connected layers are normalised (Ba et al., 2016) before the
            nonlinearity.
    """

    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None
    layer_norm: bool = False

    @nn.compact
    def __call__(self, obs: PyTree) -> Float[Array, "features"]:
        """Encodes one observation."""
        if self.n_categories is not None:
            obs = jax.nn.one_hot(obs, self.n_categories)
        parts = [self._flat_features(leaf) for leaf in jax.tree.leaves(obs)]
        mlp = MLP(self.features, self.activation, layer_norm=self.layer_norm)
        return mlp(jnp.concatenate(parts))

    def _flat_features(self, x: Array) -> Float[Array, "features"]:
        if x.ndim == IMAGE_NDIM:
            x = nn.relu(PatchConv(16)(scaled(x)))
            x = nn.relu(PatchConv(32, stride=2)(x))
        return x.astype(jnp.float32).reshape(-1)


def scaled(image: Array) -> Float[Array, "*batch height width channels"]:
    """Pixels in single precision; integers are scaled from 0..255 to 0..1."""
    full_range = 255.0 if jnp.issubdtype(image.dtype, jnp.integer) else 1.0
    return image.astype(jnp.float32) / full_range
