"""The episodes that a training plays in a Gymnasium environment."""

from collections.abc import Mapping

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import ArrayLike, PyTree

from jaxagents import ops
from jaxagents.core.observed import action_mask
from jaxagents.envs.on_host.arrays import action_array, as_observation, example_observation
from jaxagents.host.evaluation import check_single
from jaxagents.host.outcome import Outcome, begin, take
from jaxagents.host.randomness import Stream, seed_of


def rescale_actions(env: gymnasium.Env) -> gymnasium.Env:
    """An environment whose box actions lie in [-1, 1], as learners give them.

    Args:
        env: A single environment with box or discrete actions.

    Returns:
        The environment itself, where nothing is to be done, else in a
            `gymnasium.wrappers.RescaleAction`.

    Raises:
        TypeError: It is not a single environment.
        ValueError: Its actions are neither numbers within finite bounds nor 0, 1, 2, ...
    """
    check_single(env)
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise ValueError(
                f"Discrete actions must start at 0, got {space}: shift them with "
                "gymnasium.wrappers.TransformAction."
            )
        return env
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        raise ValueError(f"Actions must be Discrete, or a Box of floats, got {space}.")
    if not space.is_bounded():
        raise ValueError(
            f"Box actions need finite bounds, to be rescaled from [-1, 1], got {space}: choose bounds "
            "with gymnasium.wrappers.ClipAction and TransformAction."
        )
    if np.all(space.low == -1) and np.all(space.high == 1):
        return env
    # Integers of Python, unlike those of NumPy, can be written with the environment's specification.
    return gymnasium.wrappers.RescaleAction(env, -1, 1)  # pyright: ignore[reportArgumentType]


def example_transition(env: gymnasium.Env) -> dict[str, PyTree]:
    """Shapes and types of a transition.

    Args:
        env: The environment.

    Returns:
        The transition, of zeros.

    Raises:
        ValueError: An observation is neither an array nor a dict of them.
    """
    observation = example_observation(env.observation_space)
    return {
        "observations": observation,
        "actions": action_array(env.action_space, np.zeros(env.action_space.shape or ())),
        "rewards": np.float32(0),
        "next_observations": observation,
        "masks": np.float32(0),
        "ends": np.False_,
    }


def random_action(
    space: spaces.Space, rng: np.random.Generator, observation: PyTree = None
) -> np.ndarray:
    """A uniformly random action of those that the observation allows, in [-1, 1] if it is continuous."""
    mask = action_mask(observation)
    if mask is not None:
        return action_array(space, rng.choice(np.flatnonzero(ops.allowed_actions(mask))))
    if isinstance(space, spaces.Discrete):
        return action_array(space, rng.integers(space.n))
    return action_array(space, rng.uniform(-1.0, 1.0, space.shape))


class GymnasiumEpisodes:
    """Plays one episode after another, each from a seed of its own.

    Attributes:
        number: Number of the current episode.
        observation: The current observation.
        actions: The actions taken in the current episode.
        episode_return: The sum of its rewards.
    """

    def __init__(self, env: gymnasium.Env, seed: int) -> None:
        """Begins the first episode.

        Args:
            env: The environment, with actions as [`rescale_actions`][jaxagents.host.rescale_actions]
                gives them.
            seed: Seed of the training.
        """
        self._env = env
        self._seed = seed
        self._begin(0)

    def step(self, action: ArrayLike) -> tuple[dict[str, PyTree], float | None]:
        """Takes an action, and begins the next episode if that ends the current one.

        Args:
            action: The action.

        Returns:
            The transition, and the return of the episode that it ended, if it did.
        """
        observation, action = self.observation, action_array(self._env.action_space, action)
        outcome = self._take(action)
        transition = {
            "observations": observation,
            "actions": action,
            "rewards": np.float32(outcome.reward),
            "next_observations": self.observation,
            "masks": np.float32(not outcome.terminated),
            "ends": np.bool_(_ended(outcome)),
        }
        if not _ended(outcome):
            return transition, None
        episode_return = self.episode_return
        self._begin(self.number + 1)
        return transition, episode_return

    def go_to(self, number: int, actions: np.ndarray, observation: PyTree) -> bool:
        """Plays an episode again up to where it was, or begins the next if it takes another course.

        Args:
            number: Number of the episode.
            actions: The actions taken in it.
            observation: The observation that followed.

        Returns:
            Whether the episode led to the same observation again.
        """
        self._begin(number)
        ended = any(_ended(self._take(np.asarray(action))) for action in actions)
        if not ended and _equal(self.observation, observation):
            return True
        self._begin(number + 1)
        return False

    def _begin(self, number: int) -> None:
        seed = seed_of(self._seed, Stream.EPISODES, number)
        self.observation = as_observation(begin(self._env, seed))
        self.number = number
        self.actions: list[np.ndarray] = []
        self.episode_return = 0.0

    def _take(self, action: np.ndarray) -> Outcome:
        space = self._env.action_space
        fitting = int(action) if isinstance(space, spaces.Discrete) else action.astype(space.dtype)
        outcome = take(self._env, fitting)
        self.observation = as_observation(outcome.observation)
        self.actions.append(action)
        self.episode_return += outcome.reward
        return outcome


def _ended(outcome: Outcome) -> bool:
    return outcome.terminated or outcome.truncated


def _equal(first: PyTree, second: PyTree) -> bool:
    if isinstance(first, Mapping):
        return all(_equal(part, second[name]) for name, part in first.items())
    return np.array_equal(first, second, equal_nan=True)
