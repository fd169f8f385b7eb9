"""Vectors of Gymnasium environments, whichever way they start the next episode."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from jaxtyping import Bool, PyTree, UInt8

from jaxagents.envs.episodes import InfoNames
from jaxagents.envs.on_host.arrays import example_seen
from jaxagents.envs.on_host.copies import Copies, VectorStep, check_distinct
from jaxagents.envs.on_host.infos import Infos

_ENVPOOL = "envpool.python.envpool", "EnvPoolMixin"
"""Module and name of the class that vectors of EnvPool inherit from."""


class Vector(Copies):
    """A vector of Gymnasium environments.

    Vectors made with `AutoresetMode.DISABLED` leave it to the caller to start the next episode; the
    others do so by themselves, in the step that ends an episode or in the one after.

    Attributes:
        env: The vector.
    """

    def __init__(
        self, env: VectorEnv, given: object | None = None, info_names: InfoNames | None = None
    ) -> None:
        """Takes a vector.

        Args:
            env: The vector.
            given: What a user made of it; see `Copies`.
            info_names: Names of the entries of infos that are kept; `None` keeps none.

        Raises:
            ValueError: Its steps are of some of its environments only, or one of them is there twice.
        """
        self._has_its_seeds = is_of_envpool(env)
        if self._has_its_seeds:
            _check_steps_all(env)
        self.env = env
        check_distinct(self.environments)
        self.infos = Infos(info_names or InfoNames())
        self.given = given
        self.n_envs = env.num_envs
        self.action_space = env.single_action_space
        self._mode = autoreset_mode(env)
        self.starts_episodes = self._mode != AutoresetMode.DISABLED
        self._example = example_seen(env.single_observation_space)
        self._starts = np.zeros(self.n_envs, bool)

    @property
    def environments(self) -> list[object]:
        """The environments of a vector that steps one after another; see `Copies`."""
        given = self.env.unwrapped
        return [env.unwrapped for env in given.envs] if isinstance(given, SyncVectorEnv) else []

    def reset(self, seeds: Sequence[int | None], where: Bool[np.ndarray, "environments"]) -> PyTree:
        """Starts episodes.

        Args:
            seeds: A seed for each environment; `None` where no episode starts. EnvPool takes none.
            where: In which of them; in all, if the vector starts episodes by itself.

        Returns:
            The current observations of all environments.
        """
        self._starts[where] = False
        if self.starts_episodes:  # perhaps all in one, with a single generator
            obs, _ = self.env.reset(seed=None if self._has_its_seeds else seeds[0])
        else:
            of_each: Any = list(seeds)
            obs, _ = self.env.reset(seed=of_each, options={"reset_mask": where})
        return self._cast(obs)

    def step(self, actions: PyTree) -> VectorStep:
        """Takes one step in every environment.

        Args:
            actions: Actions, environments first.

        Returns:
            The outcome.
        """
        obs, reward, terminated, truncated, info = self.env.step(actions)
        obs = self._cast(obs)
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        over, counts = terminated | truncated, ~self._starts
        next_obs = obs
        if self._mode == AutoresetMode.SAME_STEP and over.any():
            next_obs = self._with_final(obs, info, over)
        if self._mode == AutoresetMode.NEXT_STEP:
            self._starts = over
        reward = np.array(reward, np.float32)
        ends = terminated, truncated & ~terminated
        return VectorStep(obs, next_obs, reward, *ends, counts, self.infos.of_vector(info, over))

    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        """A picture of the first environment."""
        pictures = self.env.render()
        assert pictures is not None
        return np.asarray(pictures[0])

    def close(self) -> None:
        """Closes the vector, and so ends its processes, unless a user made it."""
        if self.given is None:
            self.env.close()

    def _cast(self, obs: PyTree) -> PyTree:
        """A copy of observations, since vectors may write into theirs at the next step."""
        return jax.tree.map(lambda like, x: np.array(x, like.dtype, order="C"), self._example, obs)

    def _with_final(
        self, obs: PyTree, info: Mapping[str, Any], over: Bool[np.ndarray, "environments"]
    ) -> PyTree:
        """Observations with the last one of each episode that is over in the place of the next first."""
        if "final_obs" not in info:
            raise ValueError(
                f"{self.env} starts episodes in the step that ends the one before, but its info lacks "
                "final_obs, the last observations. Make it with AutoresetMode.NEXT_STEP or DISABLED."
            )
        obs = jax.tree.map(np.copy, obs)
        for i in np.flatnonzero(over):
            final = info["final_obs"][i]
            jax.tree.map(lambda rows, x, i=i: rows.__setitem__(i, x), obs, final)
        return obs


def is_of_envpool(env: gymnasium.Env | VectorEnv) -> bool:
    """Whether EnvPool made a vector, whose seeds are given when it is made."""
    bases = type(env.unwrapped).__mro__
    return _ENVPOOL in [(base.__module__, base.__qualname__) for base in bases]


def _check_steps_all(pool: Any) -> None:
    config = pool.unwrapped.config
    if config["batch_size"] != config["num_envs"]:
        raise ValueError(
            f"A step must be one of all environments, but this EnvPool steps {config['batch_size']} of "
            f"{config['num_envs']} at a time: make it without batch_size."
        )


def spaces_of_one(env: gymnasium.Env | VectorEnv) -> tuple[spaces.Space, spaces.Space]:
    """The spaces of the observations and the actions of one environment, be it alone or in a vector."""
    if isinstance(env, VectorEnv):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """How a vector starts the next episode; where it does not say, in the next step, as by default.

    Its metadata come second: Gymnasium keeps them with the class of the environment, where the vector
    that was made last writes its own.
    """
    known = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    return AutoresetMode(getattr(env.unwrapped, "autoreset_mode", known))
