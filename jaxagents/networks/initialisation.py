"""Initial parameters of a flax.linen network, which may hold flax.nnx modules through flax's bridge."""

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.errors import ScopeParamShapeError
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array, Key, PyTree

from jaxagents.core.arrays import written_in_jax

_WITHOUT_DRAWS = "Leave out layers that draw random numbers when they are called, such as dropout."


def default_init(scale: float = 1.0) -> Callable[..., Array]:
    """The weight initialiser of learners' networks: Glorot uniform.

    Glorot and Bengio, 2010, "Understanding the difficulty of training deep feedforward neural
    networks", equation 16.

    Args:
        scale: Factor that multiplies the variance.

    Returns:
        The initialiser.
    """
    return nn.initializers.variance_scaling(scale, "fan_avg", "uniform")


class InitialisedOnce(nn.Module):
    """Base class of modules that trace their initialisers only once, to initialise.

    Whenever a Flax module is applied, it traces its parameters' initialisers to check the shapes, which
    can take longer than tracing the module itself.
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
        """Declares a parameter and initialises it if missing; see `flax.linen.Module.param`.

        Args:
            name: Name of the parameter.
            init_fn: Initialiser.
            *init_args: Arguments of the initialiser after the random key; the first is the shape.
            unbox: Whether to strip metadata.
            **options: Keyword arguments of the initialiser.

        Returns:
            The parameter.

        Raises:
            ScopeParamShapeError: The parameter exists with a different shape.
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
    """Initialises the variables of a network; when vmapped on CPU, one network at a time.

    Orthogonal initialisation is a QR decomposition. On CPU, XLA runs a batch of these as tasks on the
    same threads that wait for the batch, so a program deadlocks if as many batches wait at once as there
    are threads.

    Args:
        network: The network.
        rng: Random key.
        *inputs: Example inputs.
        **options: Keyword arguments of the network.

    Returns:
        Collections of variables by name. Errors in the network get a note with its input shapes.

    Raises:
        ValueError: A flax.nnx module in the network changes its variables when called, or draws random
            numbers.
    """
    init = functools.partial(_initial_variables, network, options)
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

    with noting_inputs(network, inputs):
        return vmappable_init(rng, *inputs)


def initialise_params(
    network: nn.Module, rng: Key[Array, ""], *inputs: PyTree, **options: PyTree
) -> PyTree:
    """Initialises the parameters of a network without other variables; see `initialise`.

    Args:
        network: The network.
        rng: Random key.
        *inputs: Example inputs.
        **options: Keyword arguments of the network.

    Returns:
        The parameters.

    Raises:
        ValueError: The network has other variables, such as batch statistics.
    """
    variables = initialise(network, rng, *inputs, **options)
    others = sorted(set(variables) - {"params"})
    if others:
        raise ValueError(
            f"{type(network).__name__} has the variables {others}, which would never be "
            "updated. Use layers without them, such as group or layer normalisation instead of "
            "batch normalisation."
        )
    return variables.get("params", {})


@contextlib.contextmanager
def noting_inputs(network: nn.Module, inputs: Sequence[PyTree]) -> Iterator[None]:
    """Adds the shapes of a network's inputs to its errors.

    Args:
        network: The network.
        inputs: Its inputs.

    Raises:
        TypeError: The network, or a module in it, uses an array in an `if` or similar.
    """
    try:
        with written_in_jax(f"The network {name_of_network(network)}"):
            yield
    except Exception as error:
        name = name_of_network(network)
        error.add_note(f"This happened in {name}, given inputs of shape {shapes_of(inputs)}.")
        raise


def shapes_of(inputs: Sequence[PyTree]) -> str:
    """The shapes of a network's inputs, for error messages."""
    return ", ".join(str(jax.tree.map(np.shape, x)) for x in inputs)


def name_of_network(network: nn.Module) -> str:
    """Class name of a network; for flax.nnx, of the module inside the bridge."""
    return getattr(network, "nnx_class", type(network)).__name__


def check_not_nnx(choice: object, field: str) -> None:
    """Raises if a field holds a flax.nnx module instead of a flax.linen one.

    Args:
        choice: The module, or its class.
        field: Name of the field.

    Raises:
        TypeError: `choice` is a flax.nnx module.
    """
    kind = choice if isinstance(choice, type) else type(choice)
    nnx = sys.modules.get("flax.nnx")  # importing it takes long
    if nnx is not None and issubclass(kind, nnx.Module):
        raise TypeError(
            f"{field} must be a flax.linen module, but {kind.__name__} is a flax.nnx module, "
            f"which holds its parameters: pass flax.nnx.bridge.to_linen({kind.__name__}, ...), "
            "with the arguments of its constructor except rngs."
        )


def _initial_variables(
    network: nn.Module, options: Mapping[str, PyTree], rng: Key[Array, ""], *inputs: PyTree
) -> dict[str, PyTree]:
    are_nnx = []

    def note(call: Any, args: tuple, kwargs: dict, context: nn.module.InterceptorContext) -> Any:
        are_nnx.append(type(context.module).__module__.startswith("flax.nnx"))
        return call(*args, **kwargs)

    try:
        with nn.intercept_methods(note):
            variables = dict(network.init(rng, *inputs, **options))
    except (AttributeError, KeyError) as error:
        missing = re.search(r"No RngStream named '(\w+)'", str(error))
        if missing is None:
            raise
        raise ValueError(
            f"{name_of_network(network)} holds a flax.nnx module that takes random numbers from "
            f"rngs.{missing[1]}, but there is only rngs.params, for its parameters. "
            f"{_WITHOUT_DRAWS}"
        ) from error
    if any(are_nnx):
        _check_depends_on_its_inputs_alone(network, variables, inputs, options)
    return variables


def _check_depends_on_its_inputs_alone(
    network: nn.Module,
    variables: Mapping[str, PyTree],
    inputs: Sequence[PyTree],
    options: Mapping[str, PyTree],
) -> None:
    """Raises if a flax.nnx network changes its variables when called, or draws random numbers.

    A flax.linen module would raise an error itself. The bridge silently drops the changes instead: batch
    normalisation, say, would keep using the statistics of each single observation and turn them all into
    zeros. Dropout with its own random keys would drop the same units for ever.
    """

    def call(variables: Mapping[str, PyTree]) -> PyTree:
        output, after = network.apply(variables, *inputs, mutable=True, **options)
        return after, output

    whole, (after, _) = jax.make_jaxpr(call, return_shape=True)(variables)
    program, _ = dce_jaxpr(whole.jaxpr, [True] * len(whole.jaxpr.outvars))
    named, _ = jax.tree_util.tree_flatten_with_path(after)
    changed = sorted(
        jax.tree_util.keystr(path, simple=True, separator="/")
        for (path, _), found in zip(named, program.outvars, strict=False)
        if found not in whole.jaxpr.invars
    )
    if changed:
        raise ValueError(
            f"{name_of_network(network)} holds a flax.nnx module that changes its variables "
            f"{changed} when it is called, and the changes would be lost. Use layers that do "
            "not, such as group or layer normalisation instead of batch normalisation, which "
            "otherwise needs use_running_average=True."
        )
    if "random_bits" in str(program):
        raise ValueError(
            f"{name_of_network(network)} holds a flax.nnx module that draws random numbers from "
            f"its own keys: the same at every call. {_WITHOUT_DRAWS} If the same numbers are "
            "intended, keep them in an nnx.Variable."
        )
