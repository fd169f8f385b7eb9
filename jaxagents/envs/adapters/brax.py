"""The adapter for brax."""

from typing import Any

import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.envs.adapters.native import Native, copy_containers, flag, reset_shapes, space_like
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.spaces import Box

_EPISODE_LENGTH = 1000
"""The default of `brax.envs.create`."""


class Brax(Native):
    """A brax environment, or your own subclass of `brax.envs.Env`.

    Brax's wrappers that reset or count steps are removed. Actions are in [-1, 1]; brax scales them.
    """

    def __init__(self, env: Any, max_steps: int | None = None) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
            max_steps: Time limit, in steps; `None` uses the `episode_length` of brax's `EpisodeWrapper`,
                if there is one.

        Raises:
            TypeError: `env` is a vectorised environment.
        """
        env, episode_length = _without_wrappers(env)
        super().__init__(env)
        self.max_steps = episode_length if max_steps is None else max_steps
        self.action_space = Box(-1.0, 1.0, (env.action_size,))
        self.observation_space = space_like(reset_shapes(self)[0])

    @classmethod
    def named(
        cls, name: str, episode_length: int | None = _EPISODE_LENGTH, **options: Any
    ) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            episode_length: Time limit, in steps.
            **options: Passed to `brax.envs.get_environment`, such as `backend="spring"`.

        Returns:
            The environment.
        """
        return cls(_envs().get_environment(name, **options), episode_length)

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return list(_envs()._envs)

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode; see `Environment`."""
        state = self.env.reset(key)
        return state.obs, state

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step; see `Environment`. The `info` holds brax's metrics."""
        state = self.env.step(copy_containers(state), action)
        truncated = flag(state.info.get("truncation", False))
        terminated = flag(state.done) & ~truncated
        return Step(state.obs, state, state.reward, terminated, truncated, dict(state.metrics))

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state with MuJoCo."""
        return self.env.render([state.pipeline_state])[0]

    @property
    def render_fps(self) -> float | int:
        """Steps per second in videos: the rate of the simulation."""
        return float(1.0 / self.env.dt)


def _envs() -> Any:
    return require("brax.envs", "brax")


def _without_wrappers(env: Any) -> tuple[Any, int | None]:
    """Removes brax's training wrappers; returns the environment and the time limit that they set."""
    training = require("brax.envs.wrappers.training", "brax")
    episode_length = None
    while isinstance(env, training.AutoResetWrapper | training.EpisodeWrapper):
        if isinstance(env, training.EpisodeWrapper):
            if env.action_repeat != 1:
                return env, None
            episode_length = env.episode_length
        env = env.env
    if isinstance(env, training.VmapWrapper | training.DomainRandomizationVmapWrapper):
        raise TypeError(
            f"{type(env).__name__} makes one environment into many: pass env.env, since agents "
            "map over environments themselves."
        )
    return env, episode_length
