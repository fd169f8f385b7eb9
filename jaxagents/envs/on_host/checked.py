"""Environments of Gymnasium that say what is wrong with what they return, before a vector fails."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import PyTree

from jaxagents.envs.on_host.returned import flag_of, name_of, reward_of, start_of, step_of


class Checked(gymnasium.Wrapper):
    """An environment that tells what is wrong with what its resets and its steps return.

    Rewards and flags become numbers, as vectors need them. Observations of the first step alone are
    looked at, since that takes time.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        """Takes the environment."""
        super().__init__(env)
        self._has_stepped = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PyTree, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: Its seed.
            options: Passed on.

        Returns:
            The first observation, and more about it.

        Raises:
            TypeError: The environment does not return an observation and a dict.
            ValueError: The observation is not of its space.
        """
        returned = start_of(self.env, self.env.reset(seed=seed, options=options))
        self._check("reset", *returned)
        return returned

    def step(self, action: PyTree) -> tuple[PyTree, float, bool, bool, dict[str, Any]]:
        """Takes a step.

        Args:
            action: The action.

        Returns:
            The outcome.

        Raises:
            TypeError: The environment does not return what those of Gymnasium do.
            ValueError: The observation is not of its space.
        """
        env = self.env
        observation, reward, terminated, truncated, info = step_of(env, env.step(action))
        if not self._has_stepped:
            self._check("step", observation, info)
            self._has_stepped = True
        return (
            observation,
            reward_of(env, reward),
            flag_of(env, "terminated", terminated),
            flag_of(env, "truncated", truncated),
            info,
        )

    def _check(self, method: str, observation: PyTree, info: Any) -> None:
        name = name_of(self.env)
        if not isinstance(info, dict):
            raise TypeError(f"{name}.{method} must return a dict as the info, got {info!r}.")
        if not _fits(self.env.observation_space, observation):
            found = jax.tree.map(np.shape, observation)
            raise ValueError(
                f"{name}.{method} returns an observation of shape {found}, but observation_space "
                f"is {self.env.observation_space}: correct whichever is wrong."
            )


def _fits(space: spaces.Space, observation: PyTree) -> bool:
    """Whether an observation has the structure and the shapes of its space."""
    if isinstance(space, spaces.Dict):
        return isinstance(observation, Mapping) and all(
            name in observation and _fits(part, observation[name]) for name, part in space.items()
        )
    return np.shape(observation) == space.shape
