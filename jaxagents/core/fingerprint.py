"""Hashable keys of objects by value, and the parts of objects that contain user code."""

import dataclasses
import enum
import functools
import hashlib
import pickle
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from flax import linen as nn

from jaxagents.core.arrays import is_key
from jaxagents.core.extras import SUITES

_SCALARS = (bool, int, complex, str, bytes, type(None), type(Ellipsis), enum.Enum, np.dtype)
_OF_BOUND_MODULES = ("parent", "scope", "_parent_ref", "_id", "_state")
_LARGEST = 2**12
"""Bytes. Larger arrays are replaced by a digest."""
_CONTAINERS = (Mapping, list, set)
_BY_IDENTITY = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_LIBRARIES = {
    *("jaxagents", "jax", "jaxlib", "jaxtyping", "numpy", "flax", "optax", "chex", "gymnax"),
    *("gymnasium", "mujoco_playground", *SUITES),
    *sys.stdlib_module_names,
}
"""Packages whose code does not change while a process runs."""


def share_programs(*packages: str) -> None:
    """Lets equal agents and learners with code from these packages share compiled programs.

    Call it for packages whose classes, functions and variables do not change while a process runs.
    Without it, each agent in your own environment compiles its own programs.

    ```python
    jaxagents.share_programs("my_environments")
    ```

    Args:
        *packages: Names of packages or top-level modules.

    Raises:
        TypeError: An argument is not a name, but for example the module itself.
    """
    for package in packages:
        if not isinstance(package, str):
            raise TypeError(
                f"share_programs takes names of packages, such as 'my_environments', got {package!r}."
            )
    _LIBRARIES.update(package.partition(".")[0] for package in packages)


def fingerprint(x: object) -> Hashable:
    """A hashable key that is equal for objects of equal type and value.

    Arrays compare by contents, dataclasses and other objects by attributes, and functions by identity.
    User classes compare with their current attributes. An object without visible attributes compares by
    its own `==`, or by identity if it has no hash.

    Args:
        x: Any object.

    Returns:
        The key.
    """
    key, _ = fingerprint_and_users_own(x)
    return key


def users_own(x: object) -> list[Any]:
    """The parts of an object that contain user code, which may change at any time.

    Args:
        x: Any object.

    Returns:
        Classes, functions and objects that no known library defines, without the parts inside them.
    """
    _, parts = fingerprint_and_users_own(x)
    return parts


def fingerprint_and_users_own(x: object) -> tuple[Hashable, list[Any]]:
    """The results of `fingerprint` and `users_own`, in one pass."""
    walk = _Walk()
    return walk.key(x, ()), walk.users_own


def attributes(x: Any) -> dict[str, Any]:
    """The attributes that an object compares by, including its user classes' attributes.

    Args:
        x: An object or a class.

    Returns:
        Dataclass fields and other attributes by name, without cached properties; nothing for an object
            with the `==` and hash of a library class.
    """
    if isinstance(x, type):
        return dict(_of_classes(x))
    owner = next(cls for cls in type(x).__mro__ if "__eq__" in vars(cls))
    is_compared_otherwise = owner is not object and _is_of_library(owner)
    if is_compared_otherwise and not dataclasses.is_dataclass(x) and type(x).__hash__ is not None:
        return {}
    fields = dataclasses.fields(x) if dataclasses.is_dataclass(x) else ()
    names = dict.fromkeys([*(field.name for field in fields), *getattr(x, "__dict__", ())])
    passed_over = {*_OF_BOUND_MODULES} if isinstance(x, nn.Module) else set()
    cached = functools.cached_property
    passed_over |= {name for name in names if isinstance(getattr(type(x), name, None), cached)}
    own = {name: getattr(x, name) for name in names if name not in passed_over}
    return dict(_of_classes(type(x))) | own


def state(x: Any) -> dict[str, Hashable]:
    """Keys of an object's attributes, by name, to detect changes.

    Args:
        x: An object.

    Returns:
        The keys; a single one for an object that does not compare by attributes.
    """
    parts = attributes(x) or {"contents": x}
    return {
        name: _Identity(part) if isinstance(part, jax.Array) else fingerprint(part)
        for name, part in parts.items()
    }


def _of_classes(cls: type) -> Iterator[tuple[str, Any]]:
    """The attributes of a class and its bases that are user code."""
    for owner in reversed(cls.__mro__):
        if not _is_of_library(owner):
            yield from ((k, v) for k, v in vars(owner).items() if not k.startswith("__"))


def _is_of_library(x: Any) -> bool:
    """Whether a class, a function, or the class of an object belongs to a known package."""
    module = getattr(x, "__module__", None) or "builtins"
    return module.partition(".")[0] in _LIBRARIES


class _Walk:
    """A walk through the parts of an object.

    Attributes:
        users_own: The parts so far that may change, without the parts inside them.
    """

    def __init__(self) -> None:
        self.users_own: list[Any] = []
        self._is_inside = False

    def key(self, x: Any, parents: tuple[int, ...]) -> Hashable:
        """The key of an object; the identities of its parents reveal cycles."""
        if id(x) in parents:
            return ("cycle", parents.index(id(x)))
        inner = functools.partial(self.key, parents=(*parents, id(x)))
        if self._is_inside or not _may_change(x):
            return _key(x, inner)
        if not any(x is part for part in self.users_own):
            self.users_own.append(x)
        self._is_inside = True
        try:
            return _key(x, inner)
        finally:
            self._is_inside = False


def _may_change(x: Any) -> bool:
    is_value = isinstance(x, (*_CONTAINERS, np.ndarray, jax.Array)) or dataclasses.is_dataclass(x)
    return not _is_of_library(x) or (type(x).__hash__ is None and not is_value)


def _key(x: Any, inner: Callable[[Any], Hashable]) -> Hashable:
    """The key of an object, given a function for the keys of its parts."""

    def of_attributes() -> Hashable:
        return tuple((name, inner(value)) for name, value in attributes(x).items())

    if isinstance(x, type):
        return x if _is_of_library(x) else (x, of_attributes())
    if isinstance(x, _BY_IDENTITY):
        return x
    if isinstance(x, _SCALARS):
        return (type(x), x)
    if isinstance(x, float):
        return (type(x), repr(x))
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        return _key_of_array(x)
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
    if dataclasses.is_dataclass(x) or _is_compared_by_default(x):
        return (type(x), of_attributes())
    if type(x).__hash__ is not None:
        return (type(x), x)
    try:
        pickled = x.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    except TypeError:
        return (type(x), _Identity(x))
    contents = [list(part) if isinstance(part, Iterator) else part for part in pickled]
    return (type(x), of_attributes(), inner(contents))


def _is_compared_by_default(x: Any) -> bool:
    return type(x).__eq__ is object.__eq__ and hasattr(x, "__dict__")


class _Identity:
    """The key of an object that only equals itself."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __hash__(self) -> int:
        return id(self._x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._x is other._x


def _key_of_array(x: object) -> Hashable:
    if isinstance(x, jax.Array) and is_key(x):
        with jax.ensure_compile_time_eval():
            data = jax.random.key_data(x)
        return ("key", str(x.dtype), _key_of_array(data))
    array = np.asarray(x)
    contents = array.tobytes()
    if len(contents) > _LARGEST:
        contents = hashlib.blake2b(contents).digest()
    return ("array", array.shape, array.dtype, contents)
