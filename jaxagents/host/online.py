"""A learner in a Gymnasium environment, which learns from a replay buffer."""

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PyTree

from jaxagents.core.compilation import jit_by_structure
from jaxagents.core.finite import OBSERVATIONS
from jaxagents.core.first_spoilt import REWARDS, FirstSpoilt
from jaxagents.data import ReplayBuffer
from jaxagents.host.config import OnlineConfig
from jaxagents.host.episodes import GymnasiumEpisodes, example_transition, random_action
from jaxagents.host.journal import Journal
from jaxagents.host.learner_like import LearnerLike
from jaxagents.host.outcome import is_finite
from jaxagents.host.randomness import Stream, generator, seed_of
from jaxagents.host.updates import Sums, Updates, added

_RETURN = "episode_return"


class OnlineTraining:
    """Acts, stores transitions, and learns from those stored, in turns.

    A step first starts the choice of an action, then an update, and only then waits for the action:
    while the device updates, the host steps the environment, stores the transition and draws the next
    batch. The learner therefore acts as it was before the update that is running, and an update learns
    from the transitions of earlier steps.

    Attributes:
        step: Number of steps made in the environment.
        updates: The learner and its updates.
        names: The names of the numbers that are reported.
        first_spoilt: The first steps after which rewards or observations were not finite.
    """

    unit = "step"
    steps_per_call = 1

    def __init__(
        self,
        learner: LearnerLike,
        env: gymnasium.Env,
        buffer: ReplayBuffer,
        config: OnlineConfig,
        journal: Journal | None,
    ) -> None:
        """Begins the first episode.

        Args:
            learner: The learner.
            env: The environment, with rescaled actions.
            buffer: Where transitions go.
            config: The configuration.
            journal: Keeps the transitions on disk.
        """
        self.step = 0
        self.first_spoilt: FirstSpoilt = {}
        self.updates = Updates(learner, example_transition(env), observe_batches=True)
        self.names = [*self.updates.names, _RETURN]
        self._episodes = GymnasiumEpisodes(env, config.seed)
        self._action_space = env.action_space
        self._buffer = buffer
        self._config = config
        self._journal = journal
        self._key = jax.random.key(np.uint32(seed_of(config.seed, Stream.ACTIONS)))
        self._returns: Sums = {}

    def advance(self, n_steps: int) -> None:
        """Makes steps."""
        for _ in range(n_steps):
            action = self._action()
            if self._learns():
                self.updates.make(self._batches())
            transition, episode_return = self._episodes.step(action)
            self._buffer.add_transition(transition)
            if episode_return is not None:
                self._returns = added(self._returns, {_RETURN: (episode_return, 1)})
            self.step += 1
            self._look_at(transition)

    def _look_at(self, transition: Mapping[str, PyTree]) -> None:
        """Remembers if this is the first transition with numbers that are not finite."""
        if not np.isfinite(transition["rewards"]):
            self.first_spoilt.setdefault(REWARDS, np.asarray(self.step))
        if not all(is_finite(transition[name]) for name in ("observations", "next_observations")):
            self.first_spoilt.setdefault(OBSERVATIONS, np.asarray(self.step))

    def drain(self) -> Sums:
        """Sums of what updates reported, and of the returns of episodes, since the last call."""
        returns, self._returns = self._returns, {}
        return {**self.updates.drain(), **returns}

    def state(self) -> dict[str, Any]:
        """Everything needed to continue from here; writes new transitions to disk."""
        episode = {"actions": self._episodes.actions, "observation": self._episodes.observation}
        return {
            "updates": self.updates.state(),
            "returns": self._returns,
            "episode": self._episodes.number,
            "replay": None if self._journal is None else self._journal.write(self.step, episode),
        }

    def load(self, step: int, learner: LearnerLike, state: Mapping[str, Any]) -> None:
        """Continues from a step, with its learner and state."""
        assert self._journal is not None
        self.step = step
        self.updates.load(learner, state["updates"])
        self._returns = added({}, state["returns"])
        episode = self._journal.read(state["replay"])
        actions = episode["actions"]
        if not self._episodes.go_to(state["episode"], actions, episode["observation"]):
            warnings.warn(
                f"Episode {state['episode']} took another course when its {len(actions)} actions were "
                "taken again, so that training goes on with a new episode, and not as if it had never "
                "been interrupted. The environment is not determined by its seed.",
                stacklevel=8,
            )
            if len(actions):
                self._journal.end_episode()

    def _action(self) -> ArrayLike:
        observation = self._episodes.observation
        if self.step < self._config.start_steps:
            rng = generator(self._config.seed, Stream.RANDOM_ACTIONS, self.step)
            return random_action(self._action_space, rng, observation)
        return _sample(self.updates.learner, self._key, np.uint32(self.step), observation)

    def _learns(self) -> bool:
        is_time = self.step % self._config.update_frequency == 0
        return is_time and self.step >= self._config.start_steps and len(self._buffer) > 0

    def _batches(self) -> Mapping[str, PyTree]:
        config = self._config
        shape = (config.updates_per_call, config.batch_size)
        rng = generator(config.seed, Stream.BATCHES, self.step)
        indices = rng.integers(len(self._buffer), size=shape)
        return self._buffer.sample(config.batch_size, indx=indices)


@jit_by_structure
def _sample(
    learner: LearnerLike, key: Key[Array, ""], step: ArrayLike, observation: PyTree
) -> Array:
    return learner.sample_actions(observation, seed=jax.random.fold_in(key, step))
