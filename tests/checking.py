"""The checker of types in tests."""

from collections.abc import Callable

from beartype import beartype

UNCHECKED = "Dense.__init__"
"""A constructor with types of flax that cannot be checked: protocols."""


def checked(function: Callable) -> Callable:
    """A function or class whose types are checked, but for functions that a call makes.

    Checks of these are made anew at every call, which would take a fifth of the time of tracing.
    """
    name = function.__qualname__
    return function if "<locals>" in name or name == UNCHECKED else beartype(function)
