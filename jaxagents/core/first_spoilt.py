"""Since which update numbers are not finite: noticed in the loop of updates, told on the host."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from jaxagents.core.finite import OBSERVATIONS, of_environments

REWARDS = "rewards"
OF_ENVIRONMENTS = (REWARDS, OBSERVATIONS)
"""Names of what is watched in each environment by itself."""

_FLAGS = "in_which_environments"
_WATCHED = ("loss", "gradient_norm")


FirstSpoilt = dict[str, Int[Array | np.ndarray, "*environments"]]
"""The first update after which each was not finite, by what it is; 0 where there was none.

Losses and gradient norms have one entry, what environments give has one for each environment.
"""

Flags = dict[str, Bool[Array, "environments"]]
"""Whether what an environment gave was not finite, by what it is."""


class Record(NamedTuple):
    """The first updates after which numbers were not finite, as the loop of updates carries them.

    Attributes:
        reported: Of each loss and gradient norm, in the order of their names.
        given: Of what each environment gave, by what it is.
    """

    reported: Int[Array, "names"]
    given: dict[str, Int[Array, "environments"]]

    @staticmethod
    def none_yet(info: Mapping[str, PyTree], n_environments: int) -> "Record":
        """The record before any update.

        Args:
            info: What updates report.
            n_environments: Number of environments of which they tell; 0 if they tell of none.

        Returns:
            The record.
        """
        given = {name: jnp.zeros(n_environments, jnp.int32) for name in OF_ENVIRONMENTS}
        return Record(
            jnp.zeros(len(_watched_names(info)), jnp.int32), given if n_environments else {}
        )

    def after(
        self,
        step: Int[Array, ""],
        info: Mapping[str, PyTree],
        flags: Flags,
    ) -> "Record":
        """The record after another update.

        Args:
            step: The number of the update.
            info: What it reports.
            flags: In which environments something was not finite, by what it is.

        Returns:
            The record.
        """

        def since(first: Array, is_spoilt: Array) -> Array:
            return jnp.where((first == 0) & is_spoilt, step, first)

        numbers = [jnp.asarray(info[name], jnp.float32) for name in _watched_names(info)]
        reported = self.reported
        if numbers:
            reported = since(reported, ~jnp.isfinite(jnp.stack(numbers)))
        given = {n: since(x, flags[n]) if n in flags else x for n, x in self.given.items()}
        return Record(reported, given)

    def by_name(self, info: Mapping[str, PyTree]) -> FirstSpoilt:
        """The record by the names of what updates report."""
        names = _watched_names(info)
        return {**self.given, **{name: self.reported[i] for i, name in enumerate(names)}}


def spoilt_environments(given: Mapping[str, PyTree[Array]], axis: int = 0) -> Flags:
    """The environments that gave something that is not finite, by what it is.

    Args:
        given: Arrays of a step, or of a rollout, by what they are.
        axis: The axis of the environments, such as 1 in a rollout, whose first axis is time.

    Returns:
        Flags of those that hold real numbers.
    """

    def flags(leaf: Array) -> Bool[Array, "environments"]:
        return ~jnp.isfinite(leaf).all(axis=(*range(axis), *range(axis + 1, leaf.ndim)))

    return {
        name: jnp.stack([flags(leaf) for leaf in leaves]).any(axis=0)
        for name, tree in given.items()
        if (leaves := floating(tree))
    }


def with_flags(info: Mapping[str, PyTree], flags: Flags) -> dict[str, PyTree]:
    """The report of an update, with flags for its caller of the environments that spoilt it.

    Args:
        info: What it reports.
        flags: The flags.

    Returns:
        Both.
    """
    return {**info, _FLAGS: flags}


def without_flags(info: Mapping[str, PyTree]) -> tuple[dict[str, PyTree], Flags]:
    """The report of an update, and the flags that came with it."""
    return {name: x for name, x in info.items() if name != _FLAGS}, info.get(_FLAGS, {})


def floating(tree: PyTree[Array]) -> list[Array]:
    """The arrays of a pytree whose numbers may not be finite."""
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]


def in_words(first: FirstSpoilt) -> list[str]:
    """Since which updates what is not finite, the earliest first.

    Args:
        first: The first updates, on the host or on devices.

    Returns:
        A text for each such update, such as `"12: rewards of environments [3]"`.
    """
    by_update: dict[int, list[str]] = {}
    for name in (*OF_ENVIRONMENTS, *sorted(first.keys() - {*OF_ENVIRONMENTS})):
        updates = _addressable(first.get(name, np.zeros(0, np.int32)))
        for update in np.unique(updates[updates > 0]).tolist():
            text = f"{name}{of_environments(updates == update) if updates.ndim else ''}"
            by_update.setdefault(update, []).append(text)
    return [f"{update}: {', '.join(by_update[update])}" for update in sorted(by_update)]


def _watched_names(info: Mapping[str, PyTree]) -> list[str]:
    """Names of the losses and gradient norms."""
    return sorted(name for name in info if name.endswith(_WATCHED))


def _addressable(
    array: Int[Array | np.ndarray, "*environments"],
) -> Int[np.ndarray, "*environments"]:
    """An array, or 0 for what other processes have of one that several share."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return np.asarray(array)
    known = np.zeros(array.shape, array.dtype)
    for shard in array.addressable_shards:
        known[shard.index] = np.asarray(shard.data)
    return known
