"""Attributes that users of other libraries look for."""

from collections.abc import Mapping
from typing import Any


def missing_attribute(owner: object, name: str, advice: Mapping[str, str]) -> Any:
    """Raises for an attribute that Python did not find, with advice where there is some.

    Args:
        owner: The object.
        name: Name of the attribute.
        advice: What to do instead, by name.

    Raises:
        AttributeError: In any case.
    """
    if name in advice:
        raise AttributeError(f"{type(owner).__name__} has no {name!r}: {advice[name]}.")
    return object.__getattribute__(owner, name)  # says what was missing, be it in a property
