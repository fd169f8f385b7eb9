"""The normalisation of arrays of a dataset."""

from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

_SMALLEST_STD = 1e-6
_NUMBERS_AT_ONCE = 2**16


class Normalisation(NamedTuple):
    """An affine map to zero mean and unit standard deviation.

    Attributes:
        mean: Mean of each component.
        std: Standard deviation of each component; 1 for a component that is constant (less than 1e-6).
    """

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray) -> "Normalisation":
        """The statistics of an array over its first axis.

        Args:
            array: Samples first.

        Returns:
            The map that normalises it, in the precision that the array has, and no less than single.
        """
        precision = np.promote_types(array.dtype, np.float32)
        mean = array.mean(axis=0, dtype=np.float64)
        std = _std(array, mean)
        constant = std < _SMALLEST_STD
        return cls(mean.astype(precision), np.where(constant, 1.0, std).astype(precision))

    def __call__(self, x: PyTree) -> PyTree:
        """Normalises an array."""
        centred = x - self.mean
        centred /= self.std
        return centred

    def inverse(self, x: PyTree) -> PyTree:
        """Undoes the normalisation."""
        return x * self.std + self.mean


def _std(array: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Standard deviation over the first axis, a few rows at a time to save memory."""
    n_rows = max(1, _NUMBERS_AT_ONCE // max(1, mean.size))
    squares = np.zeros_like(mean)
    for start in range(0, len(array), n_rows):
        squares += np.square(array[start : start + n_rows] - mean).sum(axis=0)
    return np.sqrt(squares / len(array))
