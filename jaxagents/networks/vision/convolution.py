"""Convolutions and poolings that are fast on a CPU, inside and outside of compiled loops."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.core.arrays import atleast_nd
from jaxagents.networks.dense import matmul
from jaxagents.networks.torsos import patches

Images = Float[Array, "batch height width channels"]
Maps = Float[Array, "batch out_height out_width features"]
Kernel = Float[Array, "size size channels features"]
Initialiser = jax.nn.initializers.Initializer
_VECTOR_LENGTH = 16
_IMAGES_AT_ONCE = 32
"""Images in one part of the gradient of a kernel. In larger ones each takes up to twice as long."""

he_normal = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


class Conv(nn.Module):
    """A two-dimensional convolution with a square kernel.

    It computes what `flax.linen.Conv` does, by [`convolve`][jaxagents.networks.vision.convolve].

    Attributes:
        features: Number of channels of the output.
        kernel_size: Height and width of the kernel.
        stride: Distance of neighbouring patches.
        padding: Zeros on every side of an image; `None` keeps its size, up to the stride, for kernels
            of odd size.
        use_bias: Whether a bias is added.
        standardise: Whether the weights of each output channel are shifted and scaled to zero mean and
            unit variance (Qiao et al., 2019, "Weight standardization").
        kernel_init: Initialiser of the kernel; the default is He et al., 2015, "Delving deep into
            rectifiers", for variances of gradients.
    """

    features: int
    kernel_size: int = 3
    stride: int = 1
    padding: int | None = None
    use_bias: bool = True
    standardise: bool = False
    kernel_init: Initialiser = he_normal

    @nn.compact
    def __call__(self, x: Images) -> Maps:
        """Convolves images."""
        shape = (self.kernel_size, self.kernel_size, x.shape[-1], self.features)
        kernel = jnp.asarray(self.param("kernel", self.kernel_init, shape))
        if self.standardise:
            kernel = jax.nn.standardize(kernel, axis=(0, 1, 2), epsilon=1e-10)
        padding = (self.kernel_size - 1) // 2 if self.padding is None else self.padding
        y = convolve(x, kernel, self.stride, padding)
        if self.use_bias:
            bias = jnp.asarray(self.param("bias", nn.initializers.zeros, (self.features,)))
            y = y + atleast_nd(bias, y.ndim)
        return y


def convolve(x: Images, kernel: Kernel, stride: int = 1, padding: int = 0) -> Maps:
    """A two-dimensional convolution (without reversal of the kernel, as is usual in networks).

    XLA's convolutions are as fast as any on a CPU, except in four cases that are computed differently
    here: gradients, which take up to fifty times as long inside a loop as outside, kernels of one pixel
    or larger than the image, and few output channels. On other devices this is XLA's convolution.

    Args:
        x: Images.
        kernel: Kernel.
        stride: Distance of neighbouring patches.
        padding: Zeros on every side of an image.

    Returns:
        The convolved images.
    """
    if kernel.shape[0] == 1 and padding == 0:
        x = x[:, ::stride, ::stride]
        y = matmul(x.reshape(-1, x.shape[-1]), kernel[0, 0])
        return y.reshape(*x.shape[:-1], y.shape[-1])
    cpu = functools.partial(_cpu_convolve_with_gradients, stride=stride, padding=padding)
    default = functools.partial(_xla_convolve, stride=stride, padding=padding)
    return jnp.asarray(jax.lax.platform_dependent(x, kernel, cpu=cpu, default=default))


_conv = functools.partial(jax.lax.conv_general_dilated, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _xla_convolve(x: Array, kernel: Array, stride: int, padding: int) -> Array:
    return _conv(x, kernel, (stride, stride), [(padding, padding)] * 2)


def _cpu_convolve(x: Array, kernel: Array, stride: int, padding: int) -> Array:
    if _is_smaller(x, kernel):
        return _matrix_convolve(x, kernel, stride, padding)
    in_pairs = (x.shape[2] + 2 * padding) % 2 == 0 and kernel.shape[1] % 2 == 1
    if stride == 1 and kernel.shape[3] <= _VECTOR_LENGTH and in_pairs:
        return _paired_convolve(x, kernel, padding)
    return _xla_convolve(x, kernel, stride, padding)


def _is_smaller(x: Array, kernel: Array) -> bool:
    """Whether images are smaller than the kernel, which XLA computes without its fast routines."""
    return min(x.shape[1:3]) < kernel.shape[0]


def _matrix_convolve(x: Array, kernel: Array, stride: int, padding: int) -> Array:
    """The convolution as patches times a matrix."""
    x = jnp.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    size, features = kernel.shape[0], kernel.shape[3]
    return patches(x, (size, size), stride, "VALID") @ kernel.reshape(-1, features)


def _paired_convolve(x: Array, kernel: Array, padding: int) -> Array:
    """The convolution of pairs of columns, whose channels fill more of a processor's vectors."""
    size, _, channels, features = kernel.shape
    x = jnp.pad(x, [(0, 0), (0, 0), (padding, padding), (0, 0)])
    batch, height, width, _ = x.shape
    pairs = x.reshape(batch, height, width // 2, 2 * channels)
    left, right = (jnp.pad(kernel, [(0, 0), (i, 1 - i), (0, 0), (0, 0)]) for i in (0, 1))
    kernel = jnp.stack([left, right], axis=3)
    kernel = kernel.reshape(size, (size + 1) // 2, 2 * channels, 2 * features)
    y = _conv(pairs, kernel, (1, 1), [(padding, padding), (0, 0)])
    return y.reshape(batch, y.shape[1], 2 * y.shape[2], features)


_cpu_convolve_with_gradients = jax.custom_jvp(_cpu_convolve, nondiff_argnums=(2, 3))


@_cpu_convolve_with_gradients.defjvp
def _output_and_tangent(
    stride: int, padding: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    """The tangent is by functions whose transposes are the gradients below.

    They are transposed after `jax.vmap`, so that the gradient of a kernel is one convolution of all
    samples. A `jax.custom_vjp` would compute it for each sample, and add them up.
    """
    y = _cpu_convolve_with_gradients(*primals, stride, padding)

    def transpose(gradient: Callable, tangent: Array) -> Array:
        from_output = functools.partial(gradient, *primals, stride=stride, padding=padding)
        (transposed,) = jax.linear_transpose(from_output, y)(tangent)
        return transposed

    of_images, of_kernel = map(transpose, (_image_gradient, _kernel_gradient), tangents)
    return y, of_images + of_kernel


# In loops, XLA's convolutions are fast only if batch and channels are the first and last axes, unlike in
# those that it derives for gradients. The barriers keep it from undoing the transpositions.


def _image_gradient(x: Array, kernel: Array, gradient: Array, stride: int, padding: int) -> Array:
    """One convolution with stride 1. Its channels are all pixels of a block of `stride` x `stride`."""
    size, _, channels, features = kernel.shape
    n_blocks = -(-size // stride)
    ends = (0, n_blocks * stride - size)
    kernel = jnp.pad(kernel, [ends, ends, (0, 0), (0, 0)])
    kernel = kernel.reshape(n_blocks, stride, n_blocks, stride, channels, features)[::-1, :, ::-1]
    kernel = jnp.transpose(kernel, (0, 2, 5, 1, 3, 4)).reshape(n_blocks, n_blocks, features, -1)
    skipped = min(padding // stride, n_blocks - 1)
    border = n_blocks - 1 - skipped
    blocks = _cpu_convolve(gradient, jax.lax.optimization_barrier(kernel), 1, border)
    batch, n_rows, n_columns, _ = blocks.shape
    pixels = blocks.reshape(batch, n_rows, n_columns, stride, stride, channels)
    pixels = jnp.transpose(pixels, (0, 1, 3, 2, 4, 5))
    pixels = pixels.reshape(batch, n_rows * stride, n_columns * stride, channels)
    start = padding - skipped * stride
    margins = [(-start, x.shape[i] + start - pixels.shape[i], 0) for i in (1, 2)]
    return jax.lax.pad(pixels, jnp.zeros((), pixels.dtype), [(0, 0, 0), *margins, (0, 0, 0)])


def _kernel_gradient(x: Array, kernel: Array, gradient: Array, stride: int, padding: int) -> Array:
    starts = range(0, max(1, len(x)), _IMAGES_AT_ONCE)
    parts = [(x[i : i + _IMAGES_AT_ONCE], gradient[i : i + _IMAGES_AT_ONCE]) for i in starts]
    correlations = [_correlation(*part, stride, padding) for part in parts]
    return functools.reduce(jnp.add, correlations)[: kernel.shape[0], : kernel.shape[1]]


def _correlation(x: Array, gradient: Array, stride: int, padding: int) -> Array:
    images = jax.lax.optimization_barrier(jnp.transpose(x, (3, 1, 2, 0)))
    weights = jax.lax.optimization_barrier(jnp.transpose(gradient, (1, 2, 0, 3)))
    borders = [(padding, padding)] * 2
    correlation = _conv(images, weights, (1, 1), borders, rhs_dilation=(stride, stride))
    return jnp.transpose(correlation, (1, 2, 0, 3))


def _every(x: Array, start: int, size: int, stride: int, axis: int) -> Array:
    """Every `stride`-th slice from `start` on: one for each window of `size` that fits."""
    n_windows = (x.shape[axis] - size) // stride + 1
    end = start + (n_windows - 1) * stride + 1
    return jax.lax.slice_in_dim(x, start, end, stride, axis)


def max_pool(
    x: Images, size: int = 3, stride: int = 2, padding: int = 1
) -> Float[Array, "batch out_height out_width channels"]:
    """The maxima of square windows.

    It computes what `flax.linen.max_pool` does, as maxima of slices, whose gradient is several times
    as fast on a CPU. Where pixels of a window are equal, the gradient is shared between them.

    Args:
        x: Images.
        size: Height and width of a window.
        stride: Distance of neighbouring windows.
        padding: Pixels of minus infinity on every side of an image.

    Returns:
        The maxima.
    """
    for axis in (1, 2):
        widths = [(padding, padding) if i == axis else (0, 0) for i in range(x.ndim)]
        x = jnp.pad(x, widths, constant_values=-jnp.inf)
        x = functools.reduce(jnp.maximum, [_every(x, i, size, stride, axis) for i in range(size)])
    return x
