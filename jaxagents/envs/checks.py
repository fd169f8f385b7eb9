"""Checks of environments by their shapes alone, which agents run before compiling anything."""

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import (
    check_same_tree,
    check_size,
    in_32_bits,
    is_traced,
    narrow,
    shape_and_dtype,
    with_widths_of,
    written_in_jax,
)
from jaxagents.core.observed import action_mask, actor_mask, network_input
from jaxagents.envs.environment import Environment, Step, check_flag
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.play import random_action
from jaxagents.envs.spaces import Space, is_array, is_discrete, is_multi_discrete, map_spaces, parts

_NOT_NUMERIC = tuple("OSUMm")
"""Kinds of NumPy dtypes that JAX does not support."""


def check_environment(episodes: Episodes, action: PyTree) -> None:
    """Raises unless an environment's step matches its reset.

    Args:
        episodes: The environment.
        action: An action, as shapes.

    Raises:
        TypeError: Its reset or step cannot be compiled.
        ValueError: Structures, shapes or dtypes differ, there is not one reward per actor, the compiled
            program contains random numbers from the host, or the environment writes to itself.
    """
    before = _host_generators()
    mistakes = mistakes_in_shapes(episodes, action)
    if _host_generators() != before and _differs_from_trace_to_trace(episodes.env, action):
        name, reset, step = episodes.env.wording
        raise ValueError(
            f"{name}.{reset} or {name}.{step} draws random numbers with numpy.random or random: "
            "once compiled, they are constants, the same in every episode. Draw with "
            "jax.random and the given key."
        )
    if mistakes:
        raise ValueError("\n".join(mistakes))
    obs, _ = traced_reset(episodes.env)
    for doubt in doubts_about_dtypes(episodes.env, obs, exact=False):
        warnings.warn(doubt, stacklevel=2)


def check_n_actors(env: Environment, agent: str, several: bool) -> None:
    """Raises `ValueError` unless an environment has as many actors as the named agent needs."""
    name = env.wording.environment
    if several and env.n_actors is None:
        raise ValueError(
            f"{agent} needs a multi-agent environment, but {name} has no n_actors. Use PPO for "
            "a single agent."
        )
    if not several and (env.n_actors or 1) > 1:
        raise ValueError(
            f"{agent} trains a single agent, but {name} has n_actors={env.n_actors}. Use IPPO."
        )


def check_numbers(episodes: Episodes, numbers: Mapping[str, PyTree]) -> None:
    """Raises unless an environment can be compiled with some of its parameters traced.

    Args:
        episodes: The environment.
        numbers: The parameters from the hyperparameters, by name.

    Raises:
        TypeError: It cannot, or it does not have these parameters.
    """
    episodes.at_update(0, dict.fromkeys(numbers, 0.0))

    def play(given: dict[str, PyTree]) -> PyTree:
        now, key = episodes.at_update(0, given), jax.random.key(0)
        obs, state = now.reset(key)
        if now.action_space is None:
            return obs
        return now.play(key, state, random_action(now, key, obs))

    try:
        jax.eval_shape(play, dict.fromkeys(numbers, jax.ShapeDtypeStruct((), jnp.float32)))
    except TypeError as error:
        raise TypeError(
            f"HyperParameters.env_params names {sorted(numbers)}, but {episodes.env.name} needs "
            "the value of one while it is compiled, as for a shape or an if: pass it to the "
            "agent, with the other parameters of the environment."
        ) from error


def check_alike(own: Episodes, other: Episodes, name: str) -> None:
    """Raises unless episodes that began in one environment can continue in another.

    Args:
        own: Episodes of the first.
        other: Episodes of the other.
        name: Source of the other, for the message.

    Raises:
        ValueError: Their resets return observations or states of different structure, shape or dtype.
    """
    first, second = (jax.eval_shape(episodes.reset, jax.random.key(0)) for episodes in (own, other))
    for what, x, y in zip(("observation", "state"), first, second, strict=True):
        check_same_tree(x, y, f"The {what}", "the agent's own environment", name)


# Errors and warnings that `check_env` reports too.


