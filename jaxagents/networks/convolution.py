"""A convolution that stays fast inside compiled loops."""

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.networks.dense import Dense


class PatchConv(nn.Module):
    """A two-dimensional convolution with "SAME" padding, as patches times a matrix.

    It computes what `flax.linen.Conv` does. XLA's convolutions are many times slower on a CPU inside of
    a loop than outside, and a training is one loop; matrix products are equally fast in both.

    Attributes:
        features: Number of channels of the output.
        kernel_size: Height and width of a patch.
        stride: Distance of neighbouring patches.
    """

    features: int
    kernel_size: tuple[int, int] = (3, 3)
    stride: int = 1

    @nn.compact
    def __call__(
        self, x: Float[Array, "*batch height width channels"]
    ) -> Float[Array, "*batch out_height out_width features"]:
        """Convolves images."""
        return Dense(self.features)(patches(x, self.kernel_size, self.stride))


def patches(
    x: Float[Array, "*batch height width channels"], size: tuple[int, int], stride: int
) -> Float[Array, "*batch out_height out_width patch"]:
    """Flattened patches around every `stride`-th pixel, with zeros beyond the border.

    Args:
        x: Images.
        size: Height and width of a patch.
        stride: Distance of neighbouring patches.

    Returns:
        Patches, flattened in the order rows, columns, channels.
    """
    *batch, height, width, _ = x.shape
    row_padding, n_rows = _same_padding(height, size[0], stride)
    column_padding, n_columns = _same_padding(width, size[1], stride)
    x = jnp.pad(x, [(0, 0)] * len(batch) + [row_padding, column_padding, (0, 0)])

    def shifted(i: int, j: int) -> Array:
        rows = slice(i, i + (n_rows - 1) * stride + 1, stride)
        columns = slice(j, j + (n_columns - 1) * stride + 1, stride)
        return x[..., rows, columns, :]

    offsets = [(i, j) for i in range(size[0]) for j in range(size[1])]
    return jnp.concatenate([shifted(i, j) for i, j in offsets], axis=-1)


def _same_padding(length: int, size: int, stride: int) -> tuple[tuple[int, int], int]:
    """Zeros before and after, and the number of patches along an axis."""
    n_patches = -(-length // stride)
    total = max((n_patches - 1) * stride + size - length, 0)
    return (total // 2, total - total // 2), n_patches
