"""Parameters of environments that hyperparameters give."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, PyTree

from jaxagents.core.config import check_known_fields

_LIMIT = "max_steps_in_episode"


def with_numbers(params: PyTree, numbers: Mapping[str, ArrayLike]) -> PyTree:
    """Parameters with other numbers for some of them.

    Args:
        params: A dataclass, a named tuple or a dict.
        numbers: The numbers by name, which may be traced. They are cast to the types of those that they
            replace, and rounded where those are whole.

    Returns:
        The parameters.

    Raises:
        TypeError: There is no parameter of a name, or it is not a number, or sets the time limit.
        ValueError: A number is an array.
    """
    if _LIMIT in numbers:
        raise TypeError(
            f"{_LIMIT} is no hyperparameter: the time limit is the same throughout a training. Give it "
            "to the agent, among the parameters of the environment."
        )
    own = {name: x for name, x in _by_name(params).items() if name != _LIMIT and _is_number(x)}
    check_known_fields(type(params), numbers, list(own))
    cast = {name: _cast(name, number, own[name]) for name, number in numbers.items()}
    if isinstance(params, Mapping):
        return {**params, **cast}
    if isinstance(params, tuple):
        named: Any = params
        return named._replace(**cast)
    return dataclasses.replace(params, **cast)


def _by_name(params: PyTree) -> Mapping[str, Any]:
    """The parameters by name; none if they have no names."""
    if isinstance(params, Mapping):
        return params
    if hasattr(params, "_asdict"):
        return params._asdict()
    if dataclasses.is_dataclass(params):
        return {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    return {}


def _is_number(x: object) -> bool:
    return isinstance(x, int | float | np.ndarray | np.generic | jax.Array) and (
        np.ndim(x) == 0 and jnp.result_type(x).kind in "iuf"
    )


def _cast(name: str, number: ArrayLike, own: ArrayLike) -> jax.Array:
    if jnp.ndim(number):
        raise ValueError(f"env_params[{name!r}] must be one number, got shape {jnp.shape(number)}.")
    number, dtype = jnp.asarray(number), jnp.result_type(own)
    is_rounded = jnp.issubdtype(dtype, jnp.integer) and jnp.issubdtype(number.dtype, jnp.floating)
    # A schedule that ought to give 23 may give 22.999998.
    return (jnp.rint(number) if is_rounded else number).astype(dtype)
