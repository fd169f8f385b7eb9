"""The checker of types in tests."""

from collections.abc import Callable, Sequence
from typing import Any

import jaxtyping
from beartype import beartype

UNCHECKED = "Dense.__init__"
"""A constructor with Flax types that cannot be checked: protocols."""

_jaxtyped = jaxtyping.jaxtyped


def check_types(modules: Sequence[str]) -> None:
    """Has the types of the functions of modules checked, but for functions that a call makes.

    Checks of these are made anew at every call, which would take a fifth of the time of tracing.
    """
    jaxtyping.jaxtyped = _jaxtyped_once
    jaxtyping.install_import_hook(modules, "checking.checked")


def checked(function: Callable) -> Callable:
    """A function or class whose types are checked."""
    return function if function.__qualname__ == UNCHECKED else beartype(function)


def _jaxtyped_once(*, typechecker: Callable) -> Callable:
    """The import hook's decorator, which leaves functions and classes that a call makes as they are."""

    def decorate(function: Any) -> Any:
        is_made_by_a_call = "<locals>" in getattr(function, "__qualname__", "")
        return function if is_made_by_a_call else _jaxtyped(function, typechecker=typechecker)

    return decorate
