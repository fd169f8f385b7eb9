"""Checks of the results of a Gymnasium environment."""

from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.envs.on_host.returned import flag_of, reward_of, start_of, step_of


class Outcome(NamedTuple):
    """The outcome of a step.

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
    observation, _ = start_of(env, env.reset(seed=seed))
    return observation


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
    observation, reward, terminated, truncated, _ = step_of(env, env.step(action))
    return Outcome(
        observation,
        reward_of(env, reward),
        flag_of(env, "terminated", terminated),
        flag_of(env, "truncated", truncated),
    )


def is_finite(observation: PyTree) -> bool:
    """Whether all numbers of an observation are finite."""
    if isinstance(observation, np.ndarray):
        return _is_finite(observation)
    return all(map(_is_finite, jax.tree.leaves(observation)))


def _is_finite(leaf: Any) -> bool:
    array = np.asarray(leaf)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
