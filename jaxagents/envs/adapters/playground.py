"""The adapter for MuJoCo Playground and other subclasses of its `MjxEnv`."""

from typing import Any

import numpy as np
from jaxtyping import PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.envs.adapters.brax import Brax
from jaxagents.envs.environment import Environment


class Playground(Brax):
    """A MuJoCo Playground environment, or your own subclass of its `MjxEnv`.

    Steps work as in brax, and actions are in [-1, 1]. `max_steps` is the environment's
    `episode_length`, if its configuration has one.
    """

    def __init__(self, env: Any, max_steps: int | None = None) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
            max_steps: Time limit, in steps; `None` uses the limit of the configuration.

        Raises:
            TypeError: The environment is simulated with warp.
        """
        if env._config.get("impl") == "warp":
            raise TypeError(
                f"{type(env).__name__} simulates with warp, where the contacts of all "
                "environments share one array, so no environment can be reset alone: make it "
                'with config_overrides={"impl": "jax"}.'
            )
        super().__init__(env, _episode_length(env) if max_steps is None else max_steps)

    @classmethod
    def named(cls, name: str, episode_length: int | None = None, **options: Any) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            episode_length: Time limit, in steps; `None` uses the limit of the configuration.
            **options: Passed to `mujoco_playground.registry.load`, such as
                `config_overrides={"sim_dt": 0.01}`; `"impl": "jax"` is added to it.

        Returns:
            The environment.
        """
        registry, overrides = _registry(), dict(options.pop("config_overrides", None) or {})
        if "impl" in (options.get("config") or registry.get_default_config(name)):
            overrides = {"impl": "jax", **overrides}
        return cls(registry.load(name, config_overrides=overrides, **options), episode_length)

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return list(_registry().ALL_ENVS)

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state with MuJoCo."""
        return self.env.render([state])[0]


def _registry() -> Any:
    return require("mujoco_playground", "playground").registry


def _episode_length(env: Any) -> int | None:
    length = env._config.get("episode_length")
    return None if length is None else int(length)
