"""Sampling in proportion to priorities."""

import itertools

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, ArrayLike, Float, Int, Key

FAN_OUT = 16
"""Children of a node."""

_LARGEST_SUM = 1e38


class PriorityTree(struct.PyTreeNode):
    """Priorities of numbered items, and their sums in blocks, in blocks of blocks, and so on.

    Sums are computed anew where priorities change instead of being added to, so that they do not drift.

    Schaul et al., 2016, "Prioritized experience replay", with more children per node.

    Attributes:
        levels: The priorities, and sums of ever larger blocks; zero where there is nothing.
        largest: The largest priority so far, 1 or more.
    """

    levels: tuple[Float[Array, "n_nodes"], ...]
    largest: Float[Array, ""]

    @classmethod
    def create(cls, n_items: int) -> "PriorityTree":
        """A tree of items without priority.

        Args:
            n_items: Number of items.

        Returns:
            The tree.
        """
        n_blocks = [-(-n_items // FAN_OUT)]
        while n_blocks[-1] > 1:
            n_blocks.append(-(-n_blocks[-1] // FAN_OUT))
        levels = tuple(jnp.zeros(n * FAN_OUT, jnp.float32) for n in n_blocks)
        return cls(levels, jnp.ones((), jnp.float32))

    def set(self, indices: Int[Array, "n"], priorities: Float[Array, "n"]) -> "PriorityTree":
        """Gives priorities to items.

        Args:
            indices: Numbers of the items. One that occurs twice gets either of its priorities.
            priorities: Their priorities. Negative ones and NaN count as zero, and those so large that a
                sum might overflow as the largest with which none can.

        Returns:
            The tree.
        """
        leaves, *sums = self.levels
        priorities = jnp.asarray(priorities, leaves.dtype)
        priorities = jnp.where(priorities > 0.0, priorities, 0.0)
        priorities = jnp.minimum(priorities, _LARGEST_SUM / len(leaves))
        levels = [leaves.at[indices].set(self._after_reading(priorities))]
        for parents in sums:
            indices = indices // FAN_OUT
            children = levels[-1].reshape(-1, FAN_OUT)[indices]
            levels.append(parents.at[indices].set(children.sum(axis=-1)))
        largest = jnp.maximum(self.largest, jnp.max(priorities))
        return self.replace(levels=tuple(levels), largest=largest)

    def set_block(
        self, first: Int[Array, ""], n: int, priority: Float[Array, ""]
    ) -> "PriorityTree":
        """Gives one priority, which is not above the largest so far, to items that follow each other.

        Args:
            first: Number of the first.
            n: Number of items.
            priority: Their priority, such as `largest`.

        Returns:
            The tree.
        """
        leaves, *sums = self.levels
        priorities = jnp.full(n, self._after_reading(priority))
        levels = [jax.lax.dynamic_update_slice(leaves, priorities, (first,))]
        for parents in sums:
            n_blocks = len(levels[-1]) // FAN_OUT
            n = min((n + FAN_OUT - 2) // FAN_OUT + 1, n_blocks)  # most blocks they may lie in
            first = jnp.minimum(first // FAN_OUT, n_blocks - n)
            children = jax.lax.dynamic_slice(levels[-1], (first * FAN_OUT,), (n * FAN_OUT,))
            new = children.reshape(n, FAN_OUT).sum(axis=-1)
            levels.append(jax.lax.dynamic_update_slice(parents, new, (first,)))
        return self.replace(levels=tuple(levels))

    def sample(self, key: Key[Array, ""], n: int) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
        """Draws items with probabilities in proportion to their priorities, with replacement.

        Each level takes a new random number, since one alone has too few digits for many items. If all
        priorities are zero, it is the first item each time, and its probability is not a number.

        Args:
            key: Random key.
            n: Number of items to draw.

        Returns:
            Their numbers and their probabilities.
        """
        fractions = jax.random.uniform(key, (len(self.levels), n), jnp.float32)
        indices = jnp.zeros(n, jnp.int32)
        for level, fraction in zip(reversed(self.levels), fractions, strict=True):
            children = level.reshape(-1, FAN_OUT)[indices]
            indices = indices * FAN_OUT + _chosen(children, fraction)
        probabilities = self.levels[0][indices] / self._total
        return jnp.where(probabilities > 0.0, indices, 0), probabilities  # see _after_reading

    @property
    def _total(self) -> Float[Array, ""]:
        return self.levels[-1].sum()

    def _after_reading(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The values, made to depend on all sums.

        XLA copies an array before writing to it, unless the dependencies of the program show that all
        reading of it is done.
        """
        return jnp.where(self._total >= 0.0, values, jnp.nan)


def importance_weights(probabilities: Float[Array, "n"], exponent: ArrayLike) -> Float[Array, "n"]:
    r"""Weights that correct for the probabilities with which a batch was drawn.

    $$w_i = \frac{(N P_i)^{-\beta}}{\max_j (N P_j)^{-\beta}}
          = \left(\frac{\min_j P_j}{P_i}\right)^{\beta}$$

    The number $N$ of rows held cancels out.

    Schaul et al., 2016, "Prioritized experience replay", section 3.4.

    Args:
        probabilities: $P_i$ of each row of the batch.
        exponent: $\beta$, from 0 (no correction) to 1 (full).

    Returns:
        The weights, at most 1.
    """
    return (jnp.min(probabilities) / probabilities) ** exponent


def _chosen(priorities: Float[Array, "n fan_out"], fraction: Float[Array, "n"]) -> Int[Array, "n"]:
    """The first child at which the running sum exceeds a fraction, below 1, of the total.

    However sums are rounded, it can only be a child with a priority: the others leave the sum as it is.
    """
    *sums, whole = itertools.accumulate(priorities.T)
    return (jnp.stack(sums) <= (fraction * whole)[None]).sum(axis=0, dtype=jnp.int32)
