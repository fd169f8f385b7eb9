"""Sampling batches of transitions or sequences from a replay buffer."""

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
"""Key of the memories in a replay buffer."""
_MAX_WEIGHT = 0.9
"""Weight of the largest error in the priority of a sequence; the mean error has the rest."""


class Sampling(NamedTuple):
    """How batches are sampled from a replay buffer.

    Learners with a memory learn from sequences. Each starts from the memory stored when its first step
    was taken: Kapturowski et al., 2019, "Recurrent experience replay in distributed reinforcement
    learning". Others learn from transitions in any order.

    Attributes:
        n_steps: Number of steps whose rewards are summed.
        sequence_length: Number of steps per sequence; `None` for transitions.
        burn_in: Number of steps at the start of a sequence that do not contribute to the loss.
    """

    n_steps: int = 1
    sequence_length: int | None = None
    burn_in: int = 0

    @classmethod
    def of(cls, config: SequencesConfig) -> Self:
        """The sampling that a configuration asks for."""
        n_steps = config.n_step_returns if isinstance(config, OffPolicyConfig) else 1
        if not config.has_memory:
            return cls(n_steps)
        return cls(n_steps, config.sequence_length, config.burn_in)

    @property
    def length(self) -> int:
        """Number of consecutive rows per sample."""
        return self.sequence_length or 1

    def draw(self, buffer: DeviceBuffer, key: Key[Array, ""], size: int) -> Int[Array, "..."]:
        """Row indices of uniformly sampled transitions or sequences, `size` steps in total."""
        if self.sequence_length is None:
            return buffer.sample_indices(key, size)
        return buffer.sample_sequences(key, size // self.length, self.length)

    def rows_from(self, buffer: DeviceBuffer, drawn: Int[Array, "n"]) -> Int[Array, "..."]:
        """Row indices of all steps of samples that were drawn by priority."""
        if self.sequence_length is None:
            return drawn
        return buffer.sequences(drawn, self.length)

    def batch(self, buffer: DeviceBuffer, indices: Int[Array, "..."], gamma: ArrayLike) -> Batch:
        """Rows as a batch for the learner: transitions, or the concatenated steps of sequences."""
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
        """A uniformly sampled batch of `size` steps."""
        return self.batch(buffer, self.draw(buffer, key, size), gamma)

    def batch_of_sequences(self, rows: dict[str, PyTree], gamma: ArrayLike) -> Batch:
        """A batch of the concatenated steps of sequences.

        Args:
            rows: The rows of sequences, shaped `(sequences, length, ...)`.
            gamma: Discount for n-step returns.

        Returns:
            The batch. Burn-in steps have weight zero.
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
        """Weights of the steps, from the importance weights of the drawn samples."""
        if self.sequence_length is None:
            return of_drawn
        weights = jnp.repeat(of_drawn, self.length)
        return weights * batch["weights"] if self.burn_in else weights

    def errors_of(self, td_errors: Float[Array, "samples"]) -> Float[Array, "drawn"]:
        r"""Errors of the drawn samples, for their priorities, from the errors of the steps.

        For each sequence $\eta \max_t |\delta_t| + (1 - \eta) \overline{|\delta|}$, $\eta = 0.9$.
        """
        if self.sequence_length is None:
            return td_errors
        errors = td_errors.reshape(-1, self.length)[:, self.burn_in :]
        return _MAX_WEIGHT * errors.max(axis=1) + (1.0 - _MAX_WEIGHT) * errors.mean(axis=1)


def over_several_steps(
    rows: dict[str, PyTree], n: int, gamma: ArrayLike
) -> tuple[dict[str, PyTree], Int[Array, "sequences length"]]:
    """Transitions over up to `n` steps, cut at the end of an episode or sequence.

    Args:
        rows: The rows of sequences, shaped `(sequences, length, ...)`.
        n: Maximum number of steps (static).
        gamma: Discount.

    Returns:
        The rows, as in `DeviceBuffer.n_step`, and the index of each transition's last step in its
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
