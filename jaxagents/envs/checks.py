"""Checks of environments, made on shapes alone, before anything is compiled."""

import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PyTree

from jaxagents.core.arrays import in_32_bits, with_widths_of
from jaxagents.core.trees import check_same_tree, check_size, shape_and_dtype
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.spaces import Space, is_array, parts

_NEED_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def check_one_actor(env: Environment, name: str) -> None:
    """Raises if an environment has several actors.

    Args:
        env: The environment.
        name: Name of the agent, which trains one.

    Raises:
        ValueError: It does.
    """
    if env.n_actors is not None and env.n_actors > 1:
        raise ValueError(
            f"{name} trains one actor, but {env.wording.environment} has {env.n_actors}. Use IPPO."
        )


def check_several_actors(env: Environment, name: str) -> None:
    """Raises unless an environment has an axis of actors.

    Args:
        env: The environment.
        name: Name of the agent, which trains several.

    Raises:
        ValueError: It does not.
    """
    if env.n_actors is None:
        raise ValueError(
            f"{name} needs an environment of several actors, but {env.wording.environment} has no "
            "n_actors. Use PPO for one actor."
        )


def check_environment(episodes: Episodes, action: PyTree) -> None:
    """Raises unless an environment's step gives back what its reset gave.

    Args:
        episodes: The environment.
        action: An action, as shapes.

    Raises:
        ValueError: Structure, shape or dtype differ, or rewards are not one for each actor.
    """
    env = episodes.env
    name, reset, step = env.wording
    key = jax.eval_shape(lambda: jax.random.key(0))
    obs, state = jax.eval_shape(lambda key: env.reset(key), key)
    with written_in_jax(f"{name}.{step}"):
        outcome = jax.eval_shape(lambda *args: env.step(*args), key, state, action)
    if not isinstance(outcome, Step):
        raise ValueError(
            f"{name}.{step} must return a jaxagents.envs.Step(obs, state, reward, terminated, "
            f"truncated, info), got a {type(outcome).__name__}."
        )
    check_info(outcome.info, f"{name}.{step}")
    obs, next_obs = jax.eval_shape(in_32_bits, (obs, outcome.obs))
    next_state = jax.eval_shape(with_widths_of, state, outcome.state)
    check_same_tree(obs, next_obs, f"{name}: the observation", reset, step)
    check_same_tree(state, next_state, f"{name}: the state", reset, step)
    check_flag(outcome.terminated, f"{name}.{step}: terminated")
    check_flag(outcome.truncated, f"{name}.{step}: truncated")
    check_size(outcome.reward, episodes.actors_shape, f"{name}.{step}: reward")
    if jnp.issubdtype(outcome.reward.dtype, jnp.complexfloating):
        raise ValueError(
            f"{name}.{step}: reward must be a real number, got {shape_and_dtype(outcome.reward)}."
        )
    if env.observation_space is not None:
        _check_space(env.observation_space, obs, name, reset)


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


def check_flag(x: PyTree, what: str) -> None:
    """Raises unless this is a single truth value.

    Args:
        x: The value, or its shape and dtype.
        what: Its name.

    Raises:
        ValueError: It is of another shape, or a float, of which it is not known what counts as true.
    """
    check_size(x, (), what)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        raise ValueError(
            f"{what} must be a boolean, got {shape_and_dtype(x)}: give one, such as done > 0.5."
        )


def check_info(info: object, what: str) -> None:
    """Raises unless the info of a step is a dict.

    Args:
        info: The info.
        what: Name of the step, for the message.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(info, dict):
        raise ValueError(f"{what}: info must be a dict, got {info!r}.")


def _check_space(space: Space, obs: PyTree, name: str, reset: str) -> None:
    children = parts(space)
    if children is not None:
        for key, child in children.items():
            part = obs.get(key) if isinstance(obs, dict) else _child(obs, key)
            if part is not None:
                _check_space(child, part, f"{name}[{key!r}]", reset)
        return
    if not is_array(space) or not isinstance(obs, jax.ShapeDtypeStruct):
        return
    shape, dtype = tuple(space.shape), jnp.dtype(space.dtype)
    if shape != obs.shape or not (dtype == obs.dtype or _widens(obs.dtype, dtype)):
        raise ValueError(
            f"{name}: observation_space has shape {shape} and dtype {dtype}, but {reset} returns "
            f"{shape_and_dtype(obs)}. Correct whichever is wrong."
        )


def _child(obs: PyTree, key: object) -> PyTree:
    return getattr(obs, key, None) if isinstance(key, str) else obs[key]


def _widens(narrow: DTypeLike, wide: DTypeLike) -> bool:
    kinds = "biuf"
    narrow, wide = jnp.dtype(narrow), jnp.dtype(wide)
    if narrow.kind == wide.kind:
        return True
    return kinds.find(narrow.kind) < kinds.find(wide.kind)
