"""The compiled programs that equal agents share."""

import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

import jax

from jaxagents.core.compilation import Jitted

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
        """The programs of a behaviour and of those that are equal to it."""
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
            key: The program's name among those of the behaviour.
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
