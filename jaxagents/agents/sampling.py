"""Sampling: batches drawn from a replay buffer, of single transitions or of sequences of them."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OffPolicyConfig, SequencesConfig
from jaxagents.core.observed import Steps, Successors
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.rows import OF_THE_LAST
from jaxagents.learners.learner import Batch

CARRIES = "carries"
"""The key of memories in a replay buffer."""
_OF_LARGEST = 0.9
"""The share of the largest error of a sequence in its priority; the rest is the mean."""


class Sampling(NamedTuple):
    """How batches are drawn from a replay buffer.

    Learners with a memory learn from sequences, which go on from the memories that the buffer holds, as
    they were when it was acted by them: Kapturowski et al., 2019, "Recurrent experience replay in
    distributed reinforcement learning". Others learn from transitions in any order.

    Attributes:
        n_steps: Number of steps over which rewards are summed.
        sequence_length: Number of steps of a sequence; `None` for transitions.
        burn_in: Number of its first steps from which nothing is learned.
    """

    n_steps: int = 1
    sequence_length: int | None = None
    burn_in: int = 0

    @classmethod
    def of(cls, config: SequencesConfig) -> Self:
        """The replay of an agent's configuration."""
        n_steps = config.n_step_returns if isinstance(config, OffPolicyConfig) else 1
        if not config.has_memory:
            return cls(n_steps)
        return cls(n_steps, config.sequence_length, config.burn_in)

    @property
    def length(self) -> int:
        """Number of rows that are drawn together, following each other in time."""
        return self.sequence_length or 1

    def draw(self, buffer: DeviceBuffer, key: Key[Array, ""], size: int) -> Int[Array, "..."]:
        """The numbers of rows for `size` samples, drawn uniformly."""
        if self.sequence_length is None:
            return buffer.sample_indices(key, size)
        return buffer.sample_sequences(key, size // self.length, self.length)

    def rows_from(self, buffer: DeviceBuffer, drawn: Int[Array, "n"]) -> Int[Array, "..."]:
        """The numbers of all rows of the samples that were drawn by priority."""
        if self.sequence_length is None:
            return drawn
        return buffer.sequences(drawn, self.length)

    def batch(self, buffer: DeviceBuffer, indices: Int[Array, "..."], gamma: ArrayLike) -> Batch:
        """Rows as the learner is given them: transitions, or the steps of all sequences in a row."""
        if self.sequence_length is not None:
            return self.batch_of_sequences(buffer.take(indices), gamma)
        return (
            buffer.take(indices)
            if self.n_steps == 1
            else buffer.n_step(indices, self.n_steps, gamma)
        )

    def sample(
        self, buffer: DeviceBuffer, key: Key[Array, ""], size: int, gamma: ArrayLike
    ) -> Batch:
        """A batch of `size` samples, drawn uniformly."""
        return self.batch(buffer, self.draw(buffer, key, size), gamma)

    def batch_of_sequences(self, rows: dict[str, PyTree], gamma: ArrayLike) -> Batch:
        """The steps of all sequences one after another.

        Args:
            rows: The rows of sequences, shaped `(sequences, length, ...)`.
            gamma: Discount, of transitions over several steps.

        Returns:
            The batch. Steps of the burn-in have a weight of zero.
        """
        ends, after = rows["ends"], None
        first = jnp.concatenate([jnp.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
        if self.n_steps > 1:
            rows, after = over_several_steps(rows, self.n_steps, gamma)
        rows, first, after = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (rows, first, after)
        )
        steps = Steps(rows.pop(CARRIES), rows["observations"], first, self.length, self.burn_in)
        batch = {**rows, "observations": steps}
        if "next_observations" in rows:
            batch["next_observations"] = Successors(steps, rows["next_observations"], after)
        if self.burn_in:
            counts = jnp.arange(len(first)) % self.length >= self.burn_in
            weights = counts * (self.length / (self.length - self.burn_in))
            batch["weights"] = rows.get("weights", 1.0) * weights
        return batch

    def weights_of(self, of_drawn: Float[Array, "drawn"], batch: Batch) -> Float[Array, "samples"]:
        """The weights of samples, from the importance weights of what was drawn."""
        if self.sequence_length is None:
            return of_drawn
        weights = jnp.repeat(of_drawn, self.length)
        return weights * batch["weights"] if self.burn_in else weights

    def errors_of(self, td_errors: Float[Array, "samples"]) -> Float[Array, "drawn"]:
        r"""The errors that priorities are made of, from the errors of samples.

        For each sequence $\eta \max_t |\delta_t| + (1 - \eta) \overline{|\delta|}$, $\eta = 0.9$.
        """
        if self.sequence_length is None:
            return td_errors
        errors = td_errors.reshape(-1, self.length)[:, self.burn_in :]
        return _OF_LARGEST * errors.max(axis=1) + (1.0 - _OF_LARGEST) * errors.mean(axis=1)


def over_several_steps(
    rows: dict[str, PyTree], n: int, gamma: ArrayLike
) -> tuple[dict[str, PyTree], Int[Array, "sequences length"]]:
    """Transitions over up to `n` steps, none of them over the end of an episode or of its sequence.

    Args:
        rows: The rows of sequences, shaped `(sequences, length, ...)`.
        n: Largest number of steps (static).
        gamma: Discount.

    Returns:
        The rows, as `DeviceBuffer.n_step` gives them; and the last step of each, by its place in the
        sequence.
    """
    length = rows["ends"].shape[1]
    steps = jnp.arange(length)
    window = jnp.add.outer(steps, jnp.arange(n))
    is_inside, window = window < length, jnp.minimum(window, length - 1)
    goes_on = ~rows["ends"][:, window[:, :-1]] & is_inside[None, :, 1:]
    rewards, n_steps, discounts = ops.n_step_rewards(rows["rewards"][:, window], goes_on, gamma)
    last = steps[None] + n_steps - 1
    of_last = jax.vmap(lambda x, last: jax.tree.map(lambda x: x[last], x))(
        {name: rows[name] for name in OF_THE_LAST}, last
    )
    return {**rows, **of_last, "rewards": rewards, "discounts": discounts}, last
