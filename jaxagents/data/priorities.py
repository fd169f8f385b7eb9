"""Sampling proportional to priorities."""

import itertools

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, ArrayLike, Float, Int, Key

FAN_OUT = 16
"""Number of children per node."""

_LARGEST_SUM = 1e38


class PriorityTree(struct.PyTreeNode):
    """A sum tree of priorities.

    Where priorities change, sums are recomputed rather than updated, so that they do not drift.

    Schaul et al., 2016, "Prioritized experience replay", with more children per node.

    Attributes:
        levels: The priorities, followed by the sums of each level, padded with zeros.
        largest: The largest priority so far, at least 1.
    """

    levels: tuple[Float[Array, "n_nodes"], ...]
    largest: Float[Array, ""]

    @classmethod
    def create(cls, n_items: int) -> "PriorityTree":
        """Creates a tree in which all priorities are zero.

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
        """Sets the priorities of items.

        Args:
            indices: Indices of the items. A repeated index gets one of its priorities.
            priorities: New priorities. Negative ones and NaN count as zero, and large ones are clipped
                so that no sum can overflow.

        Returns:
            The updated tree.
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
        """Sets consecutive items to one priority, which must not exceed `largest`.

        Args:
            first: Index of the first item.
            n: Number of items.
            priority: New priority, such as `largest`.

        Returns:
            The updated tree.
        """
        leaves, *sums = self.levels
        priorities = jnp.full(n, self._after_reading(priority))
        levels = [jax.lax.dynamic_update_slice(leaves, priorities, (first,))]
        for parents in sums:
            n_blocks = len(levels[-1]) // FAN_OUT
            n = min((n + FAN_OUT - 2) // FAN_OUT + 1, n_blocks)  # most blocks that they can touch
            first = jnp.minimum(first // FAN_OUT, n_blocks - n)
            children = jax.lax.dynamic_slice(levels[-1], (first * FAN_OUT,), (n * FAN_OUT,))
            new = children.reshape(n, FAN_OUT).sum(axis=-1)
            levels.append(jax.lax.dynamic_update_slice(parents, new, (first,)))
        return self.replace(levels=tuple(levels))

    def sample(self, key: Key[Array, ""], n: int) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
        """Draws items with replacement, with probabilities proportional to their priorities.

        Each level uses a new random number, since a single one has too few digits for many items. If all
        priorities are zero, every draw is item 0, with probability NaN.

        Args:
            key: Random key.
            n: Number of items to draw.

        Returns:
            Their indices and their probabilities.
        """
        fractions = jax.random.uniform(key, (len(self.levels), n), jnp.float32)
        indices = jnp.zeros(n, jnp.int32)
        for level, fraction in zip(reversed(self.levels), fractions, strict=True):
            children = level.reshape(-1, FAN_OUT)[indices]
            indices = indices * FAN_OUT + _choose_child(children, fraction)
        probabilities = self.levels[0][indices] / self._total
        return jnp.where(probabilities > 0.0, indices, 0), probabilities  # see _after_reading

    @property
    def _total(self) -> Float[Array, ""]:
        return self.levels[-1].sum()

    def _after_reading(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Makes values depend on all sums.

        XLA copies an array before writing to it, unless dependencies show that nothing reads it later.
        """
        return jnp.where(self._total >= 0.0, values, jnp.nan)


def importance_weights(probabilities: Float[Array, "n"], exponent: ArrayLike) -> Float[Array, "n"]:
    r"""Weights that correct for non-uniform sampling.

    $$w_i = \frac{(N P_i)^{-\beta}}{\max_j (N P_j)^{-\beta}}
          = \left(\frac{\min_j P_j}{P_i}\right)^{\beta}$$

    The number $N$ of stored rows cancels out.

    Schaul et al., 2016, "Prioritized experience replay", section 3.4.

    Args:
        probabilities: $P_i$ of each row of the batch.
        exponent: $\beta$, from 0 (no correction) to 1 (full).

    Returns:
        The weights, at most 1.
    """
    return (jnp.min(probabilities) / probabilities) ** exponent


def _choose_child(
    priorities: Float[Array, "n fan_out"], fraction: Float[Array, "n"]
) -> Int[Array, "n"]:
    """The first child at which the running sum exceeds a fraction, below 1, of the total.

    Whatever the rounding, that child has a positive priority: the others do not change the sum.
    """
    *sums, whole = itertools.accumulate(priorities.T)
    return (jnp.stack(sums) <= (fraction * whole)[None]).sum(axis=0, dtype=jnp.int32)
