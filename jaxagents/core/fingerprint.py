"""Hashable keys that compare objects by value, so that equal agents share compiled programs."""

import dataclasses
import enum
import functools
import types
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np
from flax import linen as nn

from jaxagents.core.arrays import is_key

_SCALARS = (bool, int, complex, str, bytes, type(None), type(Ellipsis), enum.Enum, np.dtype)
_OF_BOUND_MODULES = ("parent", "scope", "_parent_ref", "_id", "_state")
_IDENTITIES = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def fingerprint(x: object) -> Hashable:
    """A hashable key that is equal for objects of equal type and value.

    Arrays are compared by their contents, dataclasses and plain objects by their attributes,
    functions and classes by identity. An object whose attributes cannot be seen is compared by its
    own `==`.

    Args:
        x: Any object.

    Returns:
        The key.
    """
    return _fingerprint(x, ())


def _fingerprint(x: object, parents: tuple[int, ...]) -> Hashable:
    if id(x) in parents:
        return ("cycle", parents.index(id(x)))
    inner = functools.partial(_fingerprint, parents=(*parents, id(x)))

    if isinstance(x, _IDENTITIES):
        return x
    if isinstance(x, _SCALARS):
        return (type(x), x)
    if isinstance(x, float):
        return (type(x), repr(x))
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        return _array_fingerprint(x)
    if isinstance(x, functools.partial):
        return ("partial", inner(x.func), inner(x.args), inner(x.keywords))
    if isinstance(x, types.MethodType):
        return ("method", x.__func__, inner(x.__self__))
    if isinstance(x, Mapping):
        return (type(x), tuple((inner(key), inner(value)) for key, value in x.items()))
    if isinstance(x, tuple | list):
        return (type(x), tuple(inner(item) for item in x))
    if isinstance(x, set | frozenset):
        return (type(x), frozenset(inner(item) for item in x))
    if dataclasses.is_dataclass(x) or (type(x).__eq__ is object.__eq__ and hasattr(x, "__dict__")):
        return (type(x), inner(_attributes(x)))
    return (type(x), _ByOwnEquality(x))


def _attributes(x: Any) -> dict[str, Any]:
    """The fields of a dataclass, and all else that was set, but for what was computed from it."""
    fields = dataclasses.fields(x) if dataclasses.is_dataclass(x) else ()
    names = dict.fromkeys([*(field.name for field in fields), *getattr(x, "__dict__", ())])
    passed_over = _OF_BOUND_MODULES if isinstance(x, nn.Module) else ()
    return {
        name: getattr(x, name) for name in names if not (name in passed_over or _is_cached(x, name))
    }


def _is_cached(x: object, name: str) -> bool:
    return isinstance(getattr(type(x), name, None), functools.cached_property)


def _array_fingerprint(x: object) -> Hashable:
    if isinstance(x, jax.Array) and is_key(x):
        with jax.ensure_compile_time_eval():
            data = jax.random.key_data(x)
        return ("key", str(x.dtype), _array_fingerprint(data))
    array = np.asarray(x)
    return ("array", array.shape, array.dtype, array.tobytes())


class _ByOwnEquality:
    """Holds an object and compares by its own equality, or by identity if it is unhashable."""

    def __init__(self, value: object) -> None:
        self._value = value
        try:
            self._hash = hash(value)
        except TypeError:
            self._hash = id(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _ByOwnEquality)
            and self._hash == other._hash
            and bool(self._value == other._value)
        )
