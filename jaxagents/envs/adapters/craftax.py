"""The adapter for craftax."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.envs.adapters.native import Native, flag, reset_shapes, space_like
from jaxagents.envs.environment import Environment, Step

_NAMES = tuple(
    f"Craftax-{game}{view}-v1" for game in ("", "Classic-") for view in ("Symbolic", "Pixels")
)
_NEVER = np.iinfo(np.int32).max
_BLOCK = 16
"""Side of a block of the world in pixels; craftax has textures for certain sizes only."""


class Craftax(Native):
    """A craftax environment, with or without autoreset.

    Craftax terminates episodes after `max_timesteps` steps; here they are truncated instead, and that
    limit is `max_steps`.
    """

    takes_params = True

    def __init__(self, env: Any, params: PyTree = None) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
            params: Its parameters; `None` uses `env.default_params`.
        """
        super().__init__(env)
        self.params = env.default_params if params is None else params
        self.max_steps = int(self.params.max_timesteps)
        self._unlimited = self.params.replace(max_timesteps=_NEVER)
        self.action_space = env.action_space(self.params)
        self.observation_space = space_like(reset_shapes(self)[0])

    @classmethod
    def named(cls, name: str, **options: Any) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            **options: Parameters that override the defaults, such as `max_timesteps=500`.

        Returns:
            The environment.
        """
        module = require("craftax.craftax_env", "craftax")
        env = module.make_craftax_env_from_name(name, auto_reset=False)
        return cls(env, env.default_params.replace(**options))

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return list(_NAMES)

    @property
    def name(self) -> str:
        """The environment's name in craftax."""
        return self.env.name.replace("-NoAutoReset", "")

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode in a new world; see `Environment`."""
        return self.env.reset_env(key, self._unlimited)

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step; see `Environment`. At the end, the `info` holds the achievements."""
        obs, state, reward, over, info = self.env.step_env(key, state, action, self._unlimited)
        return Step(obs, state, reward, flag(over), jnp.bool_(False), info)

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state as craftax shows it to human players."""
        game = type(self.env).__module__.split(".")[1]
        renderer = importlib.import_module(f"craftax.{game}.renderer")
        pixels = renderer.make_craftax_pixel_renderer(_BLOCK)(jax.tree.map(jnp.asarray, state))
        return np.asarray(pixels).clip(0, 255).astype(np.uint8)
