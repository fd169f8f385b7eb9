"""The checker of types in tests."""

from collections.abc import Callable

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep3119Exception


def checked(function: Callable) -> Callable:
    """A function or class whose types are checked, but for functions that a call makes.

    Checks of these are made anew at every call, which would take a fifth of the time of tracing. Fields
    that a layer inherits from flax have types that cannot be checked: protocols.
    """
    if "<locals>" in function.__qualname__:
        return function
    try:
        return beartype(function)
    except BeartypeDecorHintPep3119Exception:
        return function
