"""The compiled programs that equal agents share, and the keys that make agents equal."""

import dataclasses
import enum
import functools
import threading
import types
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

import jax
import numpy as np
from flax import linen as nn

from jaxagents.core.arrays import is_key
from jaxagents.core.compilation import Jitted

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
    passed_over = {*_OF_BOUND_MODULES} if isinstance(x, nn.Module) else set()
    cached = functools.cached_property
    passed_over |= {name for name in names if isinstance(getattr(type(x), name, None), cached)}
    return {name: getattr(x, name) for name in names if name not in passed_over}


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


BehaviourT = TypeVar("BehaviourT", bound=Hashable)
OwnerT = TypeVar("OwnerT", bound="HasPrograms")
P = ParamSpec("P")
T = TypeVar("T")


class Programs(Generic[BehaviourT]):
    """The compiled programs of equal objects, which share them.

    They are released with the last object that holds them, but the few most recently used ones are kept
    longer: an object that is built again, as in a cell of a notebook, then compiles nothing.

    Attributes:
        behaviour: The object whose programs they are.
    """

    def __init__(self, behaviour: BehaviourT) -> None:
        """Compiles nothing yet.

        Args:
            behaviour: The object whose programs they are. It must not hold them itself, or only
                Python's garbage collector could release them.
        """
        self.behaviour = behaviour
        self._compiled: dict[Hashable, Any] = {}

    @staticmethod
    def of(behaviour: T) -> "Programs[T]":
        """The programs that all behaviours equal to this one share."""
        with _lock:
            return _programs.setdefault(behaviour, Programs(behaviour))

    @staticmethod
    def are_known(behaviour: Hashable) -> bool:
        """Whether there are programs of a behaviour that is equal to this one."""
        with _lock:
            return behaviour in _programs

    def get(self, key: Hashable, compile_: Callable[[BehaviourT], T]) -> T:
        """A program, which is made when it is first asked for.

        Args:
            key: The program's name.
            compile_: Makes it of the behaviour.

        Returns:
            The program.
        """
        _among_the_last_used(self)
        if key not in self._compiled:
            self._compiled.setdefault(key, compile_(self.behaviour))
        return self._compiled[key]

    def __reduce__(self) -> tuple:
        return Programs.of, (self.behaviour,)


_programs: WeakValueDictionary[Hashable, Programs[Any]] = WeakValueDictionary()
_lock = threading.Lock()


@functools.lru_cache(maxsize=8)
def _among_the_last_used(programs: Programs[Any]) -> None:
    """Holds programs until eight others were used."""


class HasPrograms(Hashable, Protocol):
    """An agent with compiled programs, or within one."""

    @property
    def programs(self) -> Programs[Any] | None:
        """The compiled programs; `None` within a program."""


def programs_of(agent: HasPrograms) -> Programs[Any]:
    """The compiled programs of an agent that is not itself within one."""
    assert agent.programs is not None
    return agent.programs


def compiled(method: Callable[Concatenate[OwnerT, P], T]) -> Callable[Concatenate[OwnerT, P], T]:
    """Compiles a method of agents, once for all that are equal.

    Within a program, whose agent has no `programs` of its own, it is the method as it stands.

    Args:
        method: The method.

    Returns:
        The compiled method.
    """

    def compile_(behaviour: OwnerT) -> Jitted:
        return jax.jit(functools.partial(method, behaviour))

    @functools.wraps(method)
    def call(self: OwnerT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.programs is None:
            return method(self, *args, **kwargs)
        return self.programs.get(compile_, compile_)(*args, **kwargs)

    return call
