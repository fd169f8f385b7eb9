"""Hooks that are misspelt or gone, which nothing would ever call, or that cannot be called as given."""

import inspect
from collections.abc import Iterator, Mapping, Sequence

from jaxagents.core.nearest import alike

_CLOSE = 0.85
"""Closer than for names that are surely wrong: a method may well be the user's own."""
_LONGEST_DIFFERENCE = 2
"""In letters. A hook's name with a word before or after it is a helper of the user's own."""


def check_hook_names(
    cls: type,
    hooks: Sequence[str],
    gone: Mapping[str, str] | None = None,
    attributes: Mapping[str, object] | None = None,
) -> None:
    """Raises if a user's class, or an object of it, has a method that looks like a hook, but is none.

    Args:
        cls: The class, which inherits from one of the library.
        hooks: Names of the hooks that it may give.
        gone: What replaces the hooks of earlier versions, by their names.
        attributes: What the constructor has set, by name; `None` for nothing.

    Raises:
        TypeError: It has one; the error names the nearest hook, or what replaces it.
    """
    known = {name for owner in cls.__mro__ if is_ours(owner) for name in vars(owner)}
    methods = [*_private_methods(cls), *_methods_of(attributes or {})]
    own = [name for name in methods if name not in known]
    for name in own:
        if gone is not None and name in gone:
            raise TypeError(
                f"{cls.__name__}.{name} would never be called: it was a hook of 0.2.5. Its place takes "
                f"{gone[name]}. See Migrating in the guide."
            )
    free = [hook for hook in hooks if hook not in methods]
    for name in own:
        hook = alike(name, free, _CLOSE)
        if hook and abs(len(hook) - len(name)) <= _LONGEST_DIFFERENCE:
            raise TypeError(
                f"{cls.__name__}.{name} would never be called: there is no such hook. Did you mean "
                f"{hook}? If it is a method of your own, give it a name less like that."
            )


def check_hook_arguments(cls: type, hooks: Sequence[str]) -> None:
    """Raises if a user's class has a hook that takes its arguments in another order.

    Args:
        cls: The class, which inherits from one of the library.
        hooks: Names of the hooks that it may give.

    Raises:
        TypeError: It has one.
    """
    for hook in filter(lambda hook: is_own(cls, hook), hooks):
        given, taken = (_arguments(owner, hook) for owner in (_first_of_ours(cls, hook), cls))
        if [name for name in taken if name in given] != [name for name in given if name in taken]:
            raise TypeError(
                f"{cls.__name__}.{hook} must be {hook}(self, {', '.join(given)}), got {hook}(self, "
                f"{', '.join(taken)}): arguments are given in this order, not by name."
            )


def check_hooks_are_methods(made: object, hooks: Sequence[str]) -> None:
    """Raises if an object has something else in the place of a hook that is a method.

    Args:
        made: The object, of a class that inherits from one of the library.
        hooks: Names of the hooks that it may have.

    Raises:
        TypeError: It has.
    """
    cls = type(made)
    for hook in hooks:
        ours, value = _first_of_ours(cls, hook), getattr(made, hook, None)
        if ours is not None and inspect.isfunction(vars(ours)[hook]) and not callable(value):
            arguments = ", ".join(["self", *_arguments(ours, hook)])
            raise TypeError(
                f"{cls.__name__}.{hook} must be a method, {hook}({arguments}), got {value!r}."
            )


def is_own(cls: type, hook: str) -> bool:
    """Whether a hook of a class is a user's own, and not one of the library."""
    owner = next((it for it in cls.__mro__ if hook in vars(it)), None)
    return owner is not None and not is_ours(owner)


def _first_of_ours(cls: type, hook: str) -> type | None:
    """The class of the library from which a class has a hook, overridden or not."""
    return next((it for it in cls.__mro__ if is_ours(it) and hook in vars(it)), None)


def _arguments(cls: type | None, hook: str) -> list[str]:
    """The names of what a hook takes by position; none of what is no function."""
    try:
        signature = inspect.signature(getattr(cls, hook))
    except (AttributeError, TypeError, ValueError):
        return []
    by_position = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [name for name, it in signature.parameters.items() if it.kind in by_position]
    return [name for name in names if name not in ("self", "cls")]


def _private_methods(cls: type) -> Iterator[str]:
    """The names of a class's methods, and of its classes, that begin with one underscore."""
    for owner in cls.__mro__:
        if not is_ours(owner) and owner is not object:
            yield from _methods_of(vars(owner))


def _methods_of(attributes: Mapping[str, object]) -> Iterator[str]:
    for name, value in attributes.items():
        is_method = callable(value) or isinstance(value, classmethod | staticmethod)
        if is_method and name.startswith("_") and not name.startswith("__"):
            yield name


def is_ours(cls: type) -> bool:
    """Whether a class is one of the library."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]