def mistakes_in_shapes(episodes: Episodes, action: PyTree) -> list[str]:
    """Messages about wrong structures, shapes and dtypes that an environment returns."""
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
    what, info = f"{name}.{step}", outcome.info
    names = (*episodes.info_names.final, *episodes.info_names.summed)
    checks: list[tuple] = [
        (check_same_tree, obs, next_obs, f"{name}: the observation", reset, step),
        (check_same_tree, state, next_state, f"{name}: the state", reset, step),
        (check_flag, outcome.terminated, f"{what}: terminated"),
        (check_flag, outcome.truncated, f"{what}: truncated"),
        (check_size, outcome.reward, episodes.actors_shape, f"{what}: reward"),
        (check_masks, episodes),
    ]
    mistakes = []
    for check, *args in checks:
        try:
            check(*args)
        except ValueError as error:
            mistakes.append(str(error))
    if any(jnp.issubdtype(x.dtype, jnp.complexfloating) for x in jax.tree.leaves(outcome.reward)):
        found = shape_and_dtype(outcome.reward)
        mistakes.append(f"{what}: reward must be a real number, got {found}.")
    mistakes += [
        f"{part}: observation_space has shape {tuple(declared.shape)} and dtype "
        f"{jnp.dtype(declared.dtype)}, but {reset} returns {shape_and_dtype(found)}. Correct whichever "
        "is wrong."
        for part, declared, found in _with_declared(env.observation_space, obs, name)
        if tuple(declared.shape) != found.shape
    ]
    if not isinstance(info, dict):
        mistakes.append(f"{what}: info must be a dict, got {info!r}.")
    elif odd := [entry for entry in names if not hasattr(info.get(entry), "dtype")]:
        mistakes.append(
            f"final_info and summed_info name {odd}, but the info of {what} has {sorted(info)}: "
            "name entries that are single arrays."
        )
    return mistakes


def doubts_about_dtypes(env: Environment, obs: PyTree, exact: bool) -> list[str]:
    """Warnings about dtypes of observations; unless `exact`, only about dtypes of a different kind."""
    doubts, obs = [], jax.eval_shape(in_32_bits, obs)
    for part, declared, found in _with_declared(
        env.observation_space, obs, env.wording.environment
    ):
        dtype = jnp.dtype(declared.dtype)
        is_right = narrow(dtype) == found.dtype
        if not is_right and (exact or not jnp.can_cast(found.dtype, dtype, "same_kind")):
            doubts.append(
                f"{part}: observation_space has dtype {dtype}, but {env.wording.reset} returns dtype "
                f"{found.dtype}, which is what agents are trained with."
            )
    return doubts


# Spaces and masks of observations.


def _with_declared(
    space: Space, obs: PyTree, name: str
) -> Iterator[tuple[str, Space, jax.ShapeDtypeStruct]]:
    """Yields name, space and shape of each array of an observation whose space is declared."""
    for key, child in (parts(space) or {}).items():
        if isinstance(obs, dict):
            part = obs.get(key)
        else:
            part = getattr(obs, key, None) if isinstance(key, str) else obs[key]
        if part is not None:
            yield from _with_declared(child, part, f"{name}[{key!r}]")
    if parts(space) is None and is_array(space) and isinstance(obs, jax.ShapeDtypeStruct):
        yield name, space, obs


def check_masks(episodes: Episodes) -> None:
    """Raises unless action masks have a flag per action, and actor masks a flag per actor.

    Args:
        episodes: The environment.

    Raises:
        ValueError: A mask has a different shape or dtype, or it masks actions that are not discrete, or
            the only actor.
    """
    obs, _ = jax.eval_shape(episodes.reset, jax.eval_shape(lambda: jax.random.key(0)))
    space, shape = episodes.action_space, episodes.actors_shape
    name = episodes.env.wording.environment
    otherwise = "If it is something else, rename this entry of the observation."
    mask = action_mask(obs)
    if mask is not None and space is not None:
        expected = _mask_shapes(space, shape)
        if not jax.tree.leaves(expected):
            raise ValueError(
                f"{name} has an action mask, which only discrete actions can have, but its "
                f"action_space is {space!r}. {otherwise}"
            )
        are_flags = all(not jnp.issubdtype(x.dtype, jnp.inexact) for x in jax.tree.leaves(mask))
        if not (are_flags and _fits(mask, expected)):
            raise ValueError(
                f"{name}: the action mask must be boolean and have shape {expected}, one entry "
                f"for each action, got {jax.tree.map(shape_and_dtype, mask)}."
            )
    mask = actor_mask(obs)
    if mask is not None and not shape:
        raise ValueError(
            f"{name} has a mask of actors, but a single actor: episodes end when it leaves. "
            f"{otherwise}"
        )
    if mask is not None and (getattr(mask, "shape", None) != shape or mask.dtype != bool):
        raise ValueError(
            f"{name}: the mask of actors must be boolean and have shape {shape}, one flag for "
            f"each actor, got {jax.tree.map(shape_and_dtype, mask)}."
        )


def _mask_shapes(space: Space, actors_shape: tuple[int, ...]) -> PyTree:
    """The mask shapes of the parts of a space; `None` for a box, which has no mask."""

    def shapes(part: Space) -> PyTree:
        if is_multi_discrete(part):
            return tuple((*actors_shape, int(n)) for n in part.nvec)
        return (*actors_shape, int(part.n)) if is_discrete(part) else None

    return map_spaces(shapes, space)


