"""Copies of a PettingZoo parallel environment; its agents are the actors, one row of arrays each."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, PyTree, Shaped, UInt8
from pettingzoo import ParallelEnv

from jaxagents.core.observed import (
    ACTION_MASK,
    ACTOR_MASK,
    CRITIC_STATE,
    network_input,
    with_entries,
)
from jaxagents.envs.on_host.arrays import (
    as_observation,
    check_action_space,
    example_action,
    example_observation,
    in_types_of,
    own_space,
)
from jaxagents.envs.on_host.environment import Terms
from jaxagents.envs.on_host.episodes import Copies, VectorStep, check_distinct
from jaxagents.envs.on_host.infos import Infos
from jaxagents.envs.on_host.vectors import reward_of
from jaxagents.envs.spaces import is_discrete, network_space, size_of, widest_space

ByAgent = Mapping[str, Any]


class Actors:
    """The possible agents of an environment, and the arrays of their observations and actions.

    Observations from identical boxes are unchanged; any others are flattened and padded with zeros.
    If actors have different numbers of actions, missing ones are masked.

    Attributes:
        agents: Names of the agents, in the order of the rows.
        action_space: Action space of one actor.
        observation_space: Observation space of one actor.
        state: Zeros shaped like the input of a centralised critic; `None` if the environment has no
            `state()`.
        masks_in_infos: Whether infos have action masks.
    """

    def __init__(self, env: ParallelEnv, name: str) -> None:
        """Inspects the environment; this starts an episode to see whether actions are masked.

        Args:
            env: The environment.
            name: Name of the environment.

        Raises:
            TypeError: Only some agents have discrete actions, or boxes have different bounds.
            ValueError: Actions are not supported, have masks but are not discrete, or there are no
                agents.
        """
        agents: Any = getattr(env, "possible_agents", ())
        self.agents: tuple[str, ...] = tuple(agents)
        if not self.agents:
            raise ValueError(
                f"{name} has no possible_agents: networks are made for all agents that may "
                "appear, so the environment must name them before the first episode."
            )
        action_spaces = [env.action_space(agent) for agent in self.agents]
        for space in action_spaces:
            check_action_space(space)
        first = action_spaces[0]
        are_alike = not is_discrete(first) and all(space == first for space in action_spaces)
        self.action_space = own_space(first) if are_alike else widest_space(action_spaces, name)
        self._sizes = [size_of(space) if space.shape is not None else 0 for space in action_spaces]
        seen = [_seen(env.observation_space(agent)) for agent in self.agents]
        self._flattened = () if _are_alike_boxes(seen) else tuple(seen)
        width = max(map(spaces.flatdim, self._flattened), default=0)
        row = spaces.Box(-np.inf, np.inf, (width,)) if self._flattened else seen[0]
        self.observation_space, self._blank = own_space(row), example_observation(row)
        observations, infos = env.reset(seed=0)
        is_masked = any(mask is not None for mask in self._masks_of(observations, infos))
        self.masks_in_infos = any(mask is not None for mask in self._masks_of({}, infos))
        self._name, self._has = name, None
        if is_discrete(self.action_space):
            has = np.arange(self.action_space.n) < np.asarray(self._sizes)[:, None]
            self._has = has if is_masked or not has.all() else None
        elif is_masked:
            raise ValueError(
                f"{name} has action masks, which work only where all actions are Discrete, but "
                f"they are {self.action_space}: leave out the entry {ACTION_MASK!r}, or number "
                "all actions consecutively."
            )
        self.state = _state_of(env)

    def example(self) -> tuple[PyTree, PyTree]:
        """An observation, without the critic's state, and an action of all actors, as zeros."""
        action = example_action(self.action_space)
        rows = jax.tree.map(lambda x: np.stack([x] * len(self.agents)), action)
        return self.observation({}, {}, np.zeros(len(self.agents), bool), None), rows

    def observation(
        self,
        observations: ByAgent,
        infos: ByAgent,
        playing: Bool[np.ndarray, "actors"],
        state: PyTree,
    ) -> PyTree:
        """Builds the observation of all actors.

        Args:
            observations: Observations by agent; missing agents get zeros.
            infos: Infos by agent.
            playing: Whether each actor is still playing.
            state: The input of a centralised critic, if there is one.

        Returns:
            A dict of arrays.

        Raises:
            ValueError: There are action masks, but there were none at the first reset.
        """
        entries = {
            ACTION_MASK: self._action_mask(observations, infos),
            ACTOR_MASK: playing,
            CRITIC_STATE: None if state is None else as_observation(state),
        }
        rows = [self._row(i, observations) for i in range(len(self.agents))]
        return with_entries(_stack(rows), **entries)

    def actions(
        self, action: PyTree[Shaped[np.ndarray, "actors ..."]], agents: Sequence[str]
    ) -> dict[str, Any]:
        """Converts actions of all actors to a dict of the given agents' actions."""
        return {agent: self._action(action, self.agents.index(agent)) for agent in agents}

    def _action(self, action: PyTree, i: int) -> Any:
        if is_discrete(self.action_space):
            return min(action[i], action.dtype.type(self._sizes[i] - 1))
        own = jax.tree.map(lambda x: x[i], action)
        is_vector = isinstance(own, np.ndarray) and own.ndim == 1
        return own[: self._sizes[i]] if is_vector else own

    def _row(self, i: int, observations: ByAgent) -> PyTree:
        if self.agents[i] not in observations:
            return self._blank
        own = network_input(observations[self.agents[i]])
        if not self._flattened:
            return in_types_of(self._blank, as_observation(own))
        row = self._blank.copy()
        flat = spaces.flatten(self._flattened[i], own)
        row[: len(flat)] = flat
        return row

    def _action_mask(
        self, observations: ByAgent, infos: ByAgent
    ) -> Bool[np.ndarray, "actors n"] | None:
        given = dict(zip(self.agents, self._masks_of(observations, infos), strict=True))
        given = {agent: mask for agent, mask in given.items() if mask is not None}
        if self._has is None:
            if given:
                raise ValueError(
                    f"{self._name} gives {next(iter(given))} an {ACTION_MASK!r}, but gave no "
                    "agent one when it was first reset: return one then too, such as one that "
                    "allows every action."
                )
            return None
        masks = self._has.copy()
        for agent, mask in given.items():
            i = self.agents.index(agent)
            masks[i, : self._sizes[i]] &= np.asarray(mask, bool)
        return masks

    def _masks_of(self, observations: ByAgent, infos: ByAgent) -> list[Any]:
        """The action mask of each agent, from its observation or its info."""

        def mask(agent: str) -> Any:
            for said in (observations.get(agent), infos.get(agent)):
                if isinstance(said, Mapping) and said.get(ACTION_MASK) is not None:
                    return said[ACTION_MASK]
            return None

        return list(map(mask, self.agents))


