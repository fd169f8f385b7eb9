"""Fresh parameters of a network."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.errors import ScopeParamShapeError
from jax.custom_batching import custom_vmap, sequential_vmap
from jaxtyping import Array, Key, PyTree

from jaxagents.networks.nnx_modules import initial_variables, name_of_network


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


class InitialisedOnce(nn.Module):
    """Base of modules whose parameters are initialised once.

    Whenever a module of flax is applied, it asks for the shapes that the initialisers of its parameters
    would give, to compare them with those that are there. Tracing an initialiser can take longer than
    tracing the module.
    """

    @nn.nowrap
    def param(
        self,
        name: str,
        init_fn: Callable[..., Any],
        *init_args: Any,
        unbox: bool = True,
        **options: Any,
    ) -> PyTree:
        """A parameter, which is initialised if it is not there; see `flax.linen.Module.param`.

        Args:
            name: Its name.
            init_fn: Initialiser.
            *init_args: What the initialiser is given after a random key; the first is the shape.
            unbox: Whether metadata are left out.
            **options: Further arguments of the initialiser.

        Returns:
            The parameter.

        Raises:
            ScopeParamShapeError: It is there, with another shape.
        """
        if not self.has_variable("params", name):
            return super().param(name, init_fn, *init_args, unbox=unbox, **options)
        value = self.get_variable("params", name)
        value = nn.meta.unbox(value) if unbox else value
        if init_args and jnp.shape(value) != tuple(init_args[0]):
            raise ScopeParamShapeError(name, "/".join(self.path), jnp.shape(value), init_args[0])
        return value


def initialise(
    network: nn.Module, rng: Key[Array, ""], *inputs: PyTree, **options: PyTree
) -> dict[str, PyTree]:
    """The variables of a network; when vmapped on a CPU, of one network after another.

    Orthogonal initialisation is a QR decomposition. On a CPU, XLA runs a batch of these as tasks on the
    same threads that wait for the batch: a program in which as many batches wait at once as there are
    threads never finishes.

    Args:
        network: The network.
        rng: Random key.
        *inputs: Examples of its inputs.
        **options: Keyword arguments of the network.

    Returns:
        Collections of variables by name. Errors of the network get a note with the shapes of its inputs.

    Raises:
        ValueError: A module of flax.nnx in it changes variables when it is called, or draws random
            numbers.
    """

    def init(rng: Key[Array, ""], *inputs: PyTree) -> dict[str, PyTree]:
        with noting_inputs(network, inputs):
            return initial_variables(network, rng, *inputs, **options)

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


def initialise_params(
    network: nn.Module, rng: Key[Array, ""], *inputs: PyTree, **options: PyTree
) -> PyTree:
    """The parameters of a network that has no other variables; see `initialise`.

    Args:
        network: The network.
        rng: Random key.
        *inputs: Examples of its inputs.
        **options: Keyword arguments of the network.

    Returns:
        The parameters.

    Raises:
        ValueError: The network has further variables, such as batch statistics.
    """
    variables = initialise(network, rng, *inputs, **options)
    others = sorted(set(variables) - {"params"})
    if others:
        raise ValueError(
            f"{type(network).__name__} has the variables {others}, which nothing would update here. Use "
            "layers without them, such as group or layer normalisation instead of batch "
            "normalisation."
        )
    return variables.get("params", {})


def shapes_of(inputs: Sequence[PyTree]) -> str:
    """The shapes of a network's inputs, in words."""
    return ", ".join(str(jax.tree.map(np.shape, x)) for x in inputs)


@contextlib.contextmanager
def noting_inputs(network: nn.Module, inputs: Sequence[PyTree]) -> Iterator[None]:
    """Adds the shapes of a network's inputs to the errors that come of it.

    Args:
        network: The network.
        inputs: Its inputs.
    """
    try:
        yield
    except Exception as error:
        name = name_of_network(network)
        error.add_note(f"This happened in {name}, given inputs of shape {shapes_of(inputs)}.")
        raise
