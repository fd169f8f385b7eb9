"""A convolution that stays fast inside compiled loops."""

from typing import Literal, get_args

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.networks.dense import Dense

Padding = Literal["SAME", "VALID"]


class PatchConv(nn.Module):
    """A two-dimensional convolution, as patches times a matrix.

    It computes what `flax.linen.Conv` does. XLA's convolutions are many times slower on a CPU inside of
    a loop than outside, and a training is one loop; matrix products are equally fast in both.

    Attributes:
        features: Number of channels of the output.
        kernel_size: Height and width of a patch.
        stride: Distance of neighbouring patches.
        padding: `"SAME"` adds zeros beyond the border, so that with a stride of 1 the output is as
            large as the input; `"VALID"` takes whole patches only.
    """

    features: int
    kernel_size: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: Padding = "SAME"

    def __post_init__(self) -> None:
        """Validates the attributes.

        Raises:
            ValueError: There is no such padding.
        """
        if self.padding not in get_args(Padding):
            raise ValueError(f"padding must be one of {get_args(Padding)}, got {self.padding!r}.")
        super().__post_init__()

    @nn.compact
    def __call__(
        self, x: Float[Array, "*batch height width channels"]
    ) -> Float[Array, "*batch out_height out_width features"]:
        """Convolves images."""
        return Dense(self.features)(patches(x, self.kernel_size, self.stride, self.padding))


def patches(
    x: Float[Array, "*batch height width channels"],
    size: tuple[int, int],
    stride: int,
    padding: Padding,
) -> Float[Array, "*batch out_height out_width patch"]:
    """Flattened patches around every `stride`-th pixel.

    Args:
        x: Images.
        size: Height and width of a patch.
        stride: Distance of neighbouring patches.
        padding: Whether there are zeros beyond the border (`"SAME"`) or not (`"VALID"`).

    Returns:
        Patches, flattened in the order rows, columns, channels.

    Raises:
        ValueError: The images are smaller than a whole patch.
    """
    if padding == "SAME":
        margins = [_same_padding(n, k, stride) for n, k in zip(x.shape[-3:-1], size, strict=True)]
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [*margins, (0, 0)])
    n_rows, n_columns = ((n - k) // stride + 1 for n, k in zip(x.shape[-3:-1], size, strict=True))
    if min(n_rows, n_columns) < 1:
        raise ValueError(
            f"Images of {x.shape[-3]} x {x.shape[-2]} pixels hold no whole patch of {size[0]} x "
            f'{size[1]}; give a smaller kernel_size, or the padding "SAME".'
        )

    def shifted(i: int, j: int) -> Array:
        rows = slice(i, i + (n_rows - 1) * stride + 1, stride)
        columns = slice(j, j + (n_columns - 1) * stride + 1, stride)
        return x[..., rows, columns, :]

    offsets = [(i, j) for i in range(size[0]) for j in range(size[1])]
    return jnp.concatenate([shifted(i, j) for i, j in offsets], axis=-1)


def _same_padding(length: int, size: int, stride: int) -> tuple[int, int]:
    """Zeros before and after an axis."""
    n_patches = -(-length // stride)
    total = max((n_patches - 1) * stride + size - length, 0)
    return total // 2, total - total // 2
