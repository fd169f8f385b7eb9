"""Numbers that are not finite, in arrays on the host or on devices."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PyTree
from optax.contrib import ReduceLROnPlateauState

from jaxagents.core.arrays import of_this_process

OBSERVATIONS = "observations"
"""Name of arrays that have a leading axis of environments."""


def not_finite(arrays: Mapping[str, PyTree]) -> list[str]:
    """Those that hold numbers that are not finite, with the environments of those that are of one each.

    Args:
        arrays: Pytrees of arrays, by what they are.

    Returns:
        Their names.
    """
    return [
        f"{name}{_where(name, tree)}"
        for name, tree in arrays.items()
        if not all(_is_finite(leaf) for leaf in _leaves(tree))
    ]


def finite_members(tree: PyTree) -> Bool[np.ndarray, "members"]:
    """Whether all numbers of each member of a stack are finite, as far as they are in this process.

    Args:
        tree: Arrays with a leading axis of members.

    Returns:
        One entry for each member.
    """
    leaves = [of_this_process(leaf) for leaf in _leaves(tree) if _is_floating(leaf)]
    return np.all([np.isfinite(x.reshape(len(x), -1)).all(axis=1) for x in leaves], axis=0)


def of_environments(flags: Bool[np.ndarray, "environments"]) -> str:
    """The numbers of the environments that have a flag, in words.

    Args:
        flags: One for each environment.

    Returns:
        Words such as `" of environments [3]"`.
    """
    environments = np.flatnonzero(flags).tolist()
    more = f" and {len(environments) - 8} more" if len(environments) > 8 else ""
    return f" of environments {environments[:8]}{more}"


def _leaves(tree: PyTree) -> list[jax.Array]:
    """The arrays, but for the best loss of `reduce_on_plateau`, infinity before there is any."""

    def is_plateau(x: PyTree) -> bool:
        return isinstance(x, ReduceLROnPlateauState)

    def watched(x: PyTree) -> PyTree:
        return x._replace(best_value=None) if is_plateau(x) else x

    return jax.tree.leaves(jax.tree.map(watched, tree, is_leaf=is_plateau))


def _where(name: str, tree: PyTree) -> str:
    if name != OBSERVATIONS:
        return ""
    return of_environments(~finite_members(tree))


def _is_finite(leaf: jax.Array) -> bool:
    return not _is_floating(leaf) or bool(np.isfinite(of_this_process(leaf)).all())


def _is_floating(leaf: jax.Array | np.ndarray) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.inexact)
