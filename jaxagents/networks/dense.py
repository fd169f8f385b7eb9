"""Fully connected layers: one with fast gradients on CPU, and one with noise for exploration."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.core.arrays import atleast_nd
from jaxagents.networks.initialisation import InitialisedOnce

Rows = Float[Array, "*batch_and_rows inputs"]
Weights = Float[Array, "*batch inputs outputs"]

_TALL = 4
_NARROW = 8
_SMALL = 2_048  # multiplications
_matmul_p = Primitive("jaxagents_matmul")


def matmul(x: Rows, weights: Weights) -> Float[Array, "*batch_and_rows outputs"]:
    """The matrix product `x @ weights`, with special cases that are faster on CPU.

    The gradient of the weights multiplies the transposed `x` by the gradient of the output. If that has
    few columns, as after an output layer, one product per column is faster. For small products, as in
    narrow layers with few environments, a library call takes longer than the product itself, so it is
    written as multiplications and sums.

    This is a primitive rather than a `jax.custom_vjp`, so that a batch stays a single product even when
    a function of one row is vmapped.

    Args:
        x: Rows, along one or several axes.
        weights: Weights. Their leading axes, if any, are also the leading axes of `x`.

    Returns:
        The product.
    """
    precision = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    dtype = jnp.result_type(x, weights)
    x, weights = x.astype(dtype), weights.astype(dtype)
    if _manual_axes(x) != _manual_axes(weights):  # XLA's own product can reconcile them
        return jnp.matmul(x, weights)
    return _matmul_p.bind(x, weights, precision=precision)


def dot_general(
    lhs: Array,
    rhs: Array,
    dimension_numbers: jax.lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    **options: Any,
) -> Array:
    """Like `jax.lax.dot_general`, but uses [`matmul`][jaxagents.networks.dense.matmul] if possible.

    Args:
        lhs: Left operand.
        rhs: Right operand.
        dimension_numbers: Contracted axes and batch axes.
        precision: Precision; anything but `None` goes to `jax.lax.dot_general`.
        **options: Additional arguments of `jax.lax.dot_general`.

    Returns:
        The product.
    """
    of_last_axis = (((lhs.ndim - 1,), (0,)), ((), ()))
    is_matmul = rhs.ndim == 2 and dimension_numbers == of_last_axis and lhs.dtype == rhs.dtype
    if precision is not None or options or not is_matmul:
        return jax.lax.dot_general(lhs, rhs, dimension_numbers, precision, **options)
    rows = lhs[None] if lhs.ndim == 1 else lhs
    return matmul(rows, rhs).reshape(*lhs.shape[:-1], rhs.shape[-1])


class Dense(InitialisedOnce, nn.Dense):
    """Drop-in replacement for `flax.linen.Dense` whose gradients are faster on CPU."""

    dot_general: Any = dot_general


def _product(x: Array, weights: Array, *, precision: Any) -> Array:
    batch = tuple(range(weights.ndim - 2))
    contracted = ((x.ndim - 1,), (weights.ndim - 2,))
    return jax.lax.dot_general(x, weights, (contracted, (batch, batch)), precision)


def _small_product(x: Array, weights: Array, *, precision: Any) -> Array:
    """The product; a small one without a library call, which would take longer on CPU."""
    is_small = math.prod(x.shape) * weights.shape[-1] <= _SMALL
    if weights.ndim == 2 and is_small and x.dtype == jnp.float32:
        return (x[..., None] * atleast_nd(weights, x.ndim + 1)).sum(axis=-2)
    return _product(x, weights, precision=precision)


def _manual_axes(x: Array) -> object:
    """The axes of a `jax.shard_map` along which an array differs."""
    return getattr(jax.typeof(x), "manual_axis_type", None)


@_matmul_p.def_abstract_eval
@functools.lru_cache
def _(x: ShapedArray, weights: ShapedArray, *, precision: Any) -> ShapedArray:
    product = functools.partial(_product, precision=precision)
    return jax.make_jaxpr(product)(x, weights).out_avals[0]


def _gradient_of_rows(gradient: Array, _: PyTree, weights: Array, *, precision: Any) -> Array:
    return _matmul_p.bind(gradient, jnp.swapaxes(weights, -1, -2), precision=precision)


def _gradient_of_weights(gradient: Array, x: Array, weights: PyTree, *, precision: Any) -> Array:
    n_batch = weights.aval.ndim - 2
    x, gradient = (_without_single_rows(y, n_batch) for y in (x, gradient))
    product = functools.partial(_product_over_rows, n_batch=n_batch, precision=precision)
    n_rows, n_columns = math.prod(x.shape[n_batch:-1]), gradient.shape[-1]
    if n_batch == 0 and n_columns <= _NARROW and n_rows >= _TALL * n_columns:
        by_column = functools.partial(_product_by_column, precision=precision)
        return jax.lax.platform_dependent(x, gradient, cpu=by_column, default=product)
    return product(x, gradient)


def _without_single_rows(x: Array, n_batch: int) -> Array:
    """Drops row axes of size 1; others stay separate, so that devices need not exchange rows."""
    rows = [size for size in x.shape[n_batch:-1] if size != 1] or [1]
    return x.reshape(*x.shape[:n_batch], *rows, x.shape[-1])


def _product_over_rows(x: Array, gradient: Array, *, n_batch: int = 0, precision: Any) -> Array:
    """The product of the transposed `x` and the gradient."""
    batch, rows = tuple(range(n_batch)), tuple(range(n_batch, x.ndim - 1))
    return jax.lax.dot_general(x, gradient, ((rows, rows), (batch, batch)), precision)


def _product_by_column(x: Array, gradient: Array, *, precision: Any) -> Array:
    """The product of the transposed `x` and the gradient, column by column."""
    product = functools.partial(_product_over_rows, x, precision=precision)
    columns = (gradient[..., i] for i in range(gradient.shape[-1]))
    return jnp.stack([product(column) for column in columns], axis=-1)


def _vmapped(args: Any, axes: Any, *, precision: Any) -> tuple[Array, int]:
    x, weights = args
    x_axis, weights_axis = axes
    if weights_axis is None:
        rows_axis = weights.ndim - 2
        x = jnp.moveaxis(x, x_axis, rows_axis)
        return _matmul_p.bind(x, weights, precision=precision), rows_axis
    weights = jnp.moveaxis(weights, weights_axis, 0)
    shape = (len(weights), *x.shape)
    x = jnp.broadcast_to(x, shape) if x_axis is None else jnp.moveaxis(x, x_axis, 0)
    return _matmul_p.bind(x, weights, precision=precision), 0


_matmul_p.def_impl(functools.partial(jax.jit, static_argnames="precision")(_product))
ad.defbilinear(_matmul_p, _gradient_of_rows, _gradient_of_weights)
batching.primitive_batchers[_matmul_p] = _vmapped
mlir.register_lowering(_matmul_p, mlir.lower_fun(_product, multiple_results=False))
mlir.register_lowering(
    _matmul_p, mlir.lower_fun(_small_product, multiple_results=False), platform="cpu"
)


_SIGMA = "_sigma"


class NoisyDense(InitialisedOnce):
    r"""A dense layer with learned noise scales for its weights and biases.

    $$y = (\mu^w + \sigma^w \odot \varepsilon^w) \, x + \mu^b + \sigma^b \odot \varepsilon^b$$

    By default, the layer is applied without noise, $\varepsilon = 0$. Use
    [`with_noise`][jaxagents.networks.with_noise] to perturb its parameters, equally for all samples. The
    parameters are $\mu$ (`kernel`, `bias`) and $\sigma$ (`kernel_sigma`, `bias_sigma`).

    Fortunato et al., 2018, "Noisy networks for exploration", equation 9 and section 3.2.

    Attributes:
        features: Number of outputs.
        kernel_init: Initialiser of $\mu^w$.
        initial_sigma: Initial $\sigma$ times the square root of the number of inputs.
    """

    features: int
    kernel_init: Callable[..., Array] = nn.initializers.lecun_normal()
    initial_sigma: float = 0.5

    @nn.compact
    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch features"]:
        """Applies the layer."""
        shapes = {"kernel": (x.shape[-1], self.features), "bias": (self.features,)}
        inits = {"kernel": self.kernel_init, "bias": nn.initializers.zeros}
        sigma_init = nn.initializers.constant(self.initial_sigma / math.sqrt(x.shape[-1]))
        mu = {name: self.param(name, inits[name], shapes[name], jnp.float32) for name in shapes}
        for name, shape in shapes.items():
            self.param(f"{name}{_SIGMA}", sigma_init, shape, jnp.float32)  # for `with_noise`
        product = dot_general(x, mu["kernel"], (((x.ndim - 1,), (0,)), ((), ())))
        return product + atleast_nd(mu["bias"], x.ndim)


def with_noise(params: PyTree, rng: Key[Array, ""], scale: ArrayLike = 1.0) -> PyTree:
    """Adds noise to the parameters of noisy layers.

    ```python
    q = network.apply({"params": with_noise(params, rng)}, observations)
    ```

    It is differentiable with respect to the parameters.

    Args:
        params: Parameters of networks, or dicts of them.
        rng: Random key.
        scale: Factor that multiplies the noise.

    Returns:
        The parameters, unchanged if there is no [`NoisyDense`][jaxagents.networks.NoisyDense].
    """
    flat: dict[tuple[str, ...], Any] = dict(flatten_dict(params))
    layers = sorted(path[:-1] for path in flat if path[-1] == f"kernel{_SIGMA}")
    for i, layer in enumerate(layers):
        noise = _noise_of(flat[*layer, "kernel"], jax.random.fold_in(rng, i))
        for name, drawn in zip(("kernel", "bias"), noise, strict=True):
            sigma = flat[*layer, f"{name}{_SIGMA}"]
            flat[*layer, name] = flat[*layer, name] + scale * sigma * drawn
    return unflatten_dict(flat) if layers else params


def _noise_of(kernel: Array, rng: Key[Array, ""]) -> tuple[Array, Array]:
    """Noise for the weights and biases of each ensemble member."""
    *members, n_inputs, n_outputs = kernel.shape
    normal = jax.random.normal(rng, (*members, n_inputs + n_outputs), kernel.dtype)
    noise = ops.factorised_noise
    for _ in members:
        noise = jax.vmap(noise)
    return noise(*jnp.split(normal, [n_inputs], axis=-1))
