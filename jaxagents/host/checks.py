"""Checks of what a training on the host is given, before anything runs."""

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from jaxagents.data import ReplayBuffer, rows
from jaxagents.host.episodes import example_transition

_TAKEN = (
    "step",
    "returns",
    "lengths",
    "final_rewards",
    "terminated",
    "truncated",
    "episode_return",
)


def check_acts(learner: Any, env: gymnasium.Env) -> None:
    """Raises unless a learner gives actions that an environment takes.

    Args:
        learner: The learner.
        env: The environment, with rescaled actions.

    Raises:
        ValueError: It cannot take the environment's observations, or gives other actions.
    """
    name, space = type(learner).__name__, env.action_space
    example = example_transition(env)
    try:
        action = jax.eval_shape(_mode, learner, example["observations"])
    except Exception as error:
        raise ValueError(
            f"{name} cannot act on observations of {env.observation_space}: {error}"
        ) from error
    kind = np.integer if isinstance(space, spaces.Discrete) else np.floating
    if action.shape != space.shape or not np.issubdtype(action.dtype, kind):
        raise ValueError(
            f"{name} gives actions of shape {action.shape} and dtype {action.dtype}, but the "
            f"environment takes actions of {space}. Create the learner with "
            "env.action_space.sample() as its example of actions."
        )


def check_another(env: gymnasium.Env, eval_env: gymnasium.Env | None) -> None:
    """Raises if evaluations would play in the environment in which training plays.

    Raises:
        ValueError: They would.
    """
    if eval_env is not None and eval_env.unwrapped is env.unwrapped:
        raise ValueError(
            "eval_env must be another environment than env, whose episodes an evaluation would "
            "disturb: make a second one."
        )


def check_buffer(buffer: ReplayBuffer, example: Mapping[str, Any]) -> None:
    """Raises unless a replay buffer takes the transitions of an environment.

    Args:
        buffer: The buffer.
        example: A transition.

    Raises:
        ValueError: It holds other arrays.
    """
    held = {name: array.shape[1:] for name, array in buffer.state_dict()["transitions"].items()}
    needed = {name: array.shape for name, array in rows.flatten(example).items()}
    if held != needed:
        raise ValueError(
            f"The buffer holds transitions of the shapes {held}, but the environment gives {needed}: "
            "make it of jaxagents.host.example_transition(env)."
        )


def check_reported(names: Iterable[str], learner: Any) -> None:
    """Raises if a learner reports something under the name of another metric.

    Raises:
        ValueError: It does.
    """
    taken = sorted(set(names) & set(_TAKEN))
    if taken:
        raise ValueError(
            f"{type(learner).__name__}'s updates report {taken}, names that other metrics have: "
            "rename them."
        )


def _mode(learner: Any, observation: Any) -> Any:
    return learner.sample_actions(observation)
