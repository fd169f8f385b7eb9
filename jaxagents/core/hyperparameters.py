"""Hyperparameters: numbers that are only multiplied, added or compared, and so may be traced."""

import dataclasses
from typing import Any

import numpy as np
from flax import struct

from jaxagents.core.arrays import is_traced
from jaxagents.core.config import KnownFields

Traced = Any
"""A number or array of numbers, or whatever JAX puts in its place while it transforms a pytree."""


def hyperparameter(
    default: Any, low: float, high: float = float("inf"), *, kw_only: bool = False
) -> Any:
    """A traced hyperparameter with the closed interval of values that it may take."""
    return struct.field(default=default, metadata={"interval": (low, high)}, kw_only=kw_only)


class Hyperparameters(KnownFields, struct.PyTreeNode):
    """Base of the traced hyperparameters: numbers that are only multiplied, added or compared.

    Every leaf may be an array with a leading axis for `jax.vmap`.
    """

    def check_ranges(self, path: str = "") -> None:
        """Raises if a concrete value lies outside of its interval.

        Raises:
            ValueError: A value is not a number, or out of its interval.
        """
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), f"{path}{field.name}"
            if value is None and field.default is None:
                continue
            if isinstance(value, str):
                raise ValueError(f"{name} must be a number, got {value!r}.")
            if isinstance(value, Hyperparameters):
                value.check_ranges(f"{name}.")
            elif "interval" in field.metadata and not is_traced(value):
                low, high = field.metadata["interval"]
                values = np.asarray(value)
                if values.dtype.kind not in "iuf":
                    raise ValueError(f"{name} must be a number, got {value!r}.")
                if not np.all((values >= low) & (values <= high)):
                    raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {value}.")
