"""Modules of flax.nnx, which are given as modules of flax.linen by flax's own bridge."""

import re
from collections.abc import Mapping
from typing import Any

import jax
from flax import linen as nn
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array, Key, PyTree

_WITHOUT_DRAWS = "Leave out layers that draw while they are called, such as dropout."


def is_nnx(choice: object) -> bool:
    """Whether something is a module of flax.nnx, or a class of such, without importing flax.nnx."""
    kind = choice if isinstance(choice, type) else type(choice)
    return any(
        base.__name__ == "Module" and base.__module__.startswith("flax.nnx")
        for base in kind.__mro__
    )


def name_of_network(network: nn.Module) -> str:
    """Name of a network's class; for flax.nnx, of the class within the bridge."""
    return getattr(network, "nnx_class", type(network)).__name__


def check_not_nnx(choice: object, field: str) -> None:
    """Raises if a module of flax.nnx is given where one of flax.linen is needed.

    Args:
        choice: What is given.
        field: Name of the field that it is given as.

    Raises:
        TypeError: It is.
    """
    if not is_nnx(choice):
        return
    kind = choice if isinstance(choice, type) else type(choice)
    raise TypeError(
        f"{field} must be a flax.linen module, and {kind.__name__} is one of flax.nnx, which holds its "
        f"parameters: give flax.nnx.bridge.to_linen({kind.__name__}, ...), with the arguments of its "
        "constructor but for rngs."
    )


def initial_variables(
    network: nn.Module, rng: Key[Array, ""], *inputs: PyTree, **options: PyTree
) -> dict[str, PyTree]:
    """The variables of a network of modules of either kind.

    Args:
        network: The network.
        rng: Random key.
        *inputs: Examples of its inputs.
        **options: Keyword arguments of the network.

    Returns:
        Collections of variables by name.

    Raises:
        ValueError: A module of flax.nnx in it changes variables when it is called, or draws random
            numbers.
    """
    holds_nnx = False

    def note(call: Any, args: tuple, kwargs: dict, context: nn.module.InterceptorContext) -> Any:
        nonlocal holds_nnx
        holds_nnx |= type(context.module).__module__.startswith("flax.nnx")
        return call(*args, **kwargs)

    try:
        with nn.intercept_methods(note):
            variables = dict(network.init(rng, *inputs, **options))
    except (AttributeError, KeyError) as error:
        missing = re.search(r"No RngStream named '(\w+)'", str(error))
        if missing is None:
            raise
        raise ValueError(
            f"{name_of_network(network)} holds a module of flax.nnx that takes random numbers from "
            f"rngs.{missing[1]}, of which there are none here: only rngs.params, for its parameters. "
            f"{_WITHOUT_DRAWS}"
        ) from error
    if holds_nnx:
        _check_depends_on_its_inputs_alone(network, variables, inputs, options)
    return variables


def _check_depends_on_its_inputs_alone(
    network: nn.Module,
    variables: Mapping[str, PyTree],
    inputs: tuple[PyTree, ...],
    options: Mapping[str, PyTree],
) -> None:
    """Raises if a network of flax.nnx changes variables when it is called, or draws random numbers.

    A module of flax.linen would say so itself. The bridge drops what changes instead, so that batch
    normalisation, say, would go on by the statistics of each single observation: it would make zeros of
    them all. Dropout with random keys of its own would drop the same units for ever.
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
            f"{name_of_network(network)} holds a module of flax.nnx that changes its variables "
            f"{changed} when it is called, which nothing would keep here. Use layers that do not, such "
            "as group or layer normalisation instead of batch normalisation, which otherwise needs "
            "use_running_average=True."
        )
    if "random_bits" in str(program):
        raise ValueError(
            f"{name_of_network(network)} holds a module of flax.nnx that draws random numbers from keys "
            f"of its own: the same at every call. {_WITHOUT_DRAWS} Where the same numbers are meant, "
            "keep them in an nnx.Variable."
        )
