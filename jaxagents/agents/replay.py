"""The contents of an off-policy agent's replay buffer, and its draws: transitions, or sequences."""

import abc
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Key, PyTree

from jaxagents import ops
from jaxagents.core.remembered import Steps, Successors
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.rows import OF_THE_LAST
from jaxagents.learners.learner import Batch

_OF_LARGEST = 0.9
"""The share of the largest error of a sequence in its priority; the rest is the mean."""

_CARRIES = "carries"
"""The key of memories in a replay buffer."""


class Replay(abc.ABC):
    """The entries of transitions that are kept, and how they are drawn.

    Attributes:
        length: Number of rows that are drawn together, following each other in time.
    """

    length: int

    @abc.abstractmethod
    def stored(self, carry: PyTree) -> dict[str, PyTree]:
        """The memory, as transitions hold it.

        Args:
            carry: The memory before each.

        Returns:
            Entries of the transitions.
        """

    @abc.abstractmethod
    def sample_indices(
        self, buffer: DeviceBuffer, key: Key[Array, ""], size: int
    ) -> Int[Array, "..."]:
        """Draws the rows of a batch, uniformly.

        Args:
            buffer: The replay buffer.
            key: Random key.
            size: Number of rows.

        Returns:
            Their numbers.
        """

    @abc.abstractmethod
    def rows_of(self, buffer: DeviceBuffer, drawn: Int[Array, "..."]) -> Int[Array, "..."]:
        """The rows of a batch.

        Args:
            buffer: The replay buffer.
            drawn: Numbers of rows that were drawn by priority, one for every `length` of them.

        Returns:
            Their numbers.
        """

    @abc.abstractmethod
    def weights_of(self, of_drawn: Float[Array, "drawn"], batch: Batch) -> Float[Array, "samples"]:
        """The weights of samples.

        Args:
            of_drawn: Importance weights of what was drawn.
            batch: The batch.

        Returns:
            The weights.
        """

    @abc.abstractmethod
    def errors_of(self, td_errors: Float[Array, "samples"]) -> Float[Array, "drawn"]:
        """The errors that priorities are made of.

        Args:
            td_errors: Those of samples.

        Returns:
            That of each row that was drawn.
        """

    @abc.abstractmethod
    def batch(self, buffer: DeviceBuffer, indices: Int[Array, "..."], gamma: ArrayLike) -> Batch:
        """The rows as the learner is given them.

        Args:
            buffer: The replay buffer.
            indices: Numbers of rows.
            gamma: Discount, of transitions over several steps.

        Returns:
            The batch.
        """


@final
class TransitionReplay(Replay):
    """Of learners that learn from transitions in any order."""

    def __init__(self, n_steps: int) -> None:
        """Takes the largest number of steps of a transition."""
        self.length, self._n_steps = 1, n_steps

    def stored(self, carry: PyTree) -> dict[str, PyTree]:
        """Nothing."""
        return {}

    def sample_indices(
        self, buffer: DeviceBuffer, key: Key[Array, ""], size: int
    ) -> Int[Array, "..."]:
        """Single rows."""
        return buffer.sample_indices(key, size)

    def rows_of(self, buffer: DeviceBuffer, drawn: Int[Array, "..."]) -> Int[Array, "..."]:
        """Those that were drawn."""
        return drawn

    def weights_of(self, of_drawn: Float[Array, "drawn"], batch: Batch) -> Float[Array, "samples"]:
        """Those of what was drawn."""
        return of_drawn

    def errors_of(self, td_errors: Float[Array, "samples"]) -> Float[Array, "drawn"]:
        """Those of samples."""
        return td_errors

    def batch(self, buffer: DeviceBuffer, indices: Int[Array, "..."], gamma: ArrayLike) -> Batch:
        """Transitions over up to so many steps."""
        if self._n_steps == 1:
            return buffer.take(indices)
        return buffer.n_step(indices, self._n_steps, gamma)


@final
class SequenceReplay(Replay):
    """Of learners whose critic has a memory, which learn from sequences.

    Those go on from the memories that the buffer holds, as they were when it was acted by them.

    Kapturowski et al., 2019, "Recurrent experience replay in distributed reinforcement learning".
    """

    def __init__(self, length: int, burn_in: int, n_steps: int) -> None:
        """Takes how many steps a sequence, its burn-in and a target have."""
        self.length, self._burn_in, self._n_steps = length, burn_in, n_steps

    def stored(self, carry: PyTree) -> dict[str, PyTree]:
        """The memory."""
        return {_CARRIES: carry}

    def sample_indices(
        self, buffer: DeviceBuffer, key: Key[Array, ""], size: int
    ) -> Int[Array, "..."]:
        """Rows that follow each other in time."""
        return buffer.sample_sequences(key, size // self.length, self.length)

    def rows_of(self, buffer: DeviceBuffer, drawn: Int[Array, "..."]) -> Int[Array, "..."]:
        """Sequences."""
        return buffer.sequences(drawn, self.length)

    def weights_of(self, of_drawn: Float[Array, "drawn"], batch: Batch) -> Float[Array, "samples"]:
        """Those of their sequences, of which the burn-in counts for nothing."""
        weights = jnp.repeat(of_drawn, self.length)
        return weights * batch["weights"] if self._burn_in else weights

    def errors_of(self, td_errors: Float[Array, "samples"]) -> Float[Array, "drawn"]:
        r"""For each sequence $\eta \max_t |\delta_t| + (1 - \eta) \overline{|\delta|}$, $\eta = 0.9$."""
        errors = td_errors.reshape(-1, self.length)[:, self._burn_in :]
        return _OF_LARGEST * errors.max(axis=1) + (1.0 - _OF_LARGEST) * errors.mean(axis=1)

    def batch(self, buffer: DeviceBuffer, indices: Int[Array, "..."], gamma: ArrayLike) -> Batch:
        """The steps of all sequences, one after another."""
        rows = buffer.take(indices)
        ends, after = rows["ends"], None
        first = jnp.concatenate([jnp.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
        if self._n_steps > 1:
            rows, after = over_several_steps(rows, self._n_steps, gamma)
        rows, first, after = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (rows, first, after)
        )
        steps = Steps(rows.pop(_CARRIES), rows["observations"], first, self.length, self._burn_in)
        successors = Successors(steps, rows["next_observations"], after)
        return {
            **rows,
            "observations": steps,
            "next_observations": successors,
            **self._weights(len(first)),
        }

    def _weights(self, size: int) -> dict[str, Array]:
        """Weights of samples, of which those of the burn-in count for nothing."""
        if not self._burn_in:
            return {}
        counts = jnp.arange(size) % self.length >= self._burn_in
        return {"weights": counts * (self.length / (self.length - self._burn_in))}


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
