"""Agents of PettingZoo's parallel environments as actors: a row of each array for each of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, PyTree, Shaped
from pettingzoo import ParallelEnv

from jaxagents.core.observed import (
    ACTION_MASK,
    ACTOR_MASK,
    CRITIC_STATE,
    network_input,
    observed_beside,
)
from jaxagents.envs.on_host.arrays import (
    as_observation,
    check_action_space,
    example_action,
    example_observation,
    in_types_of,
    own_space,
)
from jaxagents.envs.spaces import Space, is_discrete, network_space, size_of, widest_space

ByAgent = Mapping[str, Any]


class Actors:
    """The possible agents of an environment, and the arrays that hold what all of them see and do.

    Observations of boxes that are alike stay as they are; any others are flattened, and filled up with
    zeros. Where numbers of actions differ, those that an actor does not have are masked.

    Attributes:
        agents: Their names, in the order of the rows.
        action_space: Space of the actions of one actor.
        observation_space: Space of the observation of one actor.
        state: What a centralised critic sees, zeros like it; `None` if the environment has no `state()`.
    """

    def __init__(self, env: ParallelEnv, name: str) -> None:
        """Starts an episode, to see what is observed.

        Args:
            env: The environment.
            name: Its name.

        Raises:
            TypeError: Some agents have discrete actions and others do not, or boxes have other bounds.
            ValueError: Actions are such as no agent takes, or have masks but are not discrete, or there
                are no agents.
        """
        self.agents = _possible_agents(env, name)
        action_spaces = [env.action_space(agent) for agent in self.agents]
        for space in action_spaces:
            check_action_space(space)
        self.action_space = _common_space(action_spaces, name)
        self._sizes = [size_of(space) if space.shape is not None else 0 for space in action_spaces]
        seen = [_seen(env.observation_space(agent)) for agent in self.agents]
        self._flattened = () if _are_alike_boxes(seen) else tuple(seen)
        width = max(map(spaces.flatdim, self._flattened), default=0)
        row = spaces.Box(-np.inf, np.inf, (width,)) if self._flattened else seen[0]
        self.observation_space, self._blank = own_space(row), example_observation(row)
        observations, infos = env.reset(seed=0)
        said = [_mask(observations, infos, agent) for agent in self.agents]
        is_masked = any(mask is not None for mask in said)
        if is_masked and not is_discrete(self.action_space):
            raise ValueError(
                f"{name} has masks of actions, which are heeded where all actions are Discrete, but "
                f"they are {self.action_space}: leave the entry {ACTION_MASK!r} out, or number the "
                "actions through."
            )
        self._name, self._has = name, self._actions_of_each(is_masked)
        self.state = _state_of(env)

    def _actions_of_each(self, is_masked: bool) -> Bool[np.ndarray, "actors n"] | None:
        """The actions that each actor has; `None` if none is ever masked."""
        if not is_discrete(self.action_space):
            return None
        has = np.arange(self.action_space.n) < np.asarray(self._sizes)[:, None]
        return has if is_masked or not has.all() else None

    def example(self) -> tuple[PyTree, PyTree]:
        """An observation and an action of all actors, as arrays of zeros, without the critic's state."""
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
        """The observation of all actors.

        Args:
            observations: What each agent observes, zeros being taken for others.
            infos: What is said besides.
            playing: Which actors are still in the game.
            state: What a centralised critic sees, if it is shown.

        Returns:
            A dict of arrays.

        Raises:
            ValueError: There are masks of actions, but there were none when the environment was first
                reset.
        """
        rows = [self._row(i, observations) for i in range(len(self.agents))]
        entries = {
            ACTION_MASK: self._masks(observations, infos),
            ACTOR_MASK: playing,
            CRITIC_STATE: None if state is None else as_observation(state),
        }
        return observed_beside(jax.tree.map(lambda *xs: np.stack(xs), *rows), **entries)

    def actions(
        self, action: PyTree[Shaped[np.ndarray, "actors ..."]], agents: Sequence[str]
    ) -> dict[str, Any]:
        """The actions that an environment is given.

        Args:
            action: Those of all actors.
            agents: The agents that are still in the game.

        Returns:
            Theirs by name.
        """
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

    def _masks(self, observations: ByAgent, infos: ByAgent) -> Bool[np.ndarray, "actors n"] | None:
        said = [_mask(observations, infos, agent) for agent in self.agents]
        if self._has is None:
            self._check_says_nothing(said)
            return None
        masks = self._has.copy()
        for i, mask in enumerate(said):
            if mask is not None:
                masks[i, : self._sizes[i]] &= np.asarray(mask, bool)
        return masks

    def _check_says_nothing(self, masks: Sequence[Any]) -> None:
        """Raises if there are masks of an environment that had none at first.

        Raises:
            ValueError: There are.
        """
        late = [agent for agent, mask in zip(self.agents, masks, strict=True) if mask is not None]
        if late:
            raise ValueError(
                f"{self._name} gives {late[0]} an {ACTION_MASK!r}, but gave nobody one when it was "
                "first reset: give one then too, such as one that allows every action."
            )


def _possible_agents(env: ParallelEnv, name: str) -> tuple[str, ...]:
    agents = tuple(getattr(env, "possible_agents", ()))
    if not agents:
        raise ValueError(
            f"{name} has no possible_agents: an agent has networks for all actors that there may be, so "
            "that the environment has to name them before the first episode."
        )
    return agents


def _common_space(each: Sequence[spaces.Space], name: str) -> Space:
    if all(space == each[0] for space in each) and not is_discrete(each[0]):
        return own_space(each[0])
    return widest_space(each, name)


def _seen(space: spaces.Space) -> spaces.Space:
    """The space of what networks see."""
    part = network_space(space)
    return spaces.Dict(part) if isinstance(part, dict) else part


def _are_alike_boxes(each: Sequence[spaces.Space]) -> bool:
    """Whether spaces are the same box of arrays, or dict of such."""

    def is_simple(space: spaces.Space) -> bool:
        if isinstance(space, spaces.Dict):
            return all(map(is_simple, space.spaces.values()))
        return isinstance(space, spaces.Box) and len(space.shape) > 0

    return is_simple(each[0]) and all(space == each[0] for space in each)


def _mask(observations: ByAgent, infos: ByAgent, agent: str) -> Any:
    """The mask of an agent's actions, beside what it observes or in what is said besides."""
    for said in (observations.get(agent), infos.get(agent)):
        if isinstance(said, Mapping) and said.get(ACTION_MASK) is not None:
            return said[ACTION_MASK]
    return None


def _state_of(env: ParallelEnv) -> PyTree:
    try:
        state = env.state()
    except (NotImplementedError, AttributeError, TypeError):  # some keep a dict of that name
        return None
    return jax.tree.map(np.zeros_like, as_observation(state))
