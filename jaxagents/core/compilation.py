"""Ways to compile functions, and the compiled programs that equal agents share."""

import dataclasses
import enum
import functools
import threading
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.stages import Traced
from jaxtyping import PyTree

from jaxagents.core.arrays import is_key, is_traced

P = ParamSpec("P")
T = TypeVar("T")

_QUICK = {"cpu": {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}}

_N_STRUCTURES = 16
_NUMBERS = (int, float)

nan_is_allowed = jax.debug_nans(False)
"""Decorates functions of runners before any update, whose losses are not known yet and so are NaN."""


class Jitted(Protocol):
    """A function that is compiled when it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the compiled function."""
        ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces the function, and compiles nothing yet."""
        ...


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """A compiled function that is chosen anew for each call.

    Attributes:
        choose: Gives the function for the arguments of a call.
    """

    choose: Callable[..., Jitted]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.choose(*args, **kwargs)(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        return self.choose(*args, **kwargs).trace(*args, **kwargs)


def quick_jit(function: Callable, **options: Any) -> Jitted:
    """`jax.jit` for a program that runs once, which is compiled sooner on a CPU.

    It is optimised less there, and computes the same numbers bit for bit as long as it has no loops.
    Within another program, or with `JAX_DISABLE_MOST_OPTIMIZATIONS`, it is `jax.jit` alone.

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
    """`jax.jit` for a program that works in the memory of its first argument, which it uses up.

    While JAX looks for NaN or infinity the argument is left alone: where JAX finds one, it calls the
    function again to say where it came from.

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
    """The compiler's options for quick programs that its release knows."""
    known = {}
    for name, value in _QUICK.get(platform, {}).items():
        try:
            jax.jit(abs, compiler_options={name: value}).lower(0).compile()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known


def jit_by_structure(function: Callable[P, T]) -> Callable[P, T]:
    """`jax.jit` for a function of pytrees with ever new structures, such as configurations.

    The programs for a structure of the first argument are released once those for many others were
    used. `jax.jit` would hold them as long as the function. Python numbers in the first argument
    become arrays, and so need no programs of their own.

    Args:
        function: The function to compile.

    Returns:
        The compiled function.
    """

    @functools.lru_cache(maxsize=_N_STRUCTURES)
    def programs(structure: Hashable) -> Jitted:
        return jax.jit(functools.partial(function))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        leaves, structure = jax.tree.flatten(args[0])
        program = programs(structure)
        if not any(type(leaf) in _NUMBERS for leaf in leaves):
            return program(*args, **kwargs)
        first = jax.tree.unflatten(structure, [_as_array(leaf) for leaf in leaves])
        return program(first, *args[1:], **kwargs)

    return call


def _as_array(leaf: PyTree) -> PyTree:
    """A leaf of a pytree, as an array if it is a Python number."""
    return np.asarray(leaf, jnp.result_type(type(leaf))) if type(leaf) in _NUMBERS else leaf


def compile_at_once(programs: Sequence[Traced]) -> None:
    """Compiles programs side by side, each as soon as it is lowered, for later calls of their functions.

    Args:
        programs: Traced programs; the one that takes longest comes first.
    """
    with ThreadPoolExecutor(len(programs)) as threads:
        compiling = [threads.submit(program.lower().compile) for program in programs]
        for it in compiling:
            it.result()


def is_tracing(tree: PyTree) -> bool:
    """Whether JAX is tracing, be it any leaf of a pytree or the surrounding function."""
    return any(map(is_traced, [*jax.tree.leaves(tree), jnp.zeros(())]))


_SCALARS = (bool, int, complex, str, bytes, type(None), type(Ellipsis), enum.Enum, np.dtype)
_OF_BOUND_MODULES = ("parent", "scope", "_parent_ref", "_id", "_state")
_IDENTITIES = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def fingerprint(x: object, parents: tuple[int, ...] = ()) -> Hashable:
    """A hashable key that is equal for objects of equal type and value.

    Arrays are compared by their contents, dataclasses and plain objects by their attributes,
    functions and classes by identity. An object whose attributes cannot be seen is compared by its
    own `==`.

    Args:
        x: Any object.
        parents: Identities of the objects that hold it, which tell a cycle.

    Returns:
        The key.
    """
    if id(x) in parents:
        return ("cycle", parents.index(id(x)))
    inner = functools.partial(fingerprint, parents=(*parents, id(x)))

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
    try:
        hash(x)
    except TypeError:
        return (type(x), x.__repr__)  # a bound method holds its object, and compares by identity
    return (type(x), x)


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


BehaviourT = TypeVar("BehaviourT", bound=Hashable)
AgentT = TypeVar("AgentT", bound=Any)


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
        _last_used(self)
        if key not in self._compiled:
            self._compiled.setdefault(key, compile_(self.behaviour))
        return self._compiled[key]

    def __reduce__(self) -> tuple:
        return Programs.of, (self.behaviour,)


_programs: WeakValueDictionary[Hashable, Programs[Any]] = WeakValueDictionary()
_lock = threading.Lock()


_last_used = functools.lru_cache(maxsize=8)(id)
"""Holds programs until eight others were used."""


def compiled(method: Callable[Concatenate[AgentT, P], T]) -> Callable[Concatenate[AgentT, P], T]:
    """Compiles a method of agents, once for all that are equal.

    Within a program, whose agent has no `programs` of its own, it is the method as it stands.

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
