"""Fresh parameters of a network."""

from collections.abc import Callable
from typing import Any

import jax
from flax import linen as nn
from jax.custom_batching import custom_vmap, sequential_vmap
from jaxtyping import Array, Key, PyTree


def default_init(scale: float = 1.0) -> Callable[..., Array]:
    """The initialiser of the weights of learners' networks.

    Glorot and Bengio, 2010, "Understanding the difficulty of training deep feedforward neural
    networks", equation 16.

    Args:
        scale: Factor of the variance.

    Returns:
        The initialiser.
    """
    return nn.initializers.variance_scaling(scale, "fan_avg", "uniform")


def initialise(network: nn.Module, rng: Key[Array, ""], *inputs: PyTree) -> dict[str, PyTree]:
    """The variables of a network; when vmapped on a CPU, of one network after another.

    Orthogonal initialisation is a QR decomposition. On a CPU, XLA runs a batch of these as tasks on the
    same threads that wait for the batch: a program in which as many batches wait at once as there are
    threads never finishes.

    Args:
        network: The network.
        rng: Random key.
        *inputs: Examples of its inputs.

    Returns:
        Collections of variables by name.
    """

    def init(rng: Key[Array, ""], *inputs: PyTree) -> dict[str, PyTree]:
        return dict(network.init(rng, *inputs))

    vmappable_init = custom_vmap(init)

    @vmappable_init.def_vmap
    def _(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        in_axes = tuple(jax.tree.map(lambda batched: 0 if batched else None, in_batched))
        variables = jax.lax.platform_dependent(
            *args,
            cpu=jax.vmap(sequential_vmap(init), in_axes, axis_size=axis_size),
            default=jax.vmap(init, in_axes, axis_size=axis_size),
        )
        return variables, jax.tree.map(lambda _: True, variables)

    return vmappable_init(rng, *inputs)


def initialise_params(network: nn.Module, rng: Key[Array, ""], *inputs: PyTree) -> PyTree:
    """The parameters of a network that has no other variables; see `initialise`.

    Args:
        network: The network.
        rng: Random key.
        *inputs: Examples of its inputs.

    Returns:
        The parameters.

    Raises:
        ValueError: The network has further variables, such as batch statistics.
    """
    variables = initialise(network, rng, *inputs)
    others = sorted(set(variables) - {"params"})
    if others:
        raise ValueError(
            f"{type(network).__name__} has the variables {others}, which nothing would update here. Use "
            "layers without them, such as group or layer normalisation instead of batch "
            "normalisation."
        )
    return variables.get("params", {})
