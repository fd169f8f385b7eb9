"""Ways to compile a function, other than `jax.jit` alone."""

import dataclasses
import functools
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Lowered, Traced
from jaxtyping import PyTree

from jaxagents.core.arrays import is_traced

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


def compile_meanwhile(program: Lowered, other_work: Callable[[], object]) -> None:
    """Compiles a program in a thread, for later calls of its function, while the caller does other work.

    Args:
        program: A lowered program.
        other_work: Called while the program is compiled, for example to trace the next one.
    """
    with ThreadPoolExecutor(1) as thread:
        compiling = thread.submit(program.compile)
        other_work()
        compiling.result()


def is_tracing(tree: PyTree) -> bool:
    """Whether JAX is tracing, be it any leaf of a pytree or the surrounding function."""
    return any(map(is_traced, [*jax.tree.leaves(tree), jnp.zeros(())]))
