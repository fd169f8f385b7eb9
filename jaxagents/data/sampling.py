"""Drawing rows at random."""

import json
from abc import abstractmethod

import numpy as np
from jaxtyping import PyTree

from jaxagents.data import rows


class Sampled:
    """Rows of named arrays that are drawn uniformly, with replacement."""

    _flat: dict[str, PyTree]
    _rng: np.random.Generator

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    def sample(self, batch_size: int, indx: PyTree = None) -> rows.Arrays:
        """Copies rows drawn uniformly, with replacement.

        Args:
            batch_size: Number of rows.
            indx: The rows to take instead: `batch_size` numbers; an array of numbers shaped
                `(..., batch_size)`, for several batches; or a boolean for each row, of which
                `batch_size` are true.

        Returns:
            A nested dict of arrays with `batch_size` rows, or shaped as `indx` on their first axes.

        Raises:
            ValueError: There are no rows yet, `batch_size` is not positive, or `indx` chooses another
                number of rows or is a scalar.
            IndexError: A number is out of range, or there is not one boolean for each row.
            TypeError: `indx` is neither made of whole numbers nor of booleans.
        """
        if indx is None:
            return rows.take(self._flat, self._draw(batch_size=batch_size))
        return rows.take(self._flat, _check_indices(indx, batch_size, len(self)))

    def sample_many(self, n_batches: int, batch_size: int) -> rows.Arrays:
        """Copies the rows of several batches, those that as many calls of `sample` would give.

        Args:
            n_batches: Number of batches.
            batch_size: Number of rows of each.

        Returns:
            A nested dict of arrays shaped `(n_batches, batch_size, ...)`.

        Raises:
            ValueError: There are no rows yet, or a number is not positive.
        """
        return rows.take(self._flat, self._draw(n_batches=n_batches, batch_size=batch_size))

    def rng_state(self) -> np.ndarray:
        """The state of the sampling, from which the same rows are drawn again.

        Returns:
            Bytes, for [`set_rng_state`][jaxagents.data.ReplayBuffer.set_rng_state].
        """
        return np.frombuffer(json.dumps(self._rng.bit_generator.state).encode(), np.uint8)

    def set_rng_state(self, state: PyTree) -> None:
        """Goes on sampling from a saved state.

        Args:
            state: State from [`rng_state`][jaxagents.data.ReplayBuffer.rng_state].
        """
        self._rng.bit_generator.state = json.loads(np.asarray(state).tobytes())

    def _draw(self, **sizes: int) -> np.ndarray:
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be positive, got {size}.")
        if len(self) == 0:
            raise ValueError("There is nothing to sample from yet.")
        return self._rng.integers(len(self), size=tuple(sizes.values()))


def _check_indices(indx: PyTree, batch_size: int, n_rows: int) -> np.ndarray:
    indices = rows.chosen(indx, n_rows)
    if indices.shape[-1] != batch_size:
        raise ValueError(f"indx chooses {indices.shape[-1]} rows, but batch_size is {batch_size}.")
    if indices.size and not (indices.min() >= 0 and indices.max() < n_rows):
        raise IndexError(
            f"Indices must lie in [0, {n_rows}), got {indices.min()} to {indices.max()}."
        )
    return indices
