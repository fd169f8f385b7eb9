"""Fresh parameters of a network."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from flax import linen as nn
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.typing import DTypeLike
from jaxtyping import Array, Key, PyTree

Initialiser = Callable[..., Array]


def traced_once(init: Initialiser) -> Initialiser:
    """An initialiser whose steps are traced once for each shape.

    Whenever a layer is applied, flax asks its initialisers for the shapes of its parameters, to compare
    them with those that it has. Tracing an orthogonal initialiser takes longer than tracing the layer.

    Args:
        init: The initialiser.

    Returns:
        One of the same numbers.
    """
    compiled = jax.jit(init, static_argnums=(1, 2))

    def of_shape(
        key: Key[Array, ""], shape: Sequence[int], dtype: DTypeLike | None = None
    ) -> Array:
        return compiled(key, tuple(shape), dtype)

    return of_shape


@functools.cache
def orthogonal_init(scale: float = 1.0) -> Initialiser:
    """The initialiser of the weights of on-policy agents' networks.

    Saxe et al., 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks".

    Args:
        scale: Factor of the orthogonal weights.

    Returns:
        The initialiser.
    """
    return traced_once(nn.initializers.orthogonal(scale))


@functools.cache
def default_init(scale: float = 1.0) -> Initialiser:
    """The initialiser of the weights of learners' networks.

    Glorot and Bengio, 2010, "Understanding the difficulty of training deep feedforward neural
    networks", equation 16.

    Args:
        scale: Factor of the variance.

    Returns:
        The initialiser.
    """
    return traced_once(nn.initializers.variance_scaling(scale, "fan_avg", "uniform"))


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


def own_param(module: nn.Module, name: str, init: Callable[[Key[Array, ""]], PyTree]) -> PyTree:
    """A parameter of a module, which may be the parameters of a whole network.

    Unlike by `module.param`, one that is there is not initialised once more, to compare shapes.

    Args:
        module: The module.
        name: Name of the parameter.
        init: Gives its first value, from a random key.

    Returns:
        The parameter.
    """
    if module.has_variable("params", name):
        return module.get_variable("params", name)
    return module.param(name, init)


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