def _seen(space: spaces.Space) -> spaces.Space:
    """The part of an observation space that networks see."""
    part = network_space(space)
    return spaces.Dict(part) if isinstance(part, dict) else part


def _are_alike_boxes(each: Sequence[spaces.Space]) -> bool:
    """Whether all spaces are the same box of arrays, or the same dict of such boxes."""

    def is_simple(space: spaces.Space) -> bool:
        if isinstance(space, spaces.Dict):
            return all(map(is_simple, space.spaces.values()))
        return isinstance(space, spaces.Box) and len(space.shape) > 0

    return is_simple(each[0]) and all(space == each[0] for space in each)


def _state_of(env: ParallelEnv) -> PyTree:
    try:
        state = env.state()
    except (NotImplementedError, AttributeError, TypeError):  # some have a dict of that name
        return None
    return jax.tree.map(np.zeros_like, as_observation(state))


class ParallelCopies(Copies):
    """Copies of a parallel environment, stepped one after another; the caller starts episodes.

    An episode is over once no agent is left. It counts as truncated if an agent that played to the end
    was truncated, else as terminated. Agents that terminate earlier, or at the same step as others are
    truncated, have left.
    """

    starts_episodes = False

    def __init__(
        self,
        envs: Sequence[ParallelEnv],
        actors: Actors,
        terms: Terms,
        given: object | None = None,
    ) -> None:
        """Wraps the copies.

        Args:
            envs: The environments.
            actors: The agents of the environments.
            terms: How to play episodes.
            given: The user's object that holds them; see `Copies`.

        Raises:
            ValueError: An environment occurs twice.
        """
        self.n_envs, self.given = len(envs), given
        self.action_space = actors.action_space
        self.environments = [env.unwrapped for env in envs]
        check_distinct(self.environments)
        self.infos = Infos(terms.info_names)
        self._envs, self._actors = envs, actors
        self._shows_state = terms.shows_critic_state and actors.state is not None
        self._rows: list[PyTree] = [None] * len(envs)

    def reset(self, seeds: Sequence[int | None], where: Bool[np.ndarray, "environments"]) -> PyTree:
        """Starts episodes; see `Copies`."""
        for i in np.flatnonzero(where).tolist():
            observations, infos = self._envs[i].reset(seed=seeds[i])
            self._observe(i, observations, infos, self._envs[i].agents)
        return _stack(self._rows)

    def step(self, actions: PyTree) -> VectorStep:
        """Takes one step in every environment; see `Copies`."""
        rewards, terminated, truncated, said = [], [], [], []
        for i, env in enumerate(self._envs):
            before = tuple(env.agents)
            given = self._actors.actions(jax.tree.map(lambda x, i=i: x[i], actions), before)
            observations, reward, ended, cut, infos = env.step(given)
            left = [agent for agent in env.agents if not (ended.get(agent) or cut.get(agent))]
            cut_at_last = [agent for agent in before if cut.get(agent) and not ended.get(agent)]
            self._observe(i, observations, infos, left or cut_at_last or before)
            terminated.append(not left and not cut_at_last)
            truncated.append(not left and bool(cut_at_last))
            each = [reward_of(env, reward.get(agent, 0.0)) for agent in self._actors.agents]
            rewards.append(np.array(each, np.float32))
            said.append(self.infos.of_actors(infos, self._actors.agents))
        obs, counts = _stack(self._rows), np.ones(self.n_envs, bool)
        reward, ends = np.stack(rewards), (np.array(terminated), np.array(truncated))
        return VectorStep(obs, obs, reward, *ends, counts, _stack(said))

    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        """Returns an image of the first environment."""
        return np.array(self._envs[0].render())  # environments may reuse one array

    def close(self) -> None:
        """Closes the environments, unless the user created them."""
        if self.given is None:
            for env in self._envs:
                env.close()

    def _observe(
        self, i: int, observations: ByAgent, infos: ByAgent, playing: Sequence[str]
    ) -> None:
        """Stores the observation of an environment, given which agents are still playing."""
        mask = np.array([agent in playing for agent in self._actors.agents], bool)
        state = self._envs[i].state() if self._shows_state else None
        self._rows[i] = self._actors.observation(observations, infos, mask, state)


def _stack(rows: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *xs: np.stack(xs), *rows)
