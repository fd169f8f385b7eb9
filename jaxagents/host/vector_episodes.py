"""The episodes that a training plays in several Gymnasium environments at once."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from jaxtyping import Array, ArrayLike, Key, PyTree

from jaxagents.core.compilation import jit_by_structure
from jaxagents.data import ReplayBuffer
from jaxagents.data.replay_buffer import ENVIRONMENTS
from jaxagents.envs.on_host.arrays import action_array, example_action, example_observation
from jaxagents.envs.on_host.copies import VectorStep
from jaxagents.envs.on_host.environment import LONGEST_KEPT
from jaxagents.envs.on_host.episodes import HostEpisodes
from jaxagents.envs.on_host.making import limit_of, specification_of
from jaxagents.envs.on_host.played import Played
from jaxagents.envs.on_host.vectors import Vector
from jaxagents.host.learner_like import LearnerLike
from jaxagents.host.randomness import Stream, generator, seed_of
from jaxagents.host.transitions import random_action
from jaxagents.host.turns import Turn

_ENDLESS = np.iinfo(np.int32).max


class VectorEpisodes:
    """Plays one episode after another in each environment of a vector.

    In the step of a training that begins with number `s`, environment `i` takes step `s + i`.

    Attributes:
        n_envs: Number of environments.
    """

    def __init__(self, env: VectorEnv, seed: int) -> None:
        """Begins the first episodes.

        Args:
            env: The vector, with actions as [`rescale_actions`][jaxagents.host.rescale_actions] gives
                them.
            seed: Seed of the training.
        """
        vector = Vector(env, env.unwrapped)
        self.n_envs = vector.n_envs
        self._space = env.single_action_space
        self._example = example_observation(env.single_observation_space)
        self._returns = np.zeros(self.n_envs)
        self._episodes = HostEpisodes(vector, _ENDLESS)
        numbers = range(self.n_envs)
        seeds = np.array([seed_of(seed, Stream.EPISODES, i) for i in numbers], np.uint32)
        none = np.zeros(self.n_envs, np.int32)
        action = example_action(self._space)
        kept = np.zeros((self.n_envs, _room(vector), *action.shape), action.dtype)
        self._episodes.go_to(Played(seeds, none, kept, none), self._nothing_seen())

    def random_actions(self, seed: int, step: int) -> np.ndarray:
        """Uniformly random actions of those that are allowed.

        Args:
            seed: Seed of the training.
            step: Number of the step of the first environment.

        Returns:
            The actions, environments first.
        """
        observations = self._observations()

        def action(i: int) -> np.ndarray:
            rng = generator(seed, Stream.RANDOM_ACTIONS, step + i)
            return random_action(self._space, rng, jax.tree.map(lambda x: x[i], observations))

        return np.stack([action(i) for i in range(self.n_envs)])

    def sampled_actions(self, learner: LearnerLike, key: Key[Array, ""], step: int) -> Array:
        """Actions that a learner draws, which may still be under way.

        Args:
            learner: The learner.
            key: Key of all actions of the training.
            step: Number of the step of the first environment.

        Returns:
            The actions, environments first.
        """
        return _sample_each(learner, key, np.uint32(step), self._observations())

    def step(self, actions: ArrayLike, buffer: ReplayBuffer) -> Turn:
        """Takes an action in each environment, and begins the next episode where one is over.

        Args:
            actions: The actions, environments first.
            buffer: Where the transitions go.

        Returns:
            The transitions, and the returns of the episodes that are over.
        """
        observations, actions = self._observations(), action_array(self._space, actions)
        step = self._episodes.step(actions)
        transitions = self._transitions(observations, actions, step)
        buffer.add_transitions(transitions)
        self._returns += np.where(step.counts, step.reward, 0.0)
        over = step.terminated | step.truncated
        returns = self._returns[over].tolist()
        self._returns[over] = 0.0
        return Turn(transitions, returns)

    def notes(self) -> dict[str, list[float]]:
        """How far the episodes have come, as JSON."""
        played = self._episodes.played
        return {
            "numbers": played.number.tolist(),
            "steps": played.step.tolist(),
            "returns": self._returns.tolist(),
        }

    def arrays(self) -> dict[str, PyTree]:
        """The actions taken in the current episodes, and the observations that followed."""
        played = self._episodes.played
        taken = played.actions[:, : played.step.max()]
        return {"actions": taken, "observation": self._observations()}

    def go_to(self, notes: Mapping[str, Any], arrays: Mapping[str, PyTree]) -> list[int]:
        """Plays episodes again up to where they were; warns, and begins the next, where it cannot.

        Args:
            notes: What `notes` gave.
            arrays: What `arrays` gave.

        Returns:
            The environments in which an episode was given up after a step or more.
        """
        played = self._episodes.played
        actions, taken = np.zeros_like(played.actions), arrays["actions"]
        n_kept = min(actions.shape[1], taken.shape[1])
        actions[:, :n_kept] = taken[:, :n_kept]
        numbers, steps = (np.array(notes[name], np.int32) for name in ("numbers", "steps"))
        there = Played(played.seed, numbers, actions, steps)
        again = self._episodes.go_to(there, arrays["observation"])
        self._returns = np.where(again, notes["returns"], 0.0)
        return np.flatnonzero(~again & (steps > 0)).tolist()

    def _transitions(
        self, observations: PyTree, actions: np.ndarray, step: VectorStep
    ) -> dict[str, PyTree]:
        """The transitions of the environments that took their actions."""
        rows = {
            "observations": observations,
            "actions": actions,
            "rewards": step.reward,
            "next_observations": self._cast(step.next_obs),
            "masks": np.float32(~step.terminated),
            "ends": step.terminated | step.truncated,
            ENVIRONMENTS: np.arange(self.n_envs, dtype=np.int32),
        }
        return rows if step.counts.all() else jax.tree.map(lambda x: x[step.counts], rows)

    def _observations(self) -> PyTree:
        return self._cast(self._episodes.obs)

    def _cast(self, observations: PyTree) -> PyTree:
        """Observations as learners take them, who do not tell those of a discrete space from others."""
        return jax.tree.map(lambda like, x: x.astype(like.dtype), self._example, observations)

    def _nothing_seen(self) -> PyTree:
        return jax.tree.map(lambda x: np.broadcast_to(x, (self.n_envs, *x.shape)), self._example)


def _room(vector: Vector) -> int:
    """The number of actions that are kept of an episode, to be taken again."""
    if vector.starts_episodes:
        return 0
    return limit_of(specification_of(vector.env)) or LONGEST_KEPT


@jit_by_structure
def _sample_each(
    learner: LearnerLike, key: Key[Array, ""], step: ArrayLike, observations: PyTree
) -> Array:
    n_envs = len(jax.tree.leaves(observations)[0])
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, step + jnp.arange(n_envs, dtype=jnp.uint32))
    return jax.vmap(lambda seen, key: learner.sample_actions(seen, seed=key))(observations, keys)
