"""Checks of the results of resets and steps of environments on the host."""

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import PyTree


def start_of(env: gymnasium.Env, returned: Any) -> tuple[PyTree, Any]:
    """The observation and the info that a reset has returned.

    Args:
        env: The environment.
        returned: What its reset returned.

    Returns:
        Both.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(
            f"{name_of(env)}.reset must return a tuple (observation, info), got {_kind(returned)}: "
            "environments of the old Gym return the observation alone."
        )
    return returned


def step_of(env: gymnasium.Env, returned: Any) -> tuple[PyTree, Any, Any, Any, Any]:
    """The observation, reward, both flags and the info that a step has returned.

    Args:
        env: The environment.
        returned: What its step returned.

    Returns:
        All five.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(returned, tuple) or len(returned) != 5:
        raise TypeError(
            f"{name_of(env)}.step must return a tuple (observation, reward, terminated, truncated, "
            f"info), got {_kind(returned)}: environments of the old Gym return four, with one done."
        )
    return returned


def reward_of(env: Any, reward: Any) -> float:
    """A reward as a float.

    Args:
        env: The environment, of Gymnasium or PettingZoo.
        reward: What its step returned as the reward.

    Returns:
        The number.

    Raises:
        TypeError: It is none.
    """
    if isinstance(reward, float | int):
        return float(reward)
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(f"{name_of(env)}.step must return a number as the reward, got {reward!r}.")
    return float(array.item())


def flag_of(env: gymnasium.Env, name: str, flag: Any) -> bool:
    """A flag as a boolean.

    Args:
        env: The environment.
        name: `"terminated"` or `"truncated"`.
        flag: What its step returned as that.

    Returns:
        Whether it is set.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(flag, bool | np.bool_):
        return bool(flag)
    array = np.asarray(flag)
    if array.size != 1 or array.item() not in (False, True):
        raise TypeError(f"{name_of(env)}.step must return a boolean as {name}, got {flag!r}.")
    return bool(array.item())


def name_of(env: Any) -> str:
    """The name of the class of an environment, without wrappers."""
    return type(env.unwrapped).__qualname__


def _kind(returned: Any) -> str:
    if isinstance(returned, tuple):
        return f"a tuple of {len(returned)}"
    return f"a value of the type {type(returned).__name__}"
