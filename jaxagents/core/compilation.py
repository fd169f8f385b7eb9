"""How the programs of agents are compiled."""

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from jaxagents.core.arrays import is_traced

_QUICK = {"cpu": {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}}


def quick_jit(function: Callable, **options: Any) -> Callable:
    """`jax.jit` for a program that runs once, which is compiled sooner on a CPU.

    It is optimised less there, and computes the same numbers bit for bit as long as it has no loops.
    Within another program, or with `JAX_DISABLE_MOST_OPTIMIZATIONS`, it is `jax.jit` alone.

    Args:
        function: What is compiled.
        **options: Options of `jax.jit`.

    Returns:
        The compiled function.
    """
    plain = jax.jit(function, **options)

    @functools.cache
    def quick(platform: str) -> Callable:
        return jax.jit(function, compiler_options=_known_options(platform), **options)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        if is_tracing((args, kwargs)) or jax.config.read("jax_disable_most_optimizations"):
            return plain
        return quick(jax.default_backend())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return chosen(*args, **kwargs)(*args, **kwargs)

    def lower(*args: Any, **kwargs: Any) -> Any:
        return chosen(*args, **kwargs).lower(*args, **kwargs)

    call.lower = lower  # pyright: ignore[reportAttributeAccessIssue]
    return call


@functools.cache
def _known_options(platform: str) -> dict[str, Any]:
    """The compiler's options for quick programs, but for those that its release does not know."""
    options = _QUICK.get(platform, {})
    return {name: value for name, value in options.items() if _is_known({name: value})}


def _is_known(option: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=option).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def compiled(
    method: Callable | None = None,
    *,
    static: Sequence[str] = (),
    donated: Sequence[str] = (),
    quick: Callable[[Any], bool] = lambda agent: False,
) -> Any:
    """Compiles a method of an agent, which is itself a static argument compared by value.

    Args:
        method: The method.
        static: Names of further static arguments.
        donated: Names of arguments whose memory is used up.
        quick: Of which agents it is compiled by `quick_jit`.

    Returns:
        The compiled method. Its `lower`, which is given the agent too, is that of `jax.jit`.
    """
    if method is None:
        return functools.partial(compiled, static=static, donated=donated, quick=quick)
    options: dict[str, Any] = {"static_argnames": tuple(static), "donate_argnames": tuple(donated)}
    fast, quickly_compiled = (
        jit(method, static_argnums=0, **options) for jit in (jax.jit, quick_jit)
    )

    def chosen(agent: Any) -> Any:
        return quickly_compiled if quick(agent) else fast

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return chosen(self)(self.program, *args, **kwargs)

    def lower(agent: Any, *args: Any, **kwargs: Any) -> Any:
        return chosen(agent).lower(agent.program, *args, **kwargs)

    call.lower = lower  # pyright: ignore[reportAttributeAccessIssue]
    return call


def compile_meanwhile(program: Any, other_work: Callable[[], Any]) -> None:
    """Compiles a program in a thread, for later calls of its function, while the caller does other work.

    Args:
        program: A lowered program.
        other_work: What is done meanwhile, such as to trace the next program.
    """
    with ThreadPoolExecutor(1) as thread:
        compiling = thread.submit(program.compile)
        other_work()
        compiling.result()


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pauses the search for garbage: tracing makes many objects, of which few are garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def is_tracing(tree: Any) -> bool:
    """Whether JAX is tracing, be it any leaf of a pytree or the surrounding function."""
    return any(is_traced(leaf) for leaf in [*jax.tree.leaves(tree), jnp.zeros(())])
