"""Ways to compile functions, and the compiled programs that equal agents share."""

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
"""The programs of each function by `jit_by_structure`."""
_lock = threading.RLock()
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
    """Has functions by `jit_by_structure` compile anew wherever code of users is in a structure.

    What the code refers to, such as a variable of its module, may have changed.
    """
    with _lock:
        for programs in _of_structures:
            for structure in [*programs]:
                if users_own(structure.unflatten([None] * structure.num_leaves)):
                    del programs[structure]


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


BehaviourT = TypeVar("BehaviourT", bound=Hashable)
AgentT = TypeVar("AgentT", bound=Any)


class Programs(Generic[BehaviourT]):
    """The compiled programs of an object.

    Equal objects share them, unless code of users is in them: whatever that refers to may change, so
    that each object has its own. Shared ones are released with the last object that holds them, but the
    few most recently used ones are kept longer: an object that is built again, as in a cell of a
    notebook, then compiles nothing.

    Attributes:
        behaviour: The object whose programs they are.
    """

    def __init__(self, behaviour: BehaviourT, may_change: Sequence[Any] = ()) -> None:
        """Compiles nothing yet.

        Args:
            behaviour: The object whose programs they are. It must not hold them itself, or only
                Python's garbage collector could release them.
            may_change: Its parts with code of users.
        """
        self.behaviour = behaviour
        self._may_change, self._traced = may_change, []
        self._compiled: dict[Hashable, Any] = {}

    @staticmethod
    def of(behaviour: T, may_change: Sequence[Any] = ()) -> "Programs[T]":
        """The programs of a behaviour, which all that are equal share if no part may change."""
        if may_change:
            forget_users_own()
            return Programs(behaviour, may_change)
        with _lock:
            return _programs.setdefault(behaviour, Programs(behaviour))

    @staticmethod
    def are_known(behaviour: Hashable) -> bool:
        """Whether there are programs that this behaviour shares."""
        with _lock:
            return behaviour in _programs

    def get(self, key: Hashable, compile_: Callable[[BehaviourT], T]) -> T:
        """A program, which is made when it is first asked for, and again if its object has changed.

        Args:
            key: The program's name.
            compile_: Makes it of the behaviour.

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
        """Drops the programs if a part has changed since they were made, with a warning."""
        now = [state(part) for part in self._may_change]
        before, self._traced = self._traced, now
        if not self._compiled or before == now:
            return
        for part, old, new in zip(self._may_change, before, now, strict=True):
            changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            if changed:
                warnings.warn(
                    f"{name_of(part if isinstance(part, type) else type(part))} has changed since "
                    f"programs were compiled with it: {', '.join(changed)}. They are "
                    "compiled anew. Make a new agent instead, as an agent reads spaces and limits only "
                    "when it is made.",
                    stacklevel=2,
                )
        self._compiled = {}
        forget_users_own()

    def __reduce__(self) -> tuple:
        return Programs.of, (self.behaviour, self._may_change)


_programs: WeakValueDictionary[Hashable, Programs[Any]] = WeakValueDictionary()


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
