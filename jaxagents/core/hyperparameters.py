"""Hyperparameters: numbers that are only multiplied, added or compared, and so may be traced."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from flax import struct
from jaxtyping import ArrayLike

from jaxagents.core.config import HABITS, check_arguments
from jaxagents.core.names import missing_attribute
from jaxagents.core.numbers import Interval
from jaxagents.core.schedules import (
    FunctionSchedule,
    Schedule,
    Traced,
    check_one_number,
    check_value,
    values_at,
)

__all__ = ["Hyperparameters", "Traced", "hyperparameter"]


def hyperparameter(
    default: Any,
    low: float,
    high: float = float("inf"),
    *,
    infinite: bool = False,
    kw_only: bool = False,
    constant: bool = False,
) -> Any:
    """A traced hyperparameter with the interval of values that it may take.

    Args:
        default: Its default.
        low: The smallest value.
        high: The largest.
        infinite: Whether a value may be infinite, such as a limit.
        kw_only: Whether it is given by its name only.
        constant: Whether it stays the same throughout a training, and so may not be a schedule.

    Returns:
        The field.
    """
    metadata = {"interval": Interval(low, high, infinite), "constant": constant}
    return struct.field(default=default, metadata=metadata, kw_only=kw_only)


class Hyperparameters(struct.PyTreeNode):
    """Base of the traced hyperparameters: numbers that are only multiplied, added or compared.

    Every leaf may be an array with a leading axis for `jax.vmap`. In the place of a number there may be
    a [`Schedule`][jaxagents.Schedule], or a function of the update step.
    """

    def __new__(cls, *args: Any, **kwargs: Any):
        """Refuses misspelt names, naming the nearest field."""
        check_arguments(cls, kwargs)
        return super().__new__(cls)

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, HABITS)

    def __post_init__(self) -> None:
        """Makes schedules of functions."""
        for field in dataclasses.fields(self):
            value: Any = getattr(self, field.name)
            is_number = not isinstance(field.default, Hyperparameters)
            is_number &= field.metadata.get("pytree_node", True)
            if is_number and not isinstance(value, Schedule) and callable(value):
                object.__setattr__(self, field.name, FunctionSchedule(cast(Any, value)))

    def at(self, update_step: ArrayLike) -> Self:
        """The hyperparameters of one update: numbers in place of schedules.

        Args:
            update_step: Number of update steps made before.

        Returns:
            The hyperparameters.
        """
        return values_at(self, update_step)

    @property
    def of_environment(self) -> Mapping[str, Traced]:
        """The parameters of an environment among them, by name."""
        return {}

    def check_ranges(self, path: str = "") -> None:
        """Raises if a concrete value lies outside of its interval.

        Args:
            path: Name of these hyperparameters within others.

        Raises:
            TypeError: A value ought to be hyperparameters itself, such as an optimizer's.
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
            elif isinstance(field.default, Hyperparameters) and not isinstance(value, list | tuple):
                raise _not_nested(name, type(field.default).__name__, value)
            elif isinstance(value, Schedule) and field.metadata.get("constant"):
                raise ValueError(
                    f"{name} stays the same throughout a training: give a number, not a "
                    f"{type(value).__name__}."
                )
            else:
                check_value(name, value, field.metadata.get("interval"))

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
            elif "interval" in field.metadata or isinstance(value, Schedule):
                check_one_number(name, value)


def _not_nested(name: str, kind: str, value: object) -> TypeError:
    article = "an" if kind[0] in "AEIOU" else "a"
    given, hint = repr(value), ""
    if isinstance(value, Mapping):
        given, hint = f"a {type(value).__name__}", f": give {kind}(**params)"
    return TypeError(f"{name} must be {article} {kind}, got {given}{hint}.")
