"""What a Gymnasium environment returns, checked."""

from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from jaxtyping import PyTree


class Outcome(NamedTuple):
    """What a step led to.

    Attributes:
        observation: What is observed after it, as the environment's own array.
        reward: The reward.
        terminated: Whether the environment ended the episode.
        truncated: Whether a limit cut it.
    """

    observation: PyTree
    reward: float
    terminated: bool
    truncated: bool


def begin(env: gymnasium.Env, seed: int) -> PyTree:
    """Begins an episode.

    Args:
        env: The environment.
        seed: Seed of the episode.

    Returns:
        The first observation, as the environment's own array.

    Raises:
        TypeError: The environment does not return an observation and a dict.
    """
    returned: Any = env.reset(seed=seed)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(
            f"{_name(env)}.reset must return a tuple (observation, info), got {_kind(returned)}: "
            "environments of the old Gym return the observation alone."
        )
    return returned[0]


def take(env: gymnasium.Env, action: Any) -> Outcome:
    """Takes an action.

    Args:
        env: The environment.
        action: The action, of the environment's space.

    Returns:
        What it led to.

    Raises:
        TypeError: The environment does not return what those of Gymnasium do.
    """
    returned: Any = env.step(action)
    if not isinstance(returned, tuple) or len(returned) != 5:
        raise TypeError(
            f"{_name(env)}.step must return a tuple (observation, reward, terminated, truncated, info), "
            f"got {_kind(returned)}: environments of the old Gym return four, with one done."
        )
    observation, reward, terminated, truncated, _ = returned
    return Outcome(
        observation,
        _number(env, reward),
        _flag(env, "terminated", terminated),
        _flag(env, "truncated", truncated),
    )


def is_finite(observation: PyTree) -> bool:
    """Whether all numbers of an observation are finite."""
    if isinstance(observation, np.ndarray):
        return _is_finite(observation)
    return all(map(_is_finite, jax.tree.leaves(observation)))


def _is_finite(leaf: Any) -> bool:
    array = np.asarray(leaf)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _number(env: gymnasium.Env, reward: Any) -> float:
    if isinstance(reward, float | int):
        return float(reward)
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(f"{_name(env)}.step must return a number as the reward, got {reward!r}.")
    return float(array.item())


def _flag(env: gymnasium.Env, name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    array = np.asarray(value)
    if array.size != 1 or array.item() not in (False, True):
        raise TypeError(f"{_name(env)}.step must return a boolean as {name}, got {value!r}.")
    return bool(array.item())


def _name(env: gymnasium.Env) -> str:
    return type(env.unwrapped).__qualname__


def _kind(returned: Any) -> str:
    if isinstance(returned, tuple):
        return f"a tuple of {len(returned)}"
    return f"a value of the type {type(returned).__name__}"
