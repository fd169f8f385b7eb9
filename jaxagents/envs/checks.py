"""Checks of environments, made on shapes alone, before anything is compiled."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxagents.core.arrays import in_32_bits, narrow, with_widths_of
from jaxagents.core.observed import ACTION_MASK, ACTOR_MASK, action_mask
from jaxagents.core.trees import check_same_tree, check_size, shape_and_dtype
from jaxagents.envs.constant_noise import without_constant_noise
from jaxagents.envs.declarations import (
    check_action_mask,
    check_actor_mask,
    check_space,
    doubts_about_kinds,
    with_declared,
)
from jaxagents.envs.environment import Environment, Moment, Step
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.play import NAMES_OF_METRICS
from jaxagents.envs.random_play import player_of
from jaxagents.envs.spaces import is_discrete
from jaxagents.envs.tracing import check_keeps_nothing, check_not_empty, traced_step


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
        TypeError: Its reset or step cannot be compiled.
        ValueError: Structure, shape or dtype differ, rewards are not one for each actor, numbers that
            are drawn on the host are a part of its program, or it writes to itself.
    """
    with without_constant_noise(episodes.env, action):
        mistakes = mistakes_in_shapes(episodes, action)
    if mistakes:
        raise ValueError("\n".join(mistakes))
    check_keeps_nothing(episodes.env)
    for doubt in doubts_about_kinds(episodes.env):
        warnings.warn(doubt, stacklevel=2)


def check_numbers(episodes: Episodes, numbers: Mapping[str, PyTree]) -> None:
    """Raises unless an environment can be compiled without some of its parameters being known.

    Args:
        episodes: The environment.
        numbers: The parameters that hyperparameters give, by name.

    Raises:
        TypeError: It cannot, or has no such parameters.
    """
    episodes.at(Moment(0, dict.fromkeys(numbers, 0.0)))

    def play(given: dict[str, PyTree]) -> PyTree:
        now, key = episodes.at(Moment(0, given)), jax.random.key(0)
        obs, state = now.reset(key)
        if now.action_space is None:
            return obs
        action = player_of(now.action_space, now.actors_shape)(key, obs)
        return now.play(key, state, action)

    try:
        jax.eval_shape(play, dict.fromkeys(numbers, jax.ShapeDtypeStruct((), jnp.float32)))
    except TypeError as error:
        raise TypeError(
            f"HyperParameters.env_params names {sorted(numbers)}, but {episodes.env.name} needs to know "
            "one of these while it is compiled, as for a shape or an if: give it to the agent, among "
            "the parameters of the environment."
        ) from error


def check_alike(own: Episodes, other: Episodes, name: str) -> None:
    """Raises unless episodes that began in one environment can go on in another.

    Args:
        own: The episodes of the first.
        other: Those of the other.
        name: What gives the other, for the message.

    Raises:
        ValueError: A reset gives observations or states of another structure, shape or dtype.
    """
    first, second = (jax.eval_shape(episodes.reset, jax.random.key(0)) for episodes in (own, other))
    for what, x, y in zip(("observation", "state"), first, second, strict=True):
        check_same_tree(x, y, f"The {what}", "the agent's own environment", name)


def mistakes_in_shapes(episodes: Episodes, action: PyTree) -> list[str]:
    """Mistakes in the structures, shapes and dtypes that an environment gives, in words.

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
        (check_not_empty, obs, f"{name}.{reset}"),
        (check_info, outcome.info, what),
        (check_same_tree, obs, next_obs, f"{name}: the observation", reset, step),
        (check_same_tree, state, next_state, f"{name}: the state", reset, step),
        (check_flag, outcome.terminated, f"{what}: terminated"),
        (check_flag, outcome.truncated, f"{what}: truncated"),
        (check_size, outcome.reward, actors_shape, f"{what}: reward"),
        (_check_real, outcome.reward, f"{what}: reward"),
        (check_space, env.observation_space, obs, name, reset),
        (check_action_mask, episodes),
        (check_actor_mask, episodes),
        (_check_info_names, episodes, outcome.info if isinstance(outcome.info, dict) else {}, what),
    ]
    return [mistake for check, *args in checks for mistake in _mistakes(check, *args)]


def doubts_about_outputs(episodes: Episodes, action: PyTree) -> list[str]:
    """Doubts about what an environment returns whose shapes are right, in words.

    They are about dtypes, and about flags of actions that no agent takes for a mask.

    Args:
        episodes: The environment.
        action: An action, as shapes.

    Returns:
        The doubts.
    """
    obs, _, step = traced_step(episodes.env, action)
    return _doubts_about_dtypes(episodes.env, obs, step) + _doubts_about_masks(episodes, obs)


def _doubts_about_dtypes(env: Environment, obs: PyTree, outcome: Step) -> list[str]:
    name, reset, step = env.wording
    flags = {"terminated": outcome.terminated, "truncated": outcome.truncated}
    return [
        f"{part}: observation_space has dtype {jnp.dtype(declared.dtype)}, but {reset} returns dtype "
        f"{found.dtype}."
        for part, declared, found in with_declared(env.observation_space, obs, name)
        if narrow(jnp.dtype(declared.dtype)) != narrow(found.dtype)
    ] + [
        f"{name}.{step}: {flag} has dtype {x.dtype}, and all but 0 counts as true. Make it boolean."
        for flag, x in flags.items()
        if x.dtype != bool
    ]


def _doubts_about_masks(episodes: Episodes, obs: PyTree) -> list[str]:
    space, (name, reset, _) = episodes.action_space, episodes.env.wording
    if not is_discrete(space) or not isinstance(obs, Mapping) or action_mask(obs) is not None:
        return []
    flags = {key: x for key, x in obs.items() if hasattr(x, "dtype") and x.dtype == bool}
    return [
        f"{name}.{reset}: the entry {key!r} of observations has a flag for each of the {space.n} "
        f"actions. If it says which are allowed, call it {ACTION_MASK!r}: under another name it is a "
        "part of what networks see."
        for key, x in flags.items()
        if key != ACTOR_MASK and x.shape[-1:] == (space.n,)
    ]


def _check_real(x: PyTree, what: str) -> None:
    if jnp.issubdtype(getattr(x, "dtype", jnp.float32), jnp.complexfloating):
        raise ValueError(f"{what} must be a real number, got {shape_and_dtype(x)}.")


def _mistakes(check: Callable[..., None], *args: Any) -> list[str]:
    """The message of a check, if it raises."""
    try:
        check(*args)
    except ValueError as error:
        return [str(error)]
    return []


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


def check_names_are_free(episodes: Episodes) -> None:
    """Raises if entries of the info would take the place of other metrics, or of one another.

    Args:
        episodes: The environment, with the names.

    Raises:
        ValueError: They would.
    """
    names = (*episodes.info_names.final, *episodes.info_names.summed)
    taken = [name for name in names if name in NAMES_OF_METRICS or names.count(name) > 1]
    if taken:
        raise ValueError(
            f"final_info and summed_info name {taken}, which name another metric, or are named twice: "
            "have the environment give it under another name."
        )


def _check_info_names(episodes: Episodes, info: dict[str, PyTree], what: str) -> None:
    names = (*episodes.info_names.final, *episodes.info_names.summed)
    missing = [name for name in names if name not in info]
    if missing:
        raise ValueError(
            f"final_info and summed_info name {missing}, but the info of {what} has {sorted(info)}."
        )
    check_names_are_free(episodes)
    odd = [name for name in names if not hasattr(info[name], "dtype")]
    if odd:
        raise ValueError(f"Entries {odd} of the info of {what} are no single arrays.")
