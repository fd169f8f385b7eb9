"""Checks of environments, made on shapes alone, before anything is compiled."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PyTree

from jaxagents.core.arrays import in_32_bits, narrow, with_widths_of
from jaxagents.core.observed import action_mask
from jaxagents.core.trees import check_same_tree, check_size, shape_and_dtype
from jaxagents.envs.constant_noise import without_constant_noise
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.play import NAMES_OF_METRICS
from jaxagents.envs.spaces import (
    Space,
    is_array,
    is_discrete,
    is_multi_discrete,
    map_spaces,
    parts,
)

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
        ValueError: Structure, shape or dtype differ, rewards are not one for each actor, or numbers that
            are drawn on the host are a part of its program.
    """
    with without_constant_noise(episodes.env, action):
        mistakes = mistakes_in_shapes(episodes, action)
    if mistakes:
        raise ValueError("\n".join(mistakes))
    for doubt in _doubts_about_kinds(episodes.env):
        warnings.warn(doubt, stacklevel=2)


def mistakes_in_shapes(episodes: Episodes, action: PyTree) -> list[str]:
    """What is wrong with the structures, shapes and dtypes that an environment gives, in words.

    Args:
        episodes: The environment.
        action: An action, as shapes.

    Returns:
        The mistakes; none if there is nothing wrong.
    """
    env = episodes.env
    name, reset, step = env.wording
    obs, state, outcome = traced_step(env, action)
    if not isinstance(outcome, Step):
        return [
            f"{name}.{step} must return a jaxagents.envs.Step(obs, state, reward, terminated, "
            f"truncated, info), got a {type(outcome).__name__}."
        ]
    obs, next_obs = jax.eval_shape(in_32_bits, (obs, outcome.obs))
    next_state = jax.eval_shape(with_widths_of, state, outcome.state)
    actors_shape, what = episodes.actors_shape, f"{name}.{step}"
    checks = [
        (check_info, outcome.info, what),
        (check_same_tree, obs, next_obs, f"{name}: the observation", reset, step),
        (check_same_tree, state, next_state, f"{name}: the state", reset, step),
        (check_flag, outcome.terminated, f"{what}: terminated"),
        (check_flag, outcome.truncated, f"{what}: truncated"),
        (check_size, outcome.reward, actors_shape, f"{what}: reward"),
        (_check_real, outcome.reward, f"{what}: reward"),
        (_check_space, env.observation_space, obs, name, reset),
        (check_action_mask, episodes),
        (_check_info_names, episodes, outcome.info if isinstance(outcome.info, dict) else {}, what),
    ]
    return [mistake for check, *args in checks for mistake in _mistakes(check, *args)]


def doubts_about_dtypes(episodes: Episodes, action: PyTree) -> list[str]:
    """What is unusual about the dtypes of an environment in whose shapes there is no mistake, in words.

    Args:
        episodes: The environment.
        action: An action, as shapes.

    Returns:
        The doubts.
    """
    env = episodes.env
    name, reset, step = env.wording
    obs, _, outcome = traced_step(env, action)
    flags = {"terminated": outcome.terminated, "truncated": outcome.truncated}
    return [
        f"{part}: observation_space has dtype {jnp.dtype(declared.dtype)}, but {reset} returns dtype "
        f"{found.dtype}."
        for part, declared, found in _with_declared(env.observation_space, obs, name)
        if narrow(jnp.dtype(declared.dtype)) != narrow(found.dtype)
    ] + [
        f"{name}.{step}: {flag} has dtype {x.dtype}, and all but 0 counts as true. Make it boolean."
        for flag, x in flags.items()
        if x.dtype != bool
    ]


def _doubts_about_kinds(env: Environment) -> list[str]:
    """Doubts about observations of another kind of numbers than their space declares, in words."""
    name, reset, _ = env.wording
    obs, _ = jax.eval_shape(in_32_bits, jax.eval_shape(lambda: env.reset(jax.random.key(0))))
    return [
        f"{part}: observation_space has dtype {jnp.dtype(declared.dtype)}, but {reset} returns dtype "
        f"{found.dtype}, which is what agents are trained with."
        for part, declared, found in _with_declared(env.observation_space, obs, name)
        if not _widens(found.dtype, declared.dtype)
    ]


