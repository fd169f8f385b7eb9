"""The adapter for xminigrid."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.envs.adapters.native import Native, reset_shapes, space_like
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.spaces import Discrete

_N_LAYERS = 2
"""The kind and the colour of a tile."""


class XMiniGrid(Native):
    """An xminigrid environment with its parameters; their `max_steps` is the time limit.

    In XLand, the task is the environment's ruleset. Wrappers that change it are kept; autoreset wrappers
    are removed.
    """

    takes_params = True

    def __init__(self, env: Any, params: PyTree = None) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
            params: Its parameters; `None` uses `env.default_params()`.
        """
        wrappers = require("xminigrid.wrappers", "xminigrid")
        while isinstance(env, wrappers.GymAutoResetWrapper | wrappers.DmEnvAutoResetWrapper):
            env = env._env
        super().__init__(env)
        self.params = env.default_params() if params is None else params
        self.max_steps = int(self.params.max_steps)
        self.action_space = Discrete(int(env.num_actions(self.params)))
        self.observation_space = space_like(reset_shapes(self)[0])

    @classmethod
    def named(cls, name: str, **options: Any) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            **options: Parameters that override the defaults, such as `view_size=5`.

        Returns:
            The environment.
        """
        return cls(*_xminigrid().make(name, **options))

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return list(_xminigrid().registered_environments())

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode; see `Environment`."""
        timestep = self.env.reset(self.params, key)
        return self._observation(timestep), timestep

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        timestep = self.env.step(self.params, state, action)
        over, terminated = timestep.last(), timestep.discount == 0
        return Step(
            self._observation(timestep),
            timestep,
            timestep.reward,
            over & terminated,
            over & ~terminated,
            {},
        )

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state."""
        params = self.params.replace(render_mode="rgb_array")
        return np.asarray(self.env.render(params, state), np.uint8)

    def _observation(self, timestep: PyTree) -> PyTree:
        """The observation, with kinds and colours as floats, so that networks do not scale them."""
        return jax.tree.map(
            lambda x: x.astype(np.float32) if x.shape[-1:] == (_N_LAYERS,) else x,
            timestep.observation,
        )


def _xminigrid() -> Any:
    return require("xminigrid", "xminigrid")
