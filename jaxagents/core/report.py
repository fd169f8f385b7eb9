"""The report of an update: its metrics, and where values were non-finite."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree
from optax.contrib import ReduceLROnPlateauState

from jaxagents.core.arrays import of_this_process

OBSERVATIONS = "observations"
"""Name of arrays with a leading axis of environments."""


def not_finite(arrays: Mapping[str, PyTree]) -> list[str]:
    """Names of the pytrees with non-finite values; for observations, also the environments.

    Args:
        arrays: Pytrees of arrays, by description.

    Returns:
        The names.
    """

    def where(name: str, tree: PyTree) -> str:
        return of_environments(~finite_members(tree)) if name == OBSERVATIONS else ""

    return [
        f"{name}{where(name, tree)}"
        for name, tree in arrays.items()
        if not all(np.isfinite(of_this_process(leaf)).all() for leaf in _floating_leaves(tree))
    ]


def finite_members(tree: PyTree) -> Bool[np.ndarray, "members"]:
    """Whether all values of each member of a stack are finite, in this process's part of them.

    Args:
        tree: Arrays with a leading axis of members.

    Returns:
        One entry per member.
    """
    leaves = [of_this_process(leaf) for leaf in _floating_leaves(tree)]
    return np.all([np.isfinite(x.reshape(len(x), -1)).all(axis=1) for x in leaves], axis=0)


def of_environments(flags: Bool[np.ndarray, "environments"]) -> str:
    """The indices of flagged environments, as text.

    Args:
        flags: One flag per environment.

    Returns:
        Text such as `" of environments [3]"`.
    """
    environments = np.flatnonzero(flags).tolist()
    more = f" and {len(environments) - 8} more" if len(environments) > 8 else ""
    return f" of environments {environments[:8]}{more}"


def _floating_leaves(tree: PyTree) -> list[jax.Array]:
    """The floating-point arrays, except the best loss of `reduce_on_plateau`, infinite at first."""

    def is_plateau(x: PyTree) -> bool:
        return isinstance(x, ReduceLROnPlateauState)

    def watched(x: PyTree) -> PyTree:
        return x._replace(best_value=None) if is_plateau(x) else x

    return floating(jax.tree.map(watched, tree, is_leaf=is_plateau))


REWARDS = "rewards"
_WATCHED = ("loss", "gradient_norm")

Flags = dict[str, Bool[Array, "environments"]]
"""Whether each environment returned non-finite values, by `"rewards"` and `"observations"`."""

FirstNonfinite = dict[str, Int[Array | np.ndarray, "*environments"]]
"""The first update after which values were non-finite, by name; 0 if there was none.

