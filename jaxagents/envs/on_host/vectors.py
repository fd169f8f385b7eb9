"""Gymnasium vector environments in any autoreset mode, and checks of their outputs."""

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
from jaxagents.envs.on_host.episodes import Copies, VectorStep, check_distinct
from jaxagents.envs.on_host.infos import Infos

_ENVPOOL = "envpool.python.envpool", "EnvPoolMixin"
"""Module and name of the base class of EnvPool's vectors."""
_FINAL = "final_obs", "final_observation"
"""Info entries with the last observations of episodes; older versions use the second."""


class Vector(Copies):
    """A Gymnasium vector environment.

    With `AutoresetMode.DISABLED`, the caller starts the next episode. Otherwise the vector does, in the
    step that ends an episode or in the next one.

    Attributes:
        env: The vector.
    """

    def __init__(
        self, env: VectorEnv, given: object | None = None, info_names: InfoNames | None = None
    ) -> None:
        """Wraps a vector.

        Args:
            env: The vector.
            given: The user's object that holds it; see `Copies`.
            info_names: Names of the info entries to keep; `None` keeps none.

        Raises:
            ValueError: It steps only some of its environments at a time, or holds one of them twice.
        """
        pool: Any = env.unwrapped
        bases = [(base.__module__, base.__qualname__) for base in type(pool).__mro__]
        self._has_its_seeds = _ENVPOOL in bases  # EnvPool takes seeds in its constructor
        if self._has_its_seeds and pool.config["batch_size"] != pool.config["num_envs"]:
            raise ValueError(
                "Each step must be of all environments, but this EnvPool steps "
                f"{pool.config['batch_size']} of {pool.config['num_envs']} at a time: make it "
                "without batch_size."
            )
        self.env, self.given, self.n_envs = env, given, env.num_envs
        self.environments = (
            [x.unwrapped for x in pool.envs] if isinstance(pool, SyncVectorEnv) else []
        )
        check_distinct(self.environments)
        self.infos = Infos(info_names or InfoNames())
        self.action_space = env.single_action_space
        self._mode = autoreset_mode(env)
        self.starts_episodes = self._mode != AutoresetMode.DISABLED
        self._example = example_seen(env.single_observation_space)
        self._starts = np.zeros(self.n_envs, bool)

    def reset(self, seeds: Sequence[int | None], where: Bool[np.ndarray, "environments"]) -> PyTree:
        """Starts episodes; see `Copies`. EnvPool ignores the seeds."""
        self._starts[where] = False
        if self.starts_episodes:  # perhaps all with a single random generator
            obs, _ = self.env.reset(seed=None if self._has_its_seeds else seeds[0])
        else:
            of_each: Any = list(seeds)
            obs, _ = self.env.reset(seed=of_each, options={"reset_mask": where})
        return self._cast(obs)

    def step(self, actions: PyTree) -> VectorStep:
        """Takes one step in every environment; see `Copies`."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        obs = self._cast(obs)
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        over, counts = terminated | truncated, ~self._starts
        next_obs = obs
        if over.any() and self.starts_episodes:
            next_obs = self._with_final(obs, info, over)
        if self._mode == AutoresetMode.NEXT_STEP:
            self._starts = over
        reward = np.array(reward, np.float32)
        ends = terminated, truncated & ~terminated
        return VectorStep(obs, next_obs, reward, *ends, counts, self.infos.of_vector(info, over))

    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        """Returns an image of the first environment."""
        pictures = self.env.render()
        assert pictures is not None
        return np.array(pictures[0])  # environments may reuse one array

    def close(self) -> None:
        """Closes the vector and its processes, unless the user created it."""
        if self.given is None:
            self.env.close()

    def _cast(self, obs: PyTree) -> PyTree:
        """Copies observations, since vectors may overwrite theirs at the next step."""
        return jax.tree.map(lambda like, x: np.array(x, like.dtype, order="C"), self._example, obs)

    def _with_final(
        self, obs: PyTree, info: Mapping[str, Any], over: Bool[np.ndarray, "environments"]
    ) -> PyTree:
        """Returns the true successors: where an episode is over, its last observation.

        The first end of an episode reveals the autoreset mode if the vector does not declare it, or
        declares a wrong one.
        """
        given = next((info[name] for name in _FINAL if name in info), None)
        if given is None:
            if self._mode == AutoresetMode.SAME_STEP:
                raise ValueError(
                    f"{type(self.env.unwrapped).__qualname__} starts episodes in the step that ends one "
                    "(AutoresetMode.SAME_STEP), but its infos have no 'final_obs', the last observation "
                    "of each episode: add them, or make it with another autoreset_mode."
                )
            self._mode = AutoresetMode.NEXT_STEP
            return obs
        last, pool = jax.tree.map(np.copy, obs), self.env.unwrapped
        for i in np.flatnonzero(over):
            final = jax.tree.map(lambda rows, i=i: rows[i], given)
            if isinstance(pool, SyncVectorEnv):
                _check_kept(pool.envs[i], final, pool._env_obs[i])
            jax.tree.map(lambda rows, x, i=i: rows.__setitem__(i, x), last, final)
        if self._mode is None or not all(jax.tree.leaves(jax.tree.map(np.array_equal, last, obs))):
            self._mode = AutoresetMode.SAME_STEP
        return last


def _check_kept(env: object, last: PyTree, first: PyTree) -> None:
    """Raises if an environment wrote its first observation over the last one."""
    arrays = zip(jax.tree.leaves(last), jax.tree.leaves(first), strict=False)
    if any(np.shares_memory(*pair) for pair in arrays):
        raise ValueError(
            f"{_name_of(env)} returns each observation in the same array, so the last one of an "
            "episode is lost in a vector with AutoresetMode.SAME_STEP: return copies, or make "
            "the vector with AutoresetMode.DISABLED."
        )


def spaces_of_one(env: gymnasium.Env | VectorEnv) -> tuple[spaces.Space, spaces.Space]:
    """The observation and action spaces of one environment, alone or in a vector."""
    if isinstance(env, VectorEnv):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def autoreset_mode(env: VectorEnv) -> AutoresetMode | None:
    """The autoreset mode of a vector; `None` if it does not declare one.

    An attribute takes precedence over the metadata. Gymnasium stores the metadata in the environment's
    class, where the most recent vector overwrites it.
    """
    known = (env.metadata or {}).get("autoreset_mode")
    mode = getattr(env.unwrapped, "autoreset_mode", known)
    return None if mode is None else AutoresetMode(mode)


class Checked(gymnasium.Wrapper):
    """Checks the outputs of an environment, with better error messages than a vector would give.

    Rewards and flags become plain numbers, as vectors need. Only the first step's observation is
    checked, to save time.
    """

    _has_stepped = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PyTree, dict[str, Any]]:
        """Starts an episode and checks the outputs."""
        returned = start_of(self.env, self.env.reset(seed=seed, options=options))
        self._check("reset", *returned)
        return returned

    def step(self, action: PyTree) -> tuple[PyTree, float, bool, bool, dict[str, Any]]:
        """Takes a step and checks the outputs."""
        if isinstance(action, np.floating):  # from a vector, for a scalar Box
            action = np.asarray(action)
        outcome = step_of(self.env, self.env.step(action))
        if not self._has_stepped:
            self._check("step", outcome[0], outcome[-1])
            self._has_stepped = True
        return outcome

    def _check(self, method: str, observation: PyTree, info: Any) -> None:
        name = _name_of(self.env)
        if not isinstance(info, dict):
            raise TypeError(f"{name}.{method} must return a dict as the info, got {info!r}.")
        if not _fits(self.env.observation_space, observation):
            found = jax.tree.map(np.shape, observation)
            raise ValueError(
                f"{name}.{method} returns an observation of shape {found}, but observation_space "
                f"is {self.env.observation_space}: correct whichever is wrong."
            )


def _fits(space: spaces.Space, observation: PyTree) -> bool:
    """Whether an observation has the structure and shapes of its space."""
    if isinstance(space, spaces.Dict):
        return isinstance(observation, Mapping) and all(
            name in observation and _fits(part, observation[name]) for name, part in space.items()
        )
    return np.shape(observation) == space.shape


def start_of(env: gymnasium.Env, returned: Any) -> tuple[PyTree, Any]:
    """The observation and info of a reset; raises `TypeError` for anything else."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(
            f"{_name_of(env)}.reset must return a tuple (observation, info), got "
            f"{_kind(returned)}: environments of old Gym return the observation alone."
        )
    return returned


