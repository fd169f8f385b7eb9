"""Checks of what a user brings, made on shapes alone, before anything is compiled."""

import operator
from typing import Any

import jax
import jax.numpy as jnp

from jaxagents.core.keys import as_key
from jaxagents.envs.episodes import Episodes


def positive(name: str, value: Any) -> int:
    """A positive integer.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is not positive.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__}).")
    if operator.index(value) < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return operator.index(value)


def check_environment_methods(env: Any) -> None:
    """Raises if an object is not an environment.

    Raises:
        TypeError: A method is missing.
    """
    missing = [name for name in ("reset_env", "step_env") if not callable(getattr(env, name, None))]
    if missing:
        raise TypeError(
            f"{type(env).__name__} is not an environment: it lacks {' and '.join(missing)}. Needed are "
            "reset_env(key, params) -> (obs, state) and "
            "step_env(key, state, action, params) -> (obs, state, reward, terminated, info)."
        )


def check_one_actor(env: Any, name: str) -> None:
    """Raises if an environment has several actors.

    Args:
        env: The environment.
        name: Name of the agent, which trains one.

    Raises:
        ValueError: It has.
    """
    n_actors = int(getattr(env, "n_actors", 1))
    if n_actors > 1:
        raise ValueError(
            f"{name} trains one actor, but {type(env).__name__} has {n_actors}. Use IPPO."
        )


def check_eval_rng(rng: Any) -> None:
    """Raises if `config.eval_rng` is neither `None` nor a random key."""
    if rng is not None:
        as_key(rng)


def check_single(runner: Any) -> None:
    """Raises if a runner is a stack of several trainings.

    Raises:
        ValueError: It is.
    """
    if jnp.ndim(runner.update_step):
        raise ValueError(
            f"This runner is a stack of {runner.update_step.size} trainings: select one with "
            "jax.tree.map(lambda x: x[i], (runner, metrics)), or go on with all in jax.vmap."
        )


def check_environment(episodes: Episodes, action: Any) -> None:
    """Raises unless an environment's step gives back what its reset gave.

    Args:
        episodes: The environment.
        action: An action, as shapes.

    Raises:
        ValueError: Structure, shape or dtype differ, or rewards are not one for each actor.
    """
    env, params = episodes.env, episodes.env_params
    key = jax.eval_shape(lambda: jax.random.key(0))
    name = type(env).__name__
    obs, state = jax.eval_shape(lambda key: env.reset_env(key, params), key)
    outcome = jax.eval_shape(lambda *args: env.step_env(*args, params), key, state, action)
    if len(outcome) != 5:
        raise ValueError(
            f"{name}.step_env must return five values (obs, state, reward, terminated, info), "
            f"got {len(outcome)}."
        )
    next_obs, next_state, reward, done, info = outcome
    if not isinstance(info, dict):
        raise ValueError(f"{name}.step_env: info must be a dict, got {info!r}.")
    check_same_tree(obs, next_obs, f"{name}: the observation", "reset_env", "step_env")
    check_same_tree(state, next_state, f"{name}: the state", "reset_env", "step_env")
    check_size(done, (), f"{name}.step_env: terminated")
    check_size(reward, episodes.actors_shape, f"{name}.step_env: reward")
    if episodes.observation_space is not None:
        _check_space(episodes.observation_space, obs, name)


def check_same_tree(first: Any, second: Any, what: str, first_name: str, second_name: str) -> None:
    """Raises if two pytrees differ in structure, or in the shape or dtype of a leaf.

    Raises:
        ValueError: They differ; the first differing leaf is named.
    """
    first_leaves, first_structure = jax.tree_util.tree_flatten_with_path(first)
    second_leaves, second_structure = jax.tree_util.tree_flatten_with_path(second)
    if first_structure != second_structure:
        raise ValueError(
            f"{what} of {first_name} and {second_name} differ in structure: "
            f"{first_structure} and {second_structure}."
        )
    for (path, a), (_, b) in zip(first_leaves, second_leaves, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            leaf = jax.tree_util.keystr(path, simple=True, separator="/")
            raise ValueError(
                f"{what}{f' at {leaf}' if leaf else ''} is {_text(a)} from {first_name} but "
                f"{_text(b)} from {second_name}. Make both the same (for instance with "
                "jnp.asarray(x, dtype))."
            )


def check_size(x: Any, shape: tuple[int, ...], what: str) -> None:
    """Raises unless an output has as many elements as it should.

    Raises:
        ValueError: It is not one array of that size.
    """
    if not hasattr(x, "shape"):
        raise ValueError(f"{what} must be one array of shape {shape}, got {x}.")
    allowed = (shape, (*shape, 1)) if shape != () else ((), (1,))
    if x.shape not in allowed:
        raise ValueError(f"{what} must have shape {shape}, got {_text(x)}.")


def _check_space(space: Any, obs: Any, name: str) -> None:
    if hasattr(space, "spaces"):
        children = space.spaces
        items = children.items() if isinstance(children, dict) else enumerate(children)
        for key, child in items:
            part = obs.get(key) if isinstance(obs, dict) else _child(obs, key)
            if part is not None:
                _check_space(child, part, f"{name}[{key!r}]")
        return
    if not hasattr(space, "shape") or not hasattr(obs, "shape"):
        return
    shape, dtype = tuple(space.shape), jnp.dtype(space.dtype)
    if shape != obs.shape or not (dtype == obs.dtype or _widens(obs.dtype, dtype)):
        raise ValueError(
            f"{name}: observation_space has shape {shape} and dtype {dtype}, but reset_env returns "
            f"{_text(obs)}. Correct whichever is wrong."
        )


def _child(obs: Any, key: Any) -> Any:
    return getattr(obs, key, None) if isinstance(key, str) else obs[key]


def _widens(narrow: Any, wide: Any) -> bool:
    kinds = "biuf"
    narrow, wide = jnp.dtype(narrow), jnp.dtype(wide)
    if narrow.kind == wide.kind:
        return True
    return kinds.find(narrow.kind) < kinds.find(wide.kind)


def _text(x: Any) -> str:
    return f"shape {tuple(x.shape)} and dtype {x.dtype}"


def check_dataset_observations(observations: Any, expected: Any) -> None:
    """Raises unless a dataset's observations are those of an environment.

    Args:
        observations: Arrays with a leading axis of rows.
        expected: One observation of the environment, as shapes.

    Raises:
        ValueError: Structure or shape differ.
    """
    found = jax.tree.map(lambda x: tuple(x.shape[1:]), observations)
    own = jax.tree.map(lambda x: tuple(x.shape), expected)
    if found != own:
        raise ValueError(
            f"The dataset's observations have shape {found}, but those of the environment have {own}."
        )
