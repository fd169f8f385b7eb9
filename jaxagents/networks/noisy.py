"""Layers with noise in their parameters, for exploration."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.core.arrays import atleast_nd
from jaxagents.networks.dense import dot_general
from jaxagents.networks.initialisation import InitialisedOnce

_SIGMA = "_sigma"


class NoisyDense(InitialisedOnce):
    r"""A dense layer that learns how much noise its weights and biases need.

    $$y = (\mu^w + \sigma^w \odot \varepsilon^w) \, x + \mu^b + \sigma^b \odot \varepsilon^b$$

    Applied as it is, there is no noise, $\varepsilon = 0$. With the parameters that
    [`with_noise`][jaxagents.networks.with_noise] gives there is, the same for all samples. Its
    parameters are $\mu$ (`kernel`, `bias`) and $\sigma$ (`kernel_sigma`, `bias_sigma`).

    Fortunato et al., 2018, "Noisy networks for exploration", equation 9 and section 3.2.

    Attributes:
        features: Number of outputs.
        kernel_init: Initialiser of $\mu^w$.
        initial_sigma: Initial $\sigma$, multiplied by the root of the number of inputs.
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
        mu = {
            name: self.param(name, inits[name], shape, jnp.float32)
            for name, shape in shapes.items()
        }
        for name, shape in shapes.items():
            self.param(f"{name}{_SIGMA}", sigma_init, shape, jnp.float32)  # for `with_noise`
        product = dot_general(x, mu["kernel"], (((x.ndim - 1,), (0,)), ((), ())))
        return product + atleast_nd(mu["bias"], x.ndim)


def with_noise(params: PyTree, rng: Key[Array, ""], scale: ArrayLike = 1.0) -> PyTree:
    """Adds a draw of noise to the parameters of noisy layers.

    ```python
    q = network.apply({"params": with_noise(params, rng)}, observations)
    ```

    Gradients with respect to the parameters pass through it.

    Args:
        params: Parameters of networks, or dicts of them.
        rng: Random key.
        scale: Factor of the noise.

    Returns:
        The parameters, the same if there is no [`NoisyDense`][jaxagents.networks.NoisyDense].
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
    """Noise of weights and biases, of each member of an ensemble."""
    *members, n_inputs, n_outputs = kernel.shape
    normal = jax.random.normal(rng, (*members, n_inputs + n_outputs), kernel.dtype)
    noise = ops.factorised_noise
    for _ in members:
        noise = jax.vmap(noise)
    return noise(*jnp.split(normal, [n_inputs], axis=-1))
