"""Traces of environments, which tell the shapes of what they give before anything is compiled."""

import contextlib
from collections.abc import Iterator

import jax
from jaxtyping import PyTree

from jaxagents.core.trees import shape_and_dtype
from jaxagents.envs.environment import Environment

_NEED_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def traced_step(env: Environment, action: PyTree) -> tuple[PyTree, PyTree, PyTree]:
    """The shapes that a reset and a step of an environment return: observation, state, and outcome.

    Args:
        env: The environment.
        action: An action, as shapes.

    Returns:
        The observation and the state of the reset, and whatever the step returns.

    Raises:
        ValueError: The reset does not return two values.
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    first = jax.eval_shape(lambda key: env.reset(key), key)
    if not (isinstance(first, tuple | list) and len(first) == 2):
        raise ValueError(
            f"{env.wording.environment}.{env.wording.reset} must return two values (obs, state), got "
            f"{jax.tree.map(shape_and_dtype, first)}."
        )
    obs, state = first
    with written_in_jax(f"{env.wording.environment}.{env.wording.step}"):
        return obs, state, jax.eval_shape(lambda *args: env.step(*args), key, state, action)


def check_reset(env: Environment) -> None:
    """Raises if an environment's reset cannot be compiled.

    Args:
        env: The environment.

    Raises:
        TypeError: It cannot.
    """
    name, reset, _ = env.wording
    with written_in_jax(f"{name}.{reset}"):
        jax.eval_shape(lambda key: env.reset(key), jax.eval_shape(lambda: jax.random.key(0)))


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
