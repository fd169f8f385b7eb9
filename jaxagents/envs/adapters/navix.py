"""The adapter for navix."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.envs.adapters.native import Native, copy_containers, reset_shapes, space_like
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.spaces import Discrete


class Navix(Native):
    """A navix environment; its `max_steps` is the time limit."""

    def __init__(self, env: Any) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
        """
        super().__init__(env)
        self.params = _settings(env)
        self.max_steps = int(env.max_steps)
        self.action_space = Discrete(len(env.action_set))
        self.observation_space = space_like(reset_shapes(self)[0])

    @classmethod
    def named(cls, name: str, **options: Any) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            **options: Passed to `navix.make`, such as `max_steps=200` or
                `observation_fn=navix.observations.rgb`.

        Returns:
            The environment.
        """
        return cls(_navix().make(name, **options))

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return sorted(_navix().registry())

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode; see `Environment`."""
        timestep = self.env.reset(key)
        return self._observation(timestep), timestep

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        # env.step would also compute a reset, for finished states, which do not occur here.
        timestep = self.env._step(copy_containers(state), action)
        truncated, terminated = timestep.is_truncation(), timestep.is_termination()
        return Step(
            self._observation(timestep), timestep, timestep.reward, terminated, truncated, {}
        )

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state."""
        state = jax.tree.map(jnp.asarray, state.state)
        return np.asarray(_navix().observations.rgb(state), np.uint8)

    def _observation(self, timestep: PyTree) -> Array:
        """The observation, with kinds and colours as floats, so that networks do not scale them."""
        is_picture = self.env.observation_fn.__name__.startswith("rgb")
        return timestep.observation if is_picture else timestep.observation.astype(np.float32)


def _navix() -> Any:
    return require("navix", "navix")


def _settings(env: Any) -> dict[str, Any]:
    """The fields of an environment that are numbers or strings."""
    fields = {field.name: getattr(env, field.name) for field in dataclasses.fields(env)}
    return {name: x for name, x in fields.items() if isinstance(x, bool | int | float | str)}
