"""Copies of a parallel environment of PettingZoo, which step one after another."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree, UInt8
from pettingzoo import ParallelEnv

from jaxagents.envs.on_host.actors import Actors, ByAgent
from jaxagents.envs.on_host.copies import Copies, VectorStep, check_distinct
from jaxagents.envs.on_host.environment import Terms
from jaxagents.envs.on_host.infos import Infos
from jaxagents.envs.on_host.returned import reward_of


class _Ends(NamedTuple):
    """How a step leaves the actors of one environment.

    Attributes:
        terminated: Whether the episode ended.
        truncated: Whether it was cut.
        playing: Which actors are still in the game.
    """

    terminated: bool
    truncated: bool
    playing: Bool[np.ndarray, "actors"]


class ParallelCopies(Copies):
    """Copies of a parallel environment, whose caller starts the episodes.

    An episode is over once no agent is left. It was cut if one that played to the end was, and ended
    otherwise. Agents that terminate earlier, or in the step in which others are cut, have left.
    """

    starts_episodes = False

    def __init__(
        self,
        envs: Sequence[ParallelEnv],
        actors: Actors,
        terms: Terms,
        given: object | None = None,
    ) -> None:
        """Takes the copies.

        Args:
            envs: The environments.
            actors: Their agents.
            terms: How episodes are played.
            given: What a user made of them; see `Copies`.

        Raises:
            ValueError: One of them is there twice.
        """
        self.n_envs = len(envs)
        self.action_space = actors.action_space
        self._envs = envs
        check_distinct(self.environments)
        self._actors = actors
        self.infos = Infos(terms.info_names)
        self._shows_state = terms.shows_critic_state and actors.state is not None
        self.given = given
        self._rows: list[PyTree] = [None] * len(envs)

    @property
    def environments(self) -> list[object]:
        """The environments; see `Copies`."""
        return [env.unwrapped for env in self._envs]

    def reset(self, seeds: Sequence[int | None], where: Bool[np.ndarray, "environments"]) -> PyTree:
        """Starts episodes; see `Copies`."""
        for i in np.flatnonzero(where).tolist():
            observations, infos = self._envs[i].reset(seed=seeds[i])
            playing = self._are_among(self._envs[i].agents)
            self._rows[i] = self._observation(i, observations, infos, playing)
        return _stacked(self._rows)

    def step(self, actions: PyTree) -> VectorStep:
        """Takes one step in every environment; see `Copies`."""
        rewards, ends, said = [], [], []
        for i, env in enumerate(self._envs):
            before = tuple(env.agents)
            given = self._actors.actions(jax.tree.map(lambda x, i=i: x[i], actions), before)
            observations, reward, terminations, truncations, infos = env.step(given)
            end = self._ends(before, env.agents, terminations, truncations)
            self._rows[i] = self._observation(i, observations, infos, end.playing)
            rewards.append(self._rewards(env, reward))
            ends.append(end)
            said.append(self.infos.of_actors(infos, self._actors.agents))
        obs, (terminated, truncated, _) = (
            _stacked(self._rows),
            map(np.array, zip(*ends, strict=True)),
        )
        counts = np.ones(self.n_envs, bool)
        reward, info = np.stack(rewards), _stacked(said)
        return VectorStep(obs, obs, reward, terminated, truncated, counts, info)

    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        """A picture of the first environment."""
        return np.asarray(self._envs[0].render())

    def close(self) -> None:
        """Closes the environments, unless a user made them."""
        if self.given is None:
            for env in self._envs:
                env.close()

    def _observation(
        self, i: int, observations: ByAgent, infos: ByAgent, playing: Bool[np.ndarray, "actors"]
    ) -> PyTree:
        state = self._envs[i].state() if self._shows_state else None
        return self._actors.observation(observations, infos, playing, state)

    def _rewards(self, env: ParallelEnv, reward: ByAgent) -> Float[np.ndarray, "actors"]:
        of_each = [reward_of(env, reward.get(agent, 0.0)) for agent in self._actors.agents]
        return np.array(of_each, np.float32)

    def _ends(
        self, before: Sequence[str], after: Sequence[str], ended: ByAgent, cut: ByAgent
    ) -> _Ends:
        left = [agent for agent in after if not (ended.get(agent) or cut.get(agent))]
        if left:
            return _Ends(False, False, self._are_among(left))
        cut_at_last = [agent for agent in before if cut.get(agent) and not ended.get(agent)]
        if cut_at_last:
            return _Ends(False, True, self._are_among(cut_at_last))
        return _Ends(True, False, self._are_among(before))

    def _are_among(self, agents: Sequence[str]) -> Bool[np.ndarray, "actors"]:
        return np.array([agent in agents for agent in self._actors.agents], bool)


def _stacked(rows: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *xs: np.stack(xs), *rows)
