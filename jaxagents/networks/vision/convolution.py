"""Convolution and pooling that are fast on CPU, inside and outside compiled loops."""

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
"""Images per chunk of a kernel's gradient. In larger chunks, each image takes up to twice as long."""

he_normal = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


class Conv(nn.Module):
    """A two-dimensional convolution with a square kernel.

    Equivalent to `flax.linen.Conv`, with [`convolve`][jaxagents.networks.vision.convolve].

    Attributes:
        features: Number of output channels.
        kernel_size: Height and width of the kernel.
        stride: Distance between neighbouring patches.
        padding: Number of zeros on each side of an image; `None` keeps the size (divided by the stride)
            for odd kernels.
        use_bias: Whether to add a bias.
        standardise: Whether to standardise the weights of each output channel to zero mean and unit
            variance (Qiao et al., 2019, "Weight standardization").
        kernel_init: Kernel initialiser; the default preserves the variance of gradients (He et al.,
            2015, "Delving deep into rectifiers").
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
    """A two-dimensional convolution (without flipping the kernel, as usual in networks).

    On CPU, XLA's convolutions are as fast as any except in four cases, which are computed differently
    here: gradients, which take up to fifty times as long inside a loop as outside; kernels of one pixel;
    kernels larger than the image; and few output channels. On other devices, this is XLA's convolution.

    Args:
        x: Images.
        kernel: Kernel.
        stride: Distance between neighbouring patches.
        padding: Number of zeros on each side of an image.

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
    """Whether images are smaller than the kernel, a case that XLA has no fast routine for."""
    return min(x.shape[1:3]) < kernel.shape[0]


def _matrix_convolve(x: Array, kernel: Array, stride: int, padding: int) -> Array:
    """The convolution as patches times a matrix."""
    x = jnp.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    size, features = kernel.shape[0], kernel.shape[3]
    return patches(x, (size, size), stride, "VALID") @ kernel.reshape(-1, features)


def _paired_convolve(x: Array, kernel: Array, padding: int) -> Array:
    """Convolves columns in pairs, whose channels make better use of SIMD registers."""
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
    """Computes the tangent with functions whose transposes are the gradients below.

    They are transposed after `jax.vmap`, so that a kernel's gradient is one convolution over all
    samples. A `jax.custom_vjp` would compute one gradient per sample and add them up.
    """
    y = _cpu_convolve_with_gradients(*primals, stride, padding)

    def transpose(gradient: Callable, tangent: Array) -> Array:
        from_output = functools.partial(gradient, *primals, stride=stride, padding=padding)
        (transposed,) = jax.linear_transpose(from_output, y)(tangent)
        return transposed

    of_images, of_kernel = map(transpose, (_image_gradient, _kernel_gradient), tangents)
    return y, of_images + of_kernel


# In loops, XLA's convolutions are fast only if the batch axis is first and channels are last, unlike in
# the gradients that it derives. The barriers keep it from undoing the transpositions.


def _image_gradient(x: Array, kernel: Array, gradient: Array, stride: int, padding: int) -> Array:
    """One convolution with stride 1 whose channels are all pixels of a `stride` x `stride` block."""
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
    """Every `stride`-th slice from `start` on, one per window of `size` that fits."""
    n_windows = (x.shape[axis] - size) // stride + 1
    end = start + (n_windows - 1) * stride + 1
    return jax.lax.slice_in_dim(x, start, end, stride, axis)


def max_pool(
    x: Images, size: int = 3, stride: int = 2, padding: int = 1
) -> Float[Array, "batch out_height out_width channels"]:
    """Max pooling over square windows.

    Equivalent to `flax.linen.max_pool`, but computed as maxima of slices, whose gradient is several
    times as fast on CPU. Equal pixels in a window share the gradient.

    Args:
        x: Images.
        size: Height and width of a window.
        stride: Distance between neighbouring windows.
        padding: Number of pixels of minus infinity on each side of an image.

    Returns:
        The maximum of each window.
    """
    for axis in (1, 2):
        widths = [(padding, padding) if i == axis else (0, 0) for i in range(x.ndim)]
        x = jnp.pad(x, widths, constant_values=-jnp.inf)
        x = functools.reduce(jnp.maximum, [_every(x, i, size, stride, axis) for i in range(size)])
    return x
