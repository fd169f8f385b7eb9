"""Vision transformers."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.core.config import one_of
from jaxagents.networks.dense import Dense
from jaxagents.networks.vision.convolution import Images
from jaxagents.networks.vision.encoder import Encoder, Features

Positions = Literal["learned", "sincos"]
_MLP_RATIO = 4
_LONGEST_WAVE = 10_000.0


class ViT(Encoder):
    """A vision transformer that outputs the features of the class token.

    Dosovitskiy et al., 2021, "An image is worth 16x16 words", with the sizes S and Ti of Touvron et
    al., 2021, "Training data-efficient image transformers". Learned position embeddings work for one
    image size only.

    Attributes:
        patch_size: Height and width of a patch; must divide the sides of an image.
        features: Number of features per token.
        n_layers: Number of layers.
        n_heads: Number of attention heads.
        positions: Position embeddings: `"learned"`, or fixed `"sincos"` in two dimensions (Chen et al.,
            2021, "An empirical study of training self-supervised vision transformers").
    """

    patch_size: int = 16
    features: int = 192
    n_layers: int = 12
    n_heads: int = 3
    positions: Positions = "learned"

    @property
    def smallest_side(self) -> int:
        """The side of one patch."""
        return self.patch_size

    @nn.compact
    def encode(self, x: Images, train: bool) -> Features:
        """Maps scaled images to features."""
        tokens = Dense(self.features, name="patches")(self._patches(x))
        batch, rows, columns, _ = tokens.shape
        tokens = tokens.reshape(batch, rows * columns, self.features)
        start = self.param("class_token", nn.initializers.zeros, (1, 1, self.features))
        start = jnp.broadcast_to(start, (batch, 1, self.features))
        x = jnp.concatenate([start, tokens], axis=1) + self._positions(rows, columns)
        for i in range(self.n_layers):
            x = TransformerLayer(self.n_heads, name=f"layer{i + 1}")(x)
        return nn.LayerNorm(epsilon=1e-6, name="norm")(x[:, 0])

    def _patches(self, x: Array) -> Array:
        batch, height, width, channels = x.shape
        size = self.patch_size
        if height % size or width % size:
            raise ValueError(
                f"The sides of images must be multiples of patch_size={size}, got {height} x {width} "
                "pixels: crop or resize the images, or choose another patch_size."
            )
        x = x.reshape(batch, height // size, size, width // size, size, channels)
        return x.swapaxes(2, 3).reshape(
            batch, height // size, width // size, size * size * channels
        )

    def _positions(self, rows: int, columns: int) -> Array | np.ndarray:
        if one_of(Positions)("positions", self.positions) == "learned":
            shape = (1, 1 + rows * columns, self.features)
            return jnp.asarray(self.param("positions", nn.initializers.normal(0.02), shape))
        return np.insert(sincos_positions(rows, columns, self.features), 0, 0.0, axis=0)[None]


class TransformerLayer(nn.Module):
    """Self-attention and an MLP of two layers, both with pre-normalisation and a residual connection.

    Attributes:
        n_heads: Number of attention heads.
    """

    n_heads: int

    @nn.compact
    def __call__(
        self, x: Float[Array, "batch tokens features"]
    ) -> Float[Array, "batch tokens features"]:
        """Applies the layer."""
        features = x.shape[-1]
        glorot = nn.initializers.glorot_uniform()
        y = nn.LayerNorm(epsilon=1e-6, name="attention_norm")(x)
        attention = nn.MultiHeadDotProductAttention(
            self.n_heads, kernel_init=glorot, name="attention"
        )
        x = x + attention(y)
        y = nn.LayerNorm(epsilon=1e-6, name="mlp_norm")(x)
        y = nn.gelu(
            Dense(_MLP_RATIO * features, kernel_init=glorot, name="mlp1")(y), approximate=False
        )
        return x + Dense(features, kernel_init=glorot, name="mlp2")(y)


def sincos_positions(
    rows: int, columns: int, features: int
) -> Float[np.ndarray, "tokens features"]:
    r"""Two-dimensional sine-cosine position embeddings of patches.

    The four quarters of the features are $\sin(\omega_i r)$, $\cos(\omega_i r)$, $\sin(\omega_i c)$ and
    $\cos(\omega_i c)$ for row $r$ and column $c$, with $\omega_i = 10000^{-4 i / \text{features}}$.

    Args:
        rows: Number of rows of patches.
        columns: Number of columns of patches.
        features: Number of features, a multiple of 4.

    Returns:
        The embeddings of the patches, row by row.

    Raises:
        ValueError: `features` is not a multiple of 4.
    """
    if features % 4:
        raise ValueError(f"sincos positions need features to be a multiple of 4, got {features}.")
    frequencies = _LONGEST_WAVE ** -(np.arange(features // 4) / (features // 4))
    row, column = np.indices((rows, columns)).reshape(2, -1, 1) * frequencies
    waves = [np.sin(row), np.cos(row), np.sin(column), np.cos(column)]
    return np.concatenate(waves, axis=-1).astype(np.float32)
