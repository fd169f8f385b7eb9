"""Intervals of numbers that hyperparameters may lie in."""

import dataclasses

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import is_traced


@dataclasses.dataclass(frozen=True)
class Interval:
    """The values that a hyperparameter may take.

    Attributes:
        low: The smallest.
        high: The largest.
        infinite: Whether a value may be infinite.
    """

    low: float
    high: float
    infinite: bool = False

    def holds(self, values: np.ndarray) -> bool:
        """Whether all values lie in it."""
        inside = (values >= self.low) & (values <= self.high)
        return bool(np.all(inside & (self.infinite | np.isfinite(values))))

    def check(self, name: str, given: PyTree) -> None:
        """Raises if a concrete value is not in it.

        Args:
            name: Name of what was given.
            given: A number, or an array of them.

        Raises:
            ValueError: A value is not a number, or out of the interval.
        """
        if is_traced(given):
            return
        values = np.asarray(given)
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be a number, got {values}.")
        if not self.holds(values):
            raise ValueError(f"{name} must lie in {self}, got {values}.")

    def __str__(self) -> str:
        left = "[" if self.infinite or np.isfinite(self.low) else "("
        right = "]" if self.infinite or np.isfinite(self.high) else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"