def traced_step(env: Environment, action: PyTree) -> tuple[PyTree, PyTree, PyTree]:
    """What a reset and a step of an environment return, as shapes: observation, state, and outcome.

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


def check_action_mask(episodes: Episodes) -> None:
    """Raises unless the mask of actions in the observations, if there is one, has one entry for each.

    Args:
        episodes: The environment.

    Raises:
        ValueError: It has others, or the actions are not discrete.
    """
    obs, _ = jax.eval_shape(episodes.reset, jax.eval_shape(lambda: jax.random.key(0)))
    mask, space = action_mask(obs), episodes.action_space
    if mask is None or space is None:
        return
    name = episodes.env.wording.environment
    expected = _given(map_spaces(lambda part: _mask_shape(part, episodes.actors_shape), space))
    if not jax.tree.leaves(expected):
        raise ValueError(
            f"{name} has a mask of actions, which only discrete actions can have, but its action_space "
            f"is {space!r}. Name the entry of the observation otherwise if it is something else."
        )
    found = _given(jax.tree.map(lambda x: x.shape, mask))
    flags = [not jnp.issubdtype(x.dtype, jnp.inexact) for x in jax.tree.leaves(mask)]
    if found != expected or not all(flags):
        raise ValueError(
            f"{name}: the mask of actions must be boolean and have shape {expected}, an entry for each "
            f"action, got {jax.tree.map(shape_and_dtype, mask)}."
        )


def _mask_shape(space: Space, actors_shape: tuple[int, ...]) -> PyTree:
    """The shape of the mask of a space, or of those of several discrete actions; `None` for a box."""
    if is_multi_discrete(space):
        return tuple((*actors_shape, int(n)) for n in space.nvec)
    return (*actors_shape, int(space.n)) if is_discrete(space) else None


def _given(shapes: PyTree) -> PyTree:
    """Shapes without the entries of dicts that have none."""
    if not isinstance(shapes, dict):
        return shapes
    return {name: _given(shape) for name, shape in shapes.items() if shape is not None}


def _check_real(x: PyTree, what: str) -> None:
    if jnp.issubdtype(getattr(x, "dtype", jnp.float32), jnp.complexfloating):
        raise ValueError(f"{what} must be a real number, got {shape_and_dtype(x)}.")


def _mistakes(check: Callable[..., None], *args: Any) -> list[str]:
    """What a check says, if it raises."""
    try:
        check(*args)
    except ValueError as error:
        return [str(error)]
    return []


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


def _check_info_names(episodes: Episodes, info: dict[str, Any], what: str) -> None:
    names = (*episodes.info_names.final, *episodes.info_names.summed)
    missing = [name for name in names if name not in info]
    if missing:
        raise ValueError(
            f"final_info and summed_info name {missing}, but the info of {what} has {sorted(info)}."
        )
    taken = [name for name in names if name in NAMES_OF_METRICS or names.count(name) > 1]
    if taken:
        raise ValueError(
            f"final_info and summed_info name {taken}, which name another metric, or are named twice: "
            "have the environment give it under another name."
        )
    odd = [name for name in names if not hasattr(info[name], "dtype")]
    if odd:
        raise ValueError(f"Entries {odd} of the info of {what} are no single arrays.")


def _check_space(space: Space, obs: PyTree, name: str, reset: str) -> None:
    for part, declared, found in _with_declared(space, obs, name):
        shape, dtype = tuple(declared.shape), jnp.dtype(declared.dtype)
        if shape != found.shape:
            raise ValueError(
                f"{part}: observation_space has shape {shape} and dtype {dtype}, but {reset} returns "
                f"{shape_and_dtype(found)}. Correct whichever is wrong."
            )


def _with_declared(
    space: Space, obs: PyTree, name: str
) -> Iterator[tuple[str, Space, jax.ShapeDtypeStruct]]:
    """The arrays that spaces are declared for: the name of each, its space, and its shape."""
    children = parts(space)
    if children is not None:
        for key, child in children.items():
            part = obs.get(key) if isinstance(obs, dict) else _child(obs, key)
            if part is not None:
                yield from _with_declared(child, part, f"{name}[{key!r}]")
    elif is_array(space) and isinstance(obs, jax.ShapeDtypeStruct):
        yield name, space, obs


def _child(obs: PyTree, key: object) -> PyTree:
    return getattr(obs, key, None) if isinstance(key, str) else obs[key]


def _widens(narrow: DTypeLike, wide: DTypeLike) -> bool:
    kinds = "biuf"
    narrow, wide = jnp.dtype(narrow), jnp.dtype(wide)
    if narrow.kind == wide.kind:
        return True
    return kinds.find(narrow.kind) < kinds.find(wide.kind)
