"""Traces of environments: shapes, and state that a compiled program would lose."""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import is_traced
from jaxagents.core.trees import shape_and_dtype
from jaxagents.envs.environment import Environment

_NEED_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
_NOT_NUMERIC = tuple("OSUMm")
"""Kinds of NumPy dtypes that JAX has no arrays of."""


def traced_reset(env: Environment) -> tuple[PyTree, PyTree]:
    """The shapes that `reset` returns: observation and state.

    Raises:
        TypeError: It cannot be compiled.
        ValueError: It does not return two values.
    """
    what = f"{env.wording.environment}.{env.wording.reset}"
    is_pair = False

    def reset(key: PyTree) -> PyTree:
        nonlocal is_pair
        first = env.reset(key)
        is_pair = isinstance(first, tuple | list) and len(first) == len(("obs", "state"))
        return dict(zip(("obs", "state"), first, strict=True)) if is_pair else first

    first = _traced(reset, what)
    if not is_pair:
        raise ValueError(
            f"{what} must return two values (obs, state), got "
            f"{jax.tree.map(shape_and_dtype, first)}."
        )
    return first["obs"], first["state"]


def traced_step(env: Environment, action: PyTree) -> tuple[PyTree, PyTree, PyTree]:
    """The shapes of the observation and the state of a reset, and of the outcome of a step after it.

    Args:
        env: The environment.
        action: An action, as shapes.

    Raises:
        TypeError: One of them cannot be compiled.
        ValueError: The reset does not return two values.
    """
    obs, state = traced_reset(env)
    what = f"{env.wording.environment}.{env.wording.step}"
    return obs, state, _traced(env.step, what, state, action)


def _traced(method: Callable, what: str, *args: PyTree) -> PyTree:
    """The shapes that a method returns, given a random key and more."""

    def call(*args: PyTree) -> PyTree:
        outcome = method(*args)
        for path, x in jax.tree_util.tree_leaves_with_path(outcome):
            dtype = getattr(x, "dtype", None)
            is_number = isinstance(x, bool | int | float | complex)
            if (dtype is None and not is_number) or getattr(dtype, "kind", "") in _NOT_NUMERIC:
                place = jax.tree_util.keystr(path, simple=True, separator=".")
                raise TypeError(
                    f"{what} returns {x!r} in {place}, but what compiled programs return is made of "
                    "arrays: leave it out, or give a number in its place, such as the position of a "
                    "name in a list."
                )
        return outcome

    try:
        return jax.eval_shape(call, jax.eval_shape(lambda: jax.random.key(0)), *args)
    except _NEED_NUMBERS as error:
        raise TypeError(
            f"{what} is not written in JAX: while it is compiled its arrays hold no numbers yet, so "
            "that float(), int(), bool(), if, and functions of NumPy fail on them. Use jax.numpy, such "
            "as jnp.where(condition, a, b) for if. An environment that cannot be rewritten is stepped "
            "on the host: give it the interface of Gymnasium."
        ) from error


def check_stateless(env: Environment) -> None:
    """Raises if a traced reset or step has written to the environment, or to one inside of it.

    Raises:
        ValueError: It has.
    """
    inside: Any = env
    while inside is not None:
        attributes = getattr(inside, "__dict__", {})
        written = written_attributes(inside, attributes)
        if written:
            raise ValueError("\n".join(written))
        inside = attributes.get("env")


def written_attributes(env: Any, before: Mapping[str, Any]) -> list[str]:
    """Messages about attributes that a traced reset or step has written to.

    Args:
        env: The environment.
        before: Its attributes before.
    """
    now = getattr(env, "__dict__", {})
    changed = [name for name, x in before.items() if now.get(name) is not x]
    traced = [name for name, x in now.items() if any(map(is_traced, jax.tree.leaves(x)))]
    return [
        f"A reset or a step writes to {type(env).__name__}.{name}. They are traced once, not called at "
        "every step, so what they write is lost or, if it is traced, fails later: keep whatever changes "
        "in the state."
        for name in dict.fromkeys([*changed, *traced])
    ]


@contextlib.contextmanager
def without_constant_noise(env: Environment, action: PyTree) -> Iterator[None]:
    """A context in which an environment is traced without drawing random numbers on the host.

    Args:
        env: The environment.
        action: An action, as shapes.

    Raises:
        ValueError: It drew numbers from `numpy.random` or `random`, and they are a part of its program.
    """
    before = _host_generators()
    yield
    if _host_generators() != before and _differs_from_trace_to_trace(env, action):
        name, reset, step = env.wording
        raise ValueError(
            f"{name}.{reset} or {name}.{step} draws random numbers with numpy.random or random: while "
            "it is compiled they become constants, the same in every episode. Draw with jax.random and "
            "the key that is given."
        )


def _host_generators() -> Any:
    """The states of the global random generators of `random` and `numpy.random`."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), state[1].tobytes(), state[2:]


def _differs_from_trace_to_trace(env: Environment, action: PyTree) -> bool:
    def play(key: PyTree, action: PyTree) -> PyTree:
        obs, state = env.reset(key)
        return obs, env.step(key, state, action)

    # A new function each time, since JAX remembers what it has traced.
    key = jax.eval_shape(lambda: jax.random.key(0))
    first, second = (jax.make_jaxpr(lambda *args: play(*args))(key, action) for _ in range(2))
    return str(first) != str(second) or not all(map(np.array_equal, first.consts, second.consts))
