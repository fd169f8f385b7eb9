"""The episodes that a training plays in one Gymnasium environment."""

import warnings
from collections.abc import Mapping

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, ArrayLike, Key, PyTree

from jaxagents.core.compilation import jit_by_structure
from jaxagents.data import ReplayBuffer
from jaxagents.envs.on_host.arrays import (
    action_array,
    as_observation,
    example_observation,
    in_types_of,
)
from jaxagents.envs.on_host.checked import Checked
from jaxagents.host.learner_like import LearnerLike
from jaxagents.host.outcome import Outcome, begin, take
from jaxagents.host.randomness import Stream, generator, seed_of
from jaxagents.host.transitions import random_action
from jaxagents.host.turns import Turn


class GymnasiumEpisodes:
    """Plays one episode after another, each from a seed of its own.

    Attributes:
        n_envs: Number of environments.
    """

    n_envs = 1

    def __init__(self, env: gymnasium.Env, seed: int) -> None:
        """Begins the first episode.

        Args:
            env: The environment, with actions as [`rescale_actions`][jaxagents.host.rescale_actions]
                gives them.
            seed: Seed of the training.
        """
        self._env = Checked(env)
        self._seed = seed
        self._example = example_observation(env.observation_space)
        self._begin(0)

    def random_actions(self, seed: int, step: int) -> np.ndarray:
        """A uniformly random action of those that are allowed.

        Args:
            seed: Seed of the training.
            step: Number of the step.

        Returns:
            The action.
        """
        rng = generator(seed, Stream.RANDOM_ACTIONS, step)
        return random_action(self._env.action_space, rng, self._observation)

    def sampled_actions(self, learner: LearnerLike, key: Key[Array, ""], step: int) -> Array:
        """An action that a learner draws, which may still be under way.

        Args:
            learner: The learner.
            key: Key of all actions of the training.
            step: Number of the step.

        Returns:
            The action.
        """
        return _sample(learner, key, np.uint32(step), self._observation)

    def step(self, actions: ArrayLike, buffer: ReplayBuffer) -> Turn:
        """Takes an action, and begins the next episode if that ends the current one.

        Args:
            actions: The action.
            buffer: Where the transition goes.

        Returns:
            The transition, and the return of the episode if it is over.
        """
        observation, action = self._observation, action_array(self._env.action_space, actions)
        outcome = self._take(action)
        transition = {
            "observations": observation,
            "actions": action,
            "rewards": np.float32(outcome.reward),
            "next_observations": self._observation,
            "masks": np.float32(not outcome.terminated),
            "ends": np.bool_(_ended(outcome)),
        }
        buffer.add_transition(transition)
        if not _ended(outcome):
            return Turn(transition, [])
        episode_return = self._return
        self._begin(self._number + 1)
        return Turn(transition, [episode_return])

    def notes(self) -> int:
        """The number of the current episode."""
        return self._number

    def arrays(self) -> dict[str, PyTree]:
        """The actions taken in the current episode, and the observation that followed."""
        return {"actions": self._actions, "observation": self._observation}

    def go_to(self, notes: int, arrays: Mapping[str, PyTree]) -> list[int]:
        """Plays an episode again up to where it was; warns, and begins the next, if it cannot.

        Args:
            notes: What `notes` gave.
            arrays: What `arrays` gave.

        Returns:
            `[0]` if an episode was given up after a step or more.
        """
        self._begin(notes)
        actions = arrays["actions"]
        ended = any(_ended(self._take(np.asarray(action))) for action in actions)
        if not ended and _equal(self._observation, arrays["observation"]):
            return []
        self._begin(notes + 1)
        warnings.warn(
            f"Episode {notes} took another course when its {len(actions)} actions were taken again, so "
            "that training goes on with a new episode, and not as if it had never been interrupted. The "
            "environment is not determined by its seed.",
            stacklevel=9,
        )
        return [0] if len(actions) else []

    def _begin(self, number: int) -> None:
        seed = seed_of(self._seed, Stream.EPISODES, number)
        self._observation = self._seen(begin(self._env, seed))
        self._number = number
        self._actions: list[np.ndarray] = []
        self._return = 0.0

    def _take(self, action: np.ndarray) -> Outcome:
        space = self._env.action_space
        fitting = int(action) if isinstance(space, spaces.Discrete) else action.astype(space.dtype)
        outcome = take(self._env, fitting)
        self._observation = self._seen(outcome.observation)
        self._actions.append(action)
        self._return += outcome.reward
        return outcome

    def _seen(self, observation: PyTree) -> PyTree:
        return in_types_of(self._example, as_observation(observation))


def _ended(outcome: Outcome) -> bool:
    return outcome.terminated or outcome.truncated


@jit_by_structure
def _sample(
    learner: LearnerLike, key: Key[Array, ""], step: ArrayLike, observation: PyTree
) -> Array:
    return learner.sample_actions(observation, seed=jax.random.fold_in(key, step))


def _equal(first: PyTree, second: PyTree) -> bool:
    if isinstance(first, Mapping):
        return all(_equal(part, second[name]) for name, part in first.items())
    return np.array_equal(first, second, equal_nan=True)
