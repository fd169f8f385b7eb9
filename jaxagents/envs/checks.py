"""Checks of environments, made on shapes alone, before anything is compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxagents.core.trees import check_same_tree, check_size, shape_and_dtype
from jaxagents.envs.episodes import Episodes


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
            f"{shape_and_dtype(obs)}. Correct whichever is wrong."
        )


def _child(obs: Any, key: Any) -> Any:
    return getattr(obs, key, None) if isinstance(key, str) else obs[key]


def _widens(narrow: Any, wide: Any) -> bool:
    kinds = "biuf"
    narrow, wide = jnp.dtype(narrow), jnp.dtype(wide)
    if narrow.kind == wide.kind:
        return True
    return kinds.find(narrow.kind) < kinds.find(wide.kind)
