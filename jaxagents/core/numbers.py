"""Checks of numbers and flags."""

import math
import operator
from collections.abc import Collection, Mapping
from typing import Any, SupportsIndex

OTHER_NAMES = {"n_updates": "n_steps", "n_envs": "batch_size", "total_timesteps": "n_steps"}
"""Other names that configurations of agents accept, and the fields that they set."""


def positive(name: str, value: SupportsIndex) -> int:
    """Checks a positive integer.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is not positive.
    """
    if _integer(name, value) < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return operator.index(value)


def not_negative(name: str, value: SupportsIndex) -> int:
    """Checks a non-negative integer.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is negative.
    """
    if _integer(name, value) < 0:
        raise ValueError(f"{name} must be an integer of 0 or more, got {value!r}.")
    return operator.index(value)


def seed(name: str, value: int) -> int:
    """Checks the seed of a random key, which has 32 bits: JAX would ignore more.

    Raises:
        TypeError: It is not an integer.
        ValueError: It has more than 32 bits.
    """
    if not -(2**31) <= _integer(name, value) < 2**32:
        raise ValueError(
            f"{name} must be an integer of 32 bits, such as 0 to {2**32 - 1}, got {value}."
        )
    return operator.index(value)


def share(name: str, value: float) -> float:
    """Checks a number in [0, 1).

    Raises:
        ValueError: It is out of this range.
    """
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must lie in [0, 1), got {value}.")
    return value


def flag(name: str, value: bool) -> bool:
    """Checks a boolean.

    Raises:
        TypeError: It is not a boolean, but for example a string, which would count as true.
    """
    import numpy as np  # the command line checks its options without it

    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def _integer(name: str, value: SupportsIndex) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        is_whole = isinstance(value, float) and value.is_integer()
        hint = f": give {int(value)}" if is_whole else ""
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__}){hint}.")
    return operator.index(value)


def multiples_near(number: int, divisor: int) -> str:
    """The positive multiples of `divisor` around another number, for the end of a message."""
    below = number // divisor * divisor
    nearby = [str(multiple) for multiple in (below, below + divisor) if multiple > 0]
    return f"{' or '.join(nearby)} would do"


def check_divides(name: str, number: int, total: int, what: str) -> None:
    """Raises unless a number divides another one.

    Args:
        name: Name of the number.
        number: The number, positive.
        total: The number to divide.
        what: Name of `total`.

    Raises:
        ValueError: It does not; the error lists the nearest numbers that do.
    """
    if total % number:
        divisors = [n for n in range(1, total + 1) if total % n == 0]
        near = sorted(sorted(divisors, key=lambda n: abs(n - number))[:12])
        raise ValueError(
            f"{name} must divide {what}: {total} is not a multiple of {number}. Values of "
            f"{name.rpartition('.')[2]} that work: {', '.join(map(str, near))}."
        )


def check_multiple(name: str, number: int, divisor: int, what: str) -> None:
    """Raises unless a number is a multiple of another one.

    Args:
        name: Name of the number.
        number: The number.
        divisor: The number that must divide it.
        what: Name of `divisor`.

    Raises:
        ValueError: It is not; the error lists the nearest multiples.
    """
    if number % divisor:
        near = multiples_near(number, divisor)
        raise ValueError(f"{name} must be a multiple of {what}, got {number}; {near}.")


def counted(number: int, what: str) -> str:
    """A number of things, such as `1 update` or `2,048 updates`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def by_own_names(
    owner: str, given: Mapping[str, Any], others: Collection[str], of_update: Mapping[str, Any]
) -> dict[str, Any]:
    """Translates other names of a configuration's fields.

    Args:
        owner: The configuration's name.
        given: Values by field name or other name.
        others: The names in `OTHER_NAMES` that it accepts.
        of_update: Its `batch_size` and `rollout_length`, used unless `given` has them.

    Returns:
        Values by field name.

    Raises:
        TypeError: A number is not an integer.
        ValueError: A number is not positive, or values contradict each other.
    """
    fields, said = dict(given), {name: f"{name}={value!r}" for name, value in given.items()}
    for other in sorted(fields.keys() & set(others)):  # total_timesteps, which needs the rest, last
        own, number = OTHER_NAMES[other], positive(f"{owner}.{other}", fields.pop(other))
        meaning = said[other]
        if other == "total_timesteps":
            sizes = [positive(f"{owner}.{x}", {**of_update, **fields}[x]) for x in of_update]
            steps = math.prod(sizes)
            number = -(-number // steps)
            meaning += f", which is {counted(number, 'update')} of {counted(steps, 'step')}"
        if own in fields and fields[own] != number:
            raise ValueError(f"{owner}.{said[own]} contradicts {meaning}. Give one of them.")
        fields[own], said[own] = number, said[other]
    return fields
