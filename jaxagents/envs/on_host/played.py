"""How far episodes have come that are being played on the host."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PyTree, UInt32


class Played(NamedTuple):
    """The episodes that are being played, one in each environment, as far as they have come.

    Attributes:
        seed: Seed of all episodes of the environment.
        number: Number of the episode.
        actions: The actions taken in it, and whatever else after them.
        step: Number of steps taken in it.
    """

    seed: UInt32[np.ndarray, "environments"]
    number: Int[np.ndarray, "environments"]
    actions: PyTree
    step: Int[np.ndarray, "environments"]

    def is_same(self, other: "Played") -> bool:
        """Whether the same steps were taken in the same episodes."""
        times = (self.seed, other.seed), (self.number, other.number), (self.step, other.step)
        if not all(np.array_equal(one, another) for one, another in times):
            return False
        taken = jax.tree.map(self._same_so_far, self.actions, other.actions)
        return all(jax.tree.leaves(taken))

    def _same_so_far(self, actions: np.ndarray, others: np.ndarray) -> bool:
        longest = min(actions.shape[1], int(self.step.max(initial=0)))
        past = np.arange(longest) < self.step[:, None]
        return np.array_equal(actions[:, :longest][past], others[:, :longest][past])