def _fits(mask: PyTree, expected: PyTree) -> bool:
    """Whether a mask has the expected shapes; parts that are `None` mask nothing."""
    if mask is None:
        return True
    if isinstance(expected, dict):
        is_known = isinstance(mask, Mapping) and mask.keys() <= expected.keys()
        return is_known and all(_fits(part, expected[name]) for name, part in mask.items())
    if isinstance(expected, tuple) and not any(isinstance(n, int) for n in expected):
        is_alike = isinstance(mask, tuple) and len(mask) == len(expected)
        return is_alike and all(map(_fits, mask, expected))
    return getattr(mask, "shape", None) == expected


# Tracing: shapes, and state that a compiled program would lose.


def traced_reset(env: Environment) -> tuple[PyTree, PyTree]:
    """Traces `reset`; returns the shapes of the observation and the state.

    Raises:
        TypeError: It cannot be compiled.
        ValueError: It does not return two values, its observation has an empty array, or it writes to
            the environment or to a wrapped one.
    """
    what = f"{env.wording.environment}.{env.wording.reset}"
    is_pair = False

    def reset(key: PyTree) -> PyTree:
        nonlocal is_pair
        first = env.reset(key)
        is_pair = isinstance(first, tuple | list) and len(first) == len(("obs", "state"))
        return dict(zip(("obs", "state"), first, strict=True)) if is_pair else first

    first = _traced(env, reset, what)
    if not is_pair:
        raise ValueError(
            f"{what} must return two values (obs, state), got "
            f"{jax.tree.map(shape_and_dtype, first)}."
        )
    obs, state = first["obs"], first["state"]
    seen = jax.tree.leaves(network_input(obs))
    if not seen or not all(leaf.size for leaf in seen):
        raise ValueError(
            f"{what} returns an empty observation, or one with empty arrays, got the shapes "
            f"{jax.tree.map(lambda x: x.shape, obs)}: leave out empty arrays, and if nothing is "
            "observed, return an array of one zero."
        )
    return obs, state


def traced_step(env: Environment, action: PyTree) -> tuple[PyTree, PyTree, PyTree]:
    """Traces `reset` and `step`; returns the shapes of observation, state and outcome.

    Raises the errors of `traced_reset`.
    """
    obs, state = traced_reset(env)
    what = f"{env.wording.environment}.{env.wording.step}"
    return obs, state, _traced(env, env.step, what, state, action)


def _traced(env: Environment, method: Callable, what: str, *args: PyTree) -> PyTree:
    """Traces a method with a random key and additional arguments; returns the shapes of its outputs."""

    def call(*args: PyTree) -> PyTree:
        outcome = method(*args)
        for path, x in jax.tree_util.tree_leaves_with_path(outcome):
            dtype = getattr(x, "dtype", None)
            is_number = isinstance(x, bool | int | float | complex)
            if (dtype is None and not is_number) or getattr(dtype, "kind", "") in _NOT_NUMERIC:
                place = jax.tree_util.keystr(path, simple=True, separator=".")
                raise TypeError(
                    f"{what} returns {x!r} in {place}, but compiled programs return only "
                    "arrays: leave it out, or return a number instead, such as the index of a "
                    "name in a list."
                )
        return outcome

    advice = (
        "An environment that you cannot rewrite can run on the host: give it Gymnasium's interface."
    )
    with written_in_jax(what, advice):
        outcome = jax.eval_shape(call, jax.eval_shape(lambda: jax.random.key(0)), *args)
    inside: Any = env
    while inside is not None:
        attributes = getattr(inside, "__dict__", {})
        written = written_attributes(inside, attributes)
        if written:
            raise ValueError("\n".join(written))
        inside = attributes.get("env")
    return outcome


def written_attributes(env: Any, before: Mapping[str, Any]) -> list[str]:
    """Messages about attributes of an environment that a traced reset or step wrote to."""
    now = getattr(env, "__dict__", {})
    changed = [name for name, x in before.items() if now.get(name) is not x]
    traced = [name for name, x in now.items() if any(map(is_traced, jax.tree.leaves(x)))]
    return [
        f"A reset or a step writes to {type(env).__name__}.{name}. They are traced once, not "
        "called at every step, so what they write is lost or, if it is traced, fails later: "
        "keep everything that changes in the state."
        for name in dict.fromkeys([*changed, *traced])
    ]


def _host_generators() -> Any:
    """States of the global random generators of `random` and `numpy.random`."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), state[1].tobytes(), state[2:]


def _differs_from_trace_to_trace(env: Environment, action: PyTree) -> bool:
    def play(key: PyTree, action: PyTree) -> PyTree:
        obs, state = env.reset(key)
        return obs, env.step(key, state, action)

    # A new function each time, since JAX caches traces.
    key = jax.eval_shape(lambda: jax.random.key(0))
    first, second = (jax.make_jaxpr(lambda *args: play(*args))(key, action) for _ in range(2))
    return str(first) != str(second) or not all(map(np.array_equal, first.consts, second.consts))
