"""The checker of types in tests."""

from collections.abc import Callable

from beartype import beartype


def checked(function: Callable) -> Callable:
    """A function or class whose types are checked, but for functions that a call makes.

    Checks of these are made anew at every call, which would take a fifth of the time of tracing.
    """
    return function if "<locals>" in function.__qualname__ else beartype(function)
