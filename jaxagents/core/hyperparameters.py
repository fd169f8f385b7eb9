"""Hyperparameters: numbers that are only multiplied, added or compared, and so may be traced."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from flax import struct

from jaxagents.core.arrays import is_traced
from jaxagents.core.config import KnownFields

Traced = Any
"""A number or array of numbers, or whatever JAX puts in its place while it transforms a pytree."""


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
    infinite: bool

    def holds(self, values: np.ndarray) -> bool:
        """Whether all values lie in it."""
        inside = (values >= self.low) & (values <= self.high)
        return bool(np.all(inside & (self.infinite | np.isfinite(values))))

    def __str__(self) -> str:
        left = "[" if self.infinite or np.isfinite(self.low) else "("
        right = "]" if self.infinite or np.isfinite(self.high) else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"


def hyperparameter(
    default: Any,
    low: float,
    high: float = float("inf"),
    *,
    infinite: bool = False,
    kw_only: bool = False,
) -> Any:
    """A traced hyperparameter with the interval of values that it may take.

    Args:
        default: Its default.
        low: The smallest value.
        high: The largest.
        infinite: Whether a value may be infinite, such as that of a limit.
        kw_only: Whether it is given by its name only.

    Returns:
        The field.
    """
    metadata = {"interval": Interval(low, high, infinite)}
    return struct.field(default=default, metadata=metadata, kw_only=kw_only)


class Hyperparameters(KnownFields, struct.PyTreeNode):
    """Base of the traced hyperparameters: numbers that are only multiplied, added or compared.

    Every leaf may be an array with a leading axis for `jax.vmap`.
    """

    def check_ranges(self, path: str = "") -> None:
        """Raises if a concrete value lies outside of its interval.

        Args:
            path: Name of these hyperparameters within others.

        Raises:
            TypeError: A value ought to be hyperparameters itself, such as those of an optimizer.
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
            elif isinstance(field.default, Hyperparameters):
                raise _not_nested(name, type(field.default).__name__, value)
            elif "interval" in field.metadata and not is_traced(value):
                _check_interval(name, np.asarray(value), field.metadata["interval"])

    def check_single(self, path: str = "") -> None:
        """Raises if a value is an array, where one training takes one number.

        Args:
            path: Name of these hyperparameters within others.

        Raises:
            ValueError: It is.
        """
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), f"{path}{field.name}"
            if isinstance(value, Hyperparameters):
                value.check_single(f"{name}.")
            elif "interval" in field.metadata and np.ndim(value):
                raise ValueError(
                    f"{name} is an array of shape {np.shape(value)}, but a training takes one number: "
                    "for several trainings at once, use agent.sweep or jax.vmap."
                )


def _check_interval(name: str, values: np.ndarray, interval: Interval) -> None:
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number, got {values}.")
    if not interval.holds(values):
        raise ValueError(f"{name} must lie in {interval}, got {values}.")


def _not_nested(name: str, kind: str, value: object) -> TypeError:
    article = "an" if kind[0] in "AEIOU" else "a"
    given, hint = repr(value), ""
    if isinstance(value, Mapping):
        given, hint = f"a {type(value).__name__}", f": give {kind}(**params)"
    return TypeError(f"{name} must be {article} {kind}, got {given}{hint}.")
