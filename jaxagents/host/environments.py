"""Gymnasium environments in custom loops: rescaled actions, transitions, and statistics."""

import functools
from typing import Any, SupportsFloat, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from jaxtyping import PyTree

from jaxagents.data import units
from jaxagents.data.replay_buffer import ENVIRONMENTS
from jaxagents.envs.on_host.arrays import (
    check_action_space,
    example_action,
    example_observation,
)
from jaxagents.envs.on_host.vectors import spaces_of_one

EnvT = TypeVar("EnvT", bound=gymnasium.Env | VectorEnv)


def rescale_actions(env: EnvT) -> EnvT:
    """Rescales an environment's continuous actions to [-1, 1], the range of learners.

    Rounding never moves an action outside the environment's bounds.

    Args:
        env: An environment with continuous or discrete actions, or a vector environment.

    Returns:
        The environment, wrapped in `gymnasium.wrappers.RescaleAction` or its vector version, with
        clipping; unchanged if its actions are discrete or already in [-1, 1].

    Raises:
        TypeError: `env` is neither kind of environment.
        ValueError: Actions are neither continuous with finite bounds nor 0, 1, 2, ...
    """
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise TypeError(
            "env must be a Gymnasium environment from gymnasium.make, or a vector of them from "
            f"gymnasium.make_vec, got {type(env).__name__}."
        )
    _, space = spaces_of_one(env)
    check_action_space(space)
    if isinstance(space, spaces.Discrete):
        return env
    if not isinstance(space, spaces.Box):
        raise ValueError(f"Actions must be Discrete, or a Box of floats, got {space}.")
    if not space.is_bounded():
        raise ValueError(
            f"Continuous actions need finite bounds, to be rescaled from [-1, 1], got {space}: "
            "set them with gymnasium.wrappers.TransformAction, and leave out ClipAction, which "
            "removes them."
        )
    if np.all(space.low == -1) and np.all(space.high == 1):
        return env
    wrapper: Any = RescaleVector if isinstance(env, VectorEnv) else RescaleAction
    return wrapper(env)


class RescaleAction(gymnasium.wrappers.RescaleAction):
    """Maps actions in [-1, 1] to the environment's bounds, without rounding to values outside."""

    def __init__(self, env: gymnasium.Env) -> None:
        """Wraps an environment with bounded continuous actions."""
        RecordConstructorArgs.__init__(self)  # keeps the bounds out of its specification
        super().__init__(env, -1, 1)  # pyright: ignore[reportArgumentType]
        self.func: Any = functools.partial(_to_box, env.action_space)


class RescaleVector(gymnasium.wrappers.vector.VectorizeTransformAction):
    """The version of `RescaleAction` for vector environments."""

    def __init__(self, env: VectorEnv) -> None:
        """Wraps a vector environment with bounded continuous actions."""
        super().__init__(env, RescaleAction)


def _to_box(space: Any, action: np.ndarray) -> np.ndarray:
    return units.from_unit(np.asarray(action, space.dtype), space).astype(space.dtype)


def example_transition(
    env: gymnasium.Env | VectorEnv, n_envs: int | None = None
) -> dict[str, PyTree]:
    """Creates an example transition, for its shapes and dtypes.

    Args:
        env: The environment, or a vector environment.
        n_envs: Number of parallel environments; by default the size of the vector, or one.

    Returns:
        A transition of zeros. With several environments it has an entry `environments`, the index of a
            transition's environment. The dict has the environment's `action_space` as an attribute, so
            that a buffer and its datasets record the units of their actions.

    Raises:
        ValueError: An observation is neither an array nor a dict of them.
    """
    observation_space, action_space = spaces_of_one(env)
    observation = example_observation(observation_space)
    is_of_several = isinstance(env, VectorEnv) or n_envs not in (None, 1)
    of_several = {ENVIRONMENTS: np.int32(0)} if is_of_several else {}
    transition = {
        "observations": observation,
        "actions": example_action(action_space),
        "rewards": np.float32(0),
        "next_observations": observation,
        "masks": np.float32(0),
        "ends": np.False_,
        **of_several,
    }
    return units.Transitions(transition, action_space)


class EpisodeMonitor(RecordEpisodeStatistics):
    """Reports return, length and duration of each episode in `info`, and counts steps.

    Every step's `info["total"]["timesteps"]` is the number of steps since the monitor was created. The
    last step of an episode also has `info["episode"]` with `return` (the undiscounted sum of rewards),
    `length` (in steps) and `duration` (in seconds of wall time).

    ```python
    env = EpisodeMonitor(gymnasium.make("Pendulum-v1"))
    env = rescale_actions(env)
    ```

    It only sees the environment that it wraps: put wrappers that end episodes (`TimeLimit`) inside. Put
    wrappers that change rewards inside to report the changed rewards, or outside to report the original
    ones.

    Attributes:
        total_timesteps: Number of steps since the monitor was created.
        return_queue: Returns of the last 100 episodes.
        length_queue: Their lengths.
        time_queue: Their durations.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        """Wraps an environment.

        Args:
            env: A single environment.
        """
        super().__init__(env)
        self.total_timesteps = 0

    def step(self, action: PyTree) -> tuple[PyTree, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes one step."""
        observation, reward, terminated, truncated, info = super().step(action)
        self.total_timesteps += 1
        info["total"] = {"timesteps": self.total_timesteps}
        if terminated or truncated:
            episode = info["episode"]
            info["episode"] = {
                "return": float(episode["r"]),
                "length": episode["l"],
                "duration": episode["t"],
            }
        return observation, reward, terminated, truncated, info
