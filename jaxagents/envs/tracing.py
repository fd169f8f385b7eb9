"""Traces of environments, which tell the shapes of what they give before anything is compiled."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from jaxagents.core.arrays import is_traced
from jaxagents.core.observed import network_input
from jaxagents.core.trees import shape_and_dtype
from jaxagents.envs.environment import Environment

_NEED_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


_OF_OBJECTS = tuple("OSUMm")
"""The kinds of NumPy's dtypes that are not of numbers."""


class _Start(NamedTuple):
    """The results of a reset."""

    obs: PyTree
    state: PyTree


def traced_reset(env: Environment) -> tuple[PyTree, PyTree]:
    """The shapes that a reset of an environment returns: observation and state.

    Args:
        env: The environment.

    Returns:
        Both.

    Raises:
        TypeError: It cannot be compiled.
        ValueError: It does not return two values.
    """
    name, reset, _ = env.wording

    def start(key: PyTree) -> PyTree:
        first = env.reset(key)
        is_pair = isinstance(first, tuple | list) and len(first) == len(_Start._fields)
        return _of_arrays(_Start(*first) if is_pair else first, f"{name}.{reset}")

    with written_in_jax(f"{name}.{reset}"):
        first = jax.eval_shape(start, _key())
    if not isinstance(first, _Start):
        raise ValueError(
            f"{name}.{reset} must return two values (obs, state), got "
            f"{jax.tree.map(shape_and_dtype, first)}."
        )
    return first.obs, first.state


def traced_step(env: Environment, action: PyTree) -> tuple[PyTree, PyTree, PyTree]:
    """The shapes that a reset and a step of an environment return: observation, state, and outcome.

    Args:
        env: The environment.
        action: An action, as shapes.

    Returns:
        The observation and the state of the reset, and whatever the step returns.

    Raises:
        TypeError: One of them cannot be compiled.
        ValueError: The reset does not return two values.
    """
    obs, state = traced_reset(env)
    what = f"{env.wording.environment}.{env.wording.step}"

    def step(*args: PyTree) -> PyTree:
        return _of_arrays(env.step(*args), what)

    with written_in_jax(what):
        return obs, state, jax.eval_shape(step, _key(), state, action)


def check_reset(env: Environment) -> None:
    """Raises if an environment's reset cannot be compiled, or shows nothing.

    Args:
        env: The environment.

    Raises:
        TypeError: It cannot.
        ValueError: It does not return two values, writes to the environment, or has an empty array in
            its observation.
    """
    obs, _ = traced_reset(env)
    check_keeps_nothing(env)
    check_not_empty(obs, f"{env.wording.environment}.{env.wording.reset}")


def check_not_empty(obs: PyTree, what: str) -> None:
    """Raises if networks would see nothing, or an array without numbers.

    Args:
        obs: An observation, as shapes.
        what: What returns it, for the message.

    Raises:
        ValueError: They would.
    """
    leaves = jax.tree.leaves(network_input(obs))
    if not leaves or not all(leaf.size for leaf in leaves):
        raise ValueError(
            f"{what} returns an observation with nothing in it, or with arrays of no numbers, got the "
            f"shapes {jax.tree.map(lambda x: x.shape, obs)}: leave empty arrays out, and where nothing "
            "is observed, give an array of one zero."
        )


def check_keeps_nothing(env: Environment) -> None:
    """Raises if a reset or a step that was traced has written to the environment, or one inside of it.

    Args:
        env: The environment.

    Raises:
        ValueError: It has.
    """
    inside: Any = env
    while inside is not None:
        attributes = getattr(inside, "__dict__", {})
        written = traced_attributes(attributes)
        if written:
            raise ValueError("\n".join(told_of_writing(type(inside).__name__, written)))
        inside = attributes.get("env")


def traced_attributes(attributes: Mapping[str, Any]) -> list[str]:
    """The names of those attributes that hold arrays that are traced."""
    return [name for name, x in attributes.items() if any(map(is_traced, jax.tree.leaves(x)))]


def told_of_writing(name: str, attributes: list[str]) -> list[str]:
    """The messages about attributes of an environment that its reset or step writes to."""
    return [
        f"A reset or a step writes to {name}.{attribute}. They are traced once, not called at every "
        "step, so what they write is lost or, if it is traced, fails later: keep whatever changes in "
        "the state."
        for attribute in attributes
    ]


def _of_arrays(outcome: PyTree, what: str) -> PyTree:
    """The outcome of a method, if it is of arrays and numbers alone.

    Raises:
        TypeError: It is not.
    """
    for path, x in jax.tree_util.tree_leaves_with_path(outcome):
        dtype = getattr(x, "dtype", None)
        is_number = isinstance(x, bool | int | float | complex)
        if (dtype is None and not is_number) or getattr(dtype, "kind", "") in _OF_OBJECTS:
            place = jax.tree_util.keystr(path, simple=True, separator=".")
            raise TypeError(
                f"{what} returns {x!r} in {place}, but what compiled programs return is made of "
                "arrays: leave it out, or give a number in its place, such as the position of a name "
                "in a list."
            )
    return outcome


def _key() -> PyTree:
    return jax.eval_shape(lambda: jax.random.key(0))


@contextlib.contextmanager
def written_in_jax(what: str) -> Iterator[None]:
    """Explains the errors of JAX about functions that need numbers where there are none yet.

    Args:
        what: Name of the function that is called in the context.

    Raises:
        TypeError: The function needs numbers.
    """
    try:
        yield
    except _NEED_NUMBERS as error:
        raise TypeError(
            f"{what} is not written in JAX: while it is compiled its arrays hold no numbers yet, so "
            "that float(), int(), bool(), if, and functions of NumPy fail on them. Use jax.numpy, such "
            "as jnp.where(condition, a, b) for if. An environment that cannot be rewritten is driven on "
            "the host: see jaxagents.host.train_online."
        ) from error
