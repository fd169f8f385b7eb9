"""Checks of the numbers and flags that users give."""

import operator
from typing import SupportsIndex


def positive(name: str, value: SupportsIndex) -> int:
    """A positive integer.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is not positive.
    """
    if _integer(name, value) < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return operator.index(value)


def not_negative(name: str, value: SupportsIndex) -> int:
    """An integer that is 0 or more.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is negative.
    """
    if _integer(name, value) < 0:
        raise ValueError(f"{name} must be an integer of 0 or more, got {value!r}.")
    return operator.index(value)


def seed(name: str, value: int) -> int:
    """A seed of random keys that has a key of its own: JAX keeps the last 32 bits of each.

    Raises:
        TypeError: It is not an integer.
        ValueError: It has more than 32 bits.
    """
    if not -(2**31) <= _integer(name, value) < 2**32:
        raise ValueError(
            f"{name} must be an integer of 32 bits, such as 0 to {2**32 - 1}, got {value}."
        )
    return operator.index(value)


def flag(name: str, value: bool) -> bool:
    """True or false.

    Raises:
        TypeError: It is something else, such as a text, which would count as true.
    """
    import numpy as np  # the command line checks its options without it

    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def _integer(name: str, value: SupportsIndex) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__}).")
    return operator.index(value)


def multiples_near(number: int, divisor: int) -> str:
    """The positive multiples of `divisor` around a number that is not one, for the end of a message."""
    below = number // divisor * divisor
    nearby = [str(multiple) for multiple in (below, below + divisor) if multiple > 0]
    return f"{' or '.join(nearby)} would do"
