"""A learner in Gymnasium environments, which learns from a replay buffer."""

from collections.abc import Mapping
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PyTree

from jaxagents.core.report import FirstNonfinite
from jaxagents.data import ReplayBuffer
from jaxagents.host.config import OnlineConfig
from jaxagents.host.journal import Journal
from jaxagents.host.learner_like import LearnerLike
from jaxagents.host.randomness import Stream, generator, seed_of
from jaxagents.host.reward_scale import RewardScale
from jaxagents.host.turns import Turn
from jaxagents.host.updates import Sums, Updates, added

_RETURN = "episode_return"


class Episodes(Protocol):
    """The episodes of a training, in one environment or in several at once.

    Attributes:
        n_envs: Number of environments.
    """

    n_envs: int

    def random_actions(self, seed: int, step: int) -> np.ndarray:
        """Uniformly random actions of those that are allowed."""
        ...

    def sampled_actions(self, learner: LearnerLike, key: Key[Array, ""], step: int) -> Array:
        """Actions that a learner draws, which may still be under way."""
        ...

    def step(self, actions: ArrayLike, buffer: ReplayBuffer) -> Turn:
        """Takes actions, stores the transitions, and gives the returns of episodes that are over."""
        ...

    def notes(self) -> Any:
        """How far the episodes have come, as JSON."""

    def arrays(self) -> dict[str, PyTree]:
        """The actions taken in the current episodes, and the observations that followed."""
        ...

    def go_to(self, notes: Any, arrays: Mapping[str, PyTree]) -> list[int]:
        """Plays episodes again up to where they were, and says in which environments it gave them up."""
        ...


class OnlineTraining:
    """Acts, stores transitions, and learns from those stored, in turns.

    A turn first starts the choice of an action, then updates, and only then waits for the action: while
    the device updates, the host steps the environment, stores the transition and draws the next batch.
    The learner therefore acts as it was before the updates that are running, and an update learns from
    the transitions of earlier turns. With several environments, a turn is as many steps, one of each.

    Attributes:
        step: Number of steps made in environments.
        updates: The learner and its updates.
        names: The names of the numbers that are reported.
        steps_per_call: Number of steps of a turn.
        first_spoilt: The first steps after which rewards or observations were not finite.
    """

    unit = "step"

    def __init__(
        self,
        learner: LearnerLike,
        episodes: Episodes,
        example: Mapping[str, PyTree],
        buffer: ReplayBuffer,
        config: OnlineConfig,
        journal: Journal | None,
    ) -> None:
        """Prepares it.

        Args:
            learner: The learner.
            episodes: What it plays, which has begun.
            example: A transition.
            buffer: Where transitions go.
            config: The configuration.
            journal: Keeps the transitions on disk.
        """
        self.step = 0
        self.first_spoilt: FirstNonfinite = {}
        self.steps_per_call = episodes.n_envs
        self.updates = Updates(learner, example, observe_batches=True)
        self.names = [*self.updates.names, _RETURN]
        self._episodes = episodes
        self._buffer = buffer
        self._config = config
        self._journal = journal
        self._key = jax.random.key(np.uint32(seed_of(config.seed, Stream.ACTIONS)))
        self._returns: Sums = {}
        scales = config.normalise_rewards
        self._rewards = RewardScale(learner, episodes.n_envs) if scales else None

    def advance(self, n_steps: int) -> None:
        """Makes steps, in whole turns."""
        for _ in range(n_steps // self.steps_per_call):
            actions = self._actions()
            if rounds := self._rounds():
                self.updates.make(self._batches(rounds))
            turn = self._episodes.step(actions, self._buffer)
            if turn.returns:
                returns = {_RETURN: (sum(turn.returns), len(turn.returns))}
                self._returns = added(self._returns, returns)
            if self._rewards is not None:
                self._rewards.observe(turn.given)
            self.step += self.steps_per_call
            for name in turn.spoilt():
                self.first_spoilt.setdefault(name, np.asarray(self.step))

    def drain(self) -> Sums:
        """Sums of what updates reported, and of the returns of episodes, since the last call."""
        returns, self._returns = self._returns, {}
        return {**self.updates.drain(), **returns}

    def state(self) -> dict[str, Any]:
        """Everything needed to continue from here; writes new transitions to disk."""
        arrays = self._episodes.arrays()
        return {
            "updates": self.updates.state(),
            "returns": self._returns,
            "episode": self._episodes.notes(),
            "rewards": None if self._rewards is None else self._rewards.state(),
            "replay": None if self._journal is None else self._journal.write(self.step, arrays),
        }

    def load(self, step: int, learner: LearnerLike, state: Mapping[str, Any]) -> None:
        """Continues from a step, with its learner and state."""
        assert self._journal is not None
        self.step = step
        self.updates.load(learner, state["updates"])
        self._returns = added({}, state["returns"])
        arrays = self._journal.read(state["replay"])
        given_up = self._episodes.go_to(state["episode"], arrays)
        self._journal.end_episodes(given_up)
        if self._rewards is not None and (earlier := state.get("rewards")):
            self._rewards.load(earlier)
            self._rewards.forget(given_up)

    def _actions(self) -> ArrayLike:
        if self.step < self._config.start_steps:
            return self._episodes.random_actions(self._config.seed, self.step)
        return self._episodes.sampled_actions(self.updates.learner, self._key, self.step)

    def _rounds(self) -> list[int]:
        """The steps of this turn at which a call of updates is due."""
        if self.step < self._config.start_steps or not len(self._buffer):
            return []
        steps = range(self.step, self.step + self.steps_per_call)
        return [step for step in steps if step % self._config.update_frequency == 0]

    def _batches(self, rounds: list[int]) -> Mapping[str, PyTree]:
        config = self._config
        shape, n_held = (config.updates_per_call, config.batch_size), len(self._buffer)
        rngs = [generator(config.seed, Stream.BATCHES, step) for step in rounds]
        indices = np.concatenate([rng.integers(n_held, size=shape) for rng in rngs])
        batches = self._buffer.sample(config.batch_size, indx=indices)
        return batches if self._rewards is None else self._rewards.scaled(batches)
