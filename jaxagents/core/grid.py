"""The members of a sweep: every seed with every set of hyperparameters."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from jaxagents.core.arrays import leaves_by_name
from jaxagents.core.describe import to_json
from jaxagents.core.hyperparameters import is_schedule


class Grid(NamedTuple):
    """Every seed with every set of hyperparameters.

    Attributes:
        seeds: Random keys, one per seed.
        sets: Hyperparameters, with one number per set in each leaf.
        n_sets: Number of sets.
    """

    seeds: Key[Array, "n_seeds"]
    sets: PyTree
    n_sets: int

    @staticmethod
    def of(rngs: Key[Array, "n_seeds"], hyperparams: PyTree) -> "Grid":
        """Creates the grid of seeds and sets.

        Args:
            rngs: Random keys.
            hyperparams: Hyperparameters whose array leaves share a leading axis of sets.

        Returns:
            The grid.

        Raises:
            ValueError: There are no seeds or no sets, or the leading axes do not match.
        """
        if rngs.ndim != 1:
            raise ValueError(
                f"rngs must be keys with one leading axis of seeds, got shape {rngs.shape}: make them "
                "with jax.random.split(key, 4)."
            )
        if not len(rngs):
            raise ValueError("There are no seeds: make some with jax.random.split(key, 4).")
        n_sets = _number_of_sets(hyperparams)
        sets = jax.tree.map(
            lambda x: np.broadcast_to(np.asarray(x, np.float32), n_sets), hyperparams
        )
        return Grid(rngs, sets, n_sets)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of sets and of seeds."""
        return self.n_sets, len(self.seeds)

    @property
    def n_members(self) -> int:
        """Number of runs."""
        return self.n_sets * len(self.seeds)

    @property
    def member_keys(self) -> Key[Array, "members"]:
        """The random key of each member: all seeds of the first set, then of the next."""
        return jnp.tile(self.seeds, self.n_sets)

    @property
    def member_sets(self) -> PyTree:
        """The hyperparameters of each member, in the same order."""
        return jax.tree.map(lambda x: np.repeat(x, len(self.seeds)), self.sets)

    def notes(self) -> dict[str, Any]:
        """The keys and hyperparameters of all members, as JSON."""
        numbers = {name: to_json(x) for name, x in leaves_by_name(self.sets, ".").items()}
        kinds = {
            f"{name}.schedule": type(x).__name__
            for name, x in leaves_by_name(self.sets, ".", is_schedule).items()
            if is_schedule(x)
        }
        return {"seeds": to_json(self.seeds), "n_sets": self.n_sets, "sets": numbers | kinds}

    def difference(self, notes: Mapping[str, Any]) -> str | None:
        """How another grid differs from this one, as text.

        Args:
            notes: The notes of the other grid.

        Returns:
            The first difference; `None` if there is none.
        """
        own = self.notes()
        if len(notes["seeds"]) != len(own["seeds"]):
            return f"it has {len(notes['seeds'])} seeds, this one has {len(own['seeds'])}"
        if notes["n_sets"] != own["n_sets"]:
            return f"it has {notes['n_sets']} sets of hyperparameters, this one has {own['n_sets']}"
        for seed, (its, key) in enumerate(zip(notes["seeds"], own["seeds"], strict=True)):
            if its != key:
                return f"its random key of seed {seed} is {its}, and this one's {key}"
        for name in {**notes["sets"], **own["sets"]}:
            its, number = notes["sets"].get(name), own["sets"].get(name)
            if its != number:
                return f"its {name} is {its}, and this one's {number}"
        return None


def _number_of_sets(hyperparams: PyTree) -> int:
    sizes = {np.shape(x) for x in jax.tree.leaves(hyperparams) if np.ndim(x)}
    if not sizes:
        return 1
    if len(sizes) > 1 or len(next(iter(sizes))) != 1:
        raise ValueError(
            "The arrays in hyperparams must share one leading axis, of sets of "
            f"hyperparameters, got shapes {sorted(sizes)}."
        )
    (n_sets,) = next(iter(sizes))
    if n_sets == 0:
        raise ValueError("There are no sets of hyperparameters: the arrays have shape (0,).")
    return n_sets