Losses and gradient norms have one entry, rewards and observations one per environment.
"""


class Report(NamedTuple):
    """Metrics of an update, returned with the new runner.

    Attributes:
        numbers: Scalar metrics of the update, such as losses and gradient norms, by name.
        nonfinite: Whether each environment returned non-finite values, by `"rewards"` and
            `"observations"`; empty for agents that do not act.
    """

    numbers: dict[str, Array]
    nonfinite: Flags = {}  # noqa: RUF012, never changed in place

    def numbers_before(self) -> dict[str, Array]:
        """The metrics before the first update, all NaN; the report may hold shapes."""
        return {name: jnp.full(x.shape, jnp.nan, x.dtype) for name, x in self.numbers.items()}

    def then(self, later: "Report") -> "Report":
        """Merges the reports of two parts of one update.

        Args:
            later: The report of the second part.

        Returns:
            The metrics of both (the second takes precedence), and the flags of either.
        """
        nonfinite = dict(self.nonfinite)
        for name, flags in later.nonfinite.items():
            nonfinite[name] = flags | nonfinite[name] if name in nonfinite else flags
        return Report({**self.numbers, **later.numbers}, nonfinite)


def nonfinite_environments(given: Mapping[str, PyTree[Array]], axis: int = 0) -> Flags:
    """Flags environments that returned non-finite values.

    Args:
        given: Arrays of a step or rollout, by name.
        axis: The axis of environments, such as 1 in a rollout, where axis 0 is time.

    Returns:
        Flags for the floating-point arrays.
    """
    flags = {}
    for name, tree in given.items():
        found = []
        for x in floating(tree):
            others = (*range(axis), *range(axis + 1, x.ndim))
            found.append(~jnp.isfinite(x).all(axis=others))
        if found:
            flags[name] = jnp.stack(found).any(axis=0)
    return flags


def floating(tree: PyTree[Array]) -> list[Array]:
    """The floating-point arrays of a pytree."""
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]


class Record(NamedTuple):
    """The first updates after which values were non-finite, as a carry of the loop over updates.

    Attributes:
        numbers: For each loss and gradient norm, sorted by name.
        environments: For each environment, by `"rewards"` and `"observations"`.
    """

    numbers: Int[Array, "names"]
    environments: dict[str, Int[Array, "environments"]]

    @staticmethod
    def before(report: Report) -> "Record":
        """The record before any update; the report may hold shapes."""
        none = {name: jnp.zeros(x.shape, jnp.int32) for name, x in report.nonfinite.items()}
        return Record(jnp.zeros(len(_watched(report.numbers)), jnp.int32), none)

    def after(self, step: Int[Array, ""], report: Report) -> "Record":
        """The record after another update.

        Args:
            step: The number of the update.
            report: Its report.

        Returns:
            The record.
        """

        def since(first: Array, is_nonfinite: Array) -> Array:
            return jnp.where((first == 0) & is_nonfinite, step, first)

        watched = [jnp.asarray(report.numbers[x], jnp.float32) for x in _watched(report.numbers)]
        numbers = self.numbers
        if watched:
            numbers = since(numbers, ~jnp.isfinite(jnp.stack(watched)))
        environments = {
            name: since(first, report.nonfinite[name]) for name, first in self.environments.items()
        }
        return Record(numbers, environments)

    def by_name(self, numbers: Mapping[str, Array]) -> FirstNonfinite:
        """The record by name, given the reported numbers."""
        names = _watched(numbers)
        return {**self.environments, **{name: self.numbers[i] for i, name in enumerate(names)}}


def in_words(first: FirstNonfinite) -> list[str]:
    """Describes at which updates values became non-finite, the earliest first.

    Args:
        first: The first updates, on the host or on devices.

    Returns:
        A text per update, such as `"12: rewards of environments [3]"`.
    """
    by_update: dict[int, list[str]] = {}
    of_environments_first = (REWARDS, OBSERVATIONS)
    for name in (*of_environments_first, *sorted(first.keys() - {*of_environments_first})):
        updates = _addressable(first.get(name, np.zeros(0, np.int32)))
        for update in np.unique(updates[updates > 0]).tolist():
            text = f"{name}{of_environments(updates == update) if updates.ndim else ''}"
            by_update.setdefault(update, []).append(text)
    return [f"{update}: {', '.join(by_update[update])}" for update in sorted(by_update)]


def _watched(numbers: Mapping[str, PyTree]) -> list[str]:
    """Names of the losses and gradient norms."""
    return sorted(name for name in numbers if name.endswith(_WATCHED))


def _addressable(
    array: Int[Array | np.ndarray, "*environments"],
) -> Int[np.ndarray, "*environments"]:
    """An array, with 0 for the parts that are in other processes."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return np.asarray(array)
    known = np.zeros(array.shape, array.dtype)
    for shard in array.addressable_shards:
        known[shard.index] = np.asarray(shard.data)
    return known


def check_not_taken(what: str, names: Iterable[str], taken: Collection[str], whose: str) -> None:
    """Raises if names are already taken.

    Args:
        what: The start of the message, such as "DQNLearner._loss reports".
        names: The names.
        taken: The taken names.
        whose: The end of the message, such as "which updates already report".

    Raises:
        ValueError: A name is taken.
    """
    both = [name for name in names if name in taken]
    if both:
        raise ValueError(f"{what} {both}, {whose}: rename it.")
