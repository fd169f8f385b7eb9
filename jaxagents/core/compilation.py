"""Variants of `jax.jit`, and the compiled programs that equal agents share."""

import dataclasses
import functools
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Traced
from jaxtyping import PyTree

from jaxagents.core.arrays import is_traced
from jaxagents.core.describe import name_of
from jaxagents.core.fingerprint import state, users_own

P = ParamSpec("P")
T = TypeVar("T")

_QUICK = {"cpu": {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}}

_N_STRUCTURES = 16
_of_structures: list[OrderedDict[Any, "Jitted"]] = []
"""The programs of each function compiled by `jit_by_structure`."""
_lock = threading.RLock()
_NUMBERS = (int, float)

nan_is_allowed = jax.debug_nans(False)
"""Decorates functions that handle runners before any update, when losses are still NaN."""


class Jitted(Protocol):
    """A function that compiles when it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the compiled function."""
        ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces the function without compiling it."""
        ...


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """Chooses a compiled function for each call.

    Attributes:
        choose: Returns the function for the arguments of a call.
    """

    choose: Callable[..., Jitted]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.choose(*args, **kwargs)(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        return self.choose(*args, **kwargs).trace(*args, **kwargs)


def quick_jit(function: Callable, **options: Any) -> Jitted:
    """`jax.jit` for a program that runs once; on a CPU it compiles faster.

    The program is optimised less there, but without loops its results are bit-for-bit identical. Inside
    another program, or with `JAX_DISABLE_MOST_OPTIMIZATIONS`, this is plain `jax.jit`.

    Args:
        function: The function to compile.
        **options: Options of `jax.jit`.

    Returns:
        The compiled function.
    """
    plain, quick = jax.jit(function, **options), {}

    def choose(*args: Any, **kwargs: Any) -> Jitted:
        if is_tracing((args, kwargs)) or jax.config.read("jax_disable_most_optimizations"):
            return plain
        platform = jax.default_backend()
        if platform not in quick:
            known = _known_options(platform)
            quick[platform] = jax.jit(function, compiler_options=known, **options)
        return quick[platform]

    return _Chosen(choose)


def jit_in_place(function: Callable) -> Jitted:
    """`jax.jit` for a program that donates its first argument.

    With `jax_debug_nans` or `jax_debug_infs`, nothing is donated: JAX calls the function again to find
    where such a value came from.

    Args:
        function: The function to compile.

    Returns:
        The compiled function.
    """
    in_place, again = jax.jit(function, donate_argnums=0), jax.jit(function)

    def choose(*args: Any, **kwargs: Any) -> Jitted:
        config: Any = jax.config
        return again if config.jax_debug_nans or config.jax_debug_infs else in_place

    return _Chosen(choose)


@functools.cache
def _known_options(platform: str) -> dict[str, Any]:
    """The options for quick programs that the installed compiler supports."""
    known = {}
    for name, value in _QUICK.get(platform, {}).items():
        try:
            jax.jit(abs, compiler_options={name: value}).lower(0).compile()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known


def jit_by_structure(function: Callable[P, T]) -> Callable[P, T]:
    """`jax.jit` for a function of pytrees with many structures, such as configurations.

    Programs are released once the function has been called with 16 other structures of its first
    argument; `jax.jit` would keep them as long as the function. Python numbers in the first argument
    become arrays, so that a new number does not compile a new program.

    Args:
        function: The function to compile.

    Returns:
        The compiled function.
    """
    programs: OrderedDict[Any, Jitted] = OrderedDict()
    _of_structures.append(programs)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        leaves, structure = jax.tree.flatten(args[0])
        with _lock:
            program = programs.pop(structure, None) or jax.jit(functools.partial(function))
            programs[structure] = program
            if len(programs) > _N_STRUCTURES:
                programs.popitem(last=False)
        if not any(type(leaf) in _NUMBERS for leaf in leaves):
            return program(*args, **kwargs)
        first = jax.tree.unflatten(structure, [_as_array(leaf) for leaf in leaves])
        return program(first, *args[1:], **kwargs)

    return call


def forget_users_own() -> None:
    """Drops programs of `jit_by_structure` with user code in their structure.

    Anything that the code refers to, such as a variable of its module, may have changed.
    """
    with _lock:
        for programs in _of_structures:
            for structure in [*programs]:
                if users_own(structure.unflatten([None] * structure.num_leaves)):
                    del programs[structure]


def _as_array(leaf: PyTree) -> PyTree:
    """Converts a leaf to an array if it is a Python number."""
    return np.asarray(leaf, jnp.result_type(type(leaf))) if type(leaf) in _NUMBERS else leaf


def compile_at_once(programs: Sequence[Traced]) -> None:
    """Compiles programs in parallel, for later calls of their functions.

    Args:
        programs: Traced programs, the slowest to compile first.
    """
    with ThreadPoolExecutor(len(programs)) as threads:
        compiling = [threads.submit(program.lower().compile) for program in programs]
        for it in compiling:
            it.result()


def is_tracing(tree: PyTree) -> bool:
    """Whether JAX is tracing any leaf of a pytree, or the surrounding function."""
    return any(map(is_traced, [*jax.tree.leaves(tree), jnp.zeros(())]))


BehaviourT = TypeVar("BehaviourT", bound=Hashable)
AgentT = TypeVar("AgentT", bound=Any)


class Programs(Generic[BehaviourT]):
    """The compiled programs of an object.

    Equal objects share them, unless they contain user code: anything that it refers to may change, so
    each such object has its own. Shared programs are released with the last object that holds them,
    except for the few most recently used, so that recreating an object, as in a notebook cell, compiles
    nothing.

    Attributes:
        behaviour: The object that the programs belong to.
    """

    def __init__(self, behaviour: BehaviourT, may_change: Sequence[Any] = ()) -> None:
        """Compiles nothing yet.

        Args:
            behaviour: The object that the programs belong to. It must not refer to them, or only
                Python's garbage collector could release them.
            may_change: Its parts with user code.
        """
        self.behaviour = behaviour
        self._may_change, self._traced = may_change, []
        self._compiled: dict[Hashable, Any] = {}

    @staticmethod
    def of(behaviour: T, may_change: Sequence[Any] = ()) -> "Programs[T]":
        """The programs of a behaviour, shared by all equal ones if no part may change."""
        if may_change:
            forget_users_own()
            return Programs(behaviour, may_change)
        with _lock:
            return _programs.setdefault(behaviour, Programs(behaviour))

    @staticmethod
    def are_known(behaviour: Hashable) -> bool:
        """Whether an equal behaviour already has shared programs."""
        with _lock:
            return behaviour in _programs

    def get(self, key: Hashable, compile_: Callable[[BehaviourT], T]) -> T:
        """A program, compiled on first use, and again if its object has changed.

        Args:
            key: The program's name.
            compile_: Compiles the program from the behaviour.

        Returns:
            The program.
        """
        if self._may_change:
            self._drop_outdated()
        else:
            _last_used(self)
        if key not in self._compiled:
            self._compiled.setdefault(key, compile_(self.behaviour))
        return self._compiled[key]

    def _drop_outdated(self) -> None:
        """Drops the programs, with a warning, if a part has changed since they were made."""
        now = [state(part) for part in self._may_change]
        before, self._traced = self._traced, now
        if not self._compiled or before == now:
            return
        for part, old, new in zip(self._may_change, before, now, strict=True):
            changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            if changed:
                warnings.warn(
                    f"{name_of(part if isinstance(part, type) else type(part))} has changed "
                    f"since programs were compiled with it: {', '.join(changed)}. They are "
                    "compiled again. Make a new agent instead: an agent reads spaces and "
                    "limits only when it is made.",
                    stacklevel=2,
                )
        self._compiled = {}
        forget_users_own()

    def __reduce__(self) -> tuple:
        return Programs.of, (self.behaviour, self._may_change)


_programs: WeakValueDictionary[Hashable, Programs[Any]] = WeakValueDictionary()


_last_used = functools.lru_cache(maxsize=8)(id)
"""Keeps programs until eight others have been used."""


def compiled(method: Callable[Concatenate[AgentT, P], T]) -> Callable[Concatenate[AgentT, P], T]:
    """Compiles a method of agents, once for all equal agents.

    Inside a program, where the agent has no `programs`, it is the plain method.

    Args:
        method: The method.

    Returns:
        The compiled method.
    """

    def compile_(behaviour: AgentT) -> Jitted:
        return jax.jit(functools.partial(method, behaviour))

    @functools.wraps(method)
    def call(self: AgentT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.programs is None:
            return method(self, *args, **kwargs)
        return self.programs.get(compile_, compile_)(*args, **kwargs)

    return call