def step_of(env: gymnasium.Env, returned: Any) -> tuple[PyTree, float, bool, bool, Any]:
    """The observation, reward, both flags and info of a step; raises `TypeError` for anything else."""
    if not isinstance(returned, tuple) or len(returned) != 5:
        raise TypeError(
            f"{_name_of(env)}.step must return a tuple (observation, reward, terminated, "
            f"truncated, info), got {_kind(returned)}: environments of old Gym return four, "
            "with one done."
        )
    observation, reward, terminated, truncated, info = returned
    ends = _flag_of(env, "terminated", terminated), _flag_of(env, "truncated", truncated)
    return observation, reward_of(env, reward), *ends, info


def reward_of(env: Any, reward: Any) -> float:
    """The reward of a Gymnasium or PettingZoo step as a float; raises `TypeError` if not a number."""
    if isinstance(reward, float | int):
        return float(reward)
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(f"{_name_of(env)}.step must return a number as the reward, got {reward!r}.")
    return float(array.item())


def _flag_of(env: gymnasium.Env, name: str, flag: Any) -> bool:
    if isinstance(flag, bool | np.bool_):
        return bool(flag)
    array = np.asarray(flag)
    if array.size != 1 or array.item() not in (False, True):
        raise TypeError(f"{_name_of(env)}.step must return a boolean as {name}, got {flag!r}.")
    return bool(array.item())


def _name_of(env: Any) -> str:
    return type(env.unwrapped).__qualname__


def _kind(returned: Any) -> str:
    if isinstance(returned, tuple):
        return f"a tuple of {len(returned)}"
    return f"a value of the type {type(returned).__name__}"
