"""The adapter for pgx."""

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from jaxagents.core.extras import require
from jaxagents.envs.adapters.native import Native, reset_shapes, space_like
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.spaces import Discrete

Opponent = Callable[[Key[Array, ""], PyTree, Bool[Array, " n_actions"]], Int[Array, ""]]
"""Chooses another player's action, given a random key, its observation and the allowed actions."""

_OURS = 0


def random_opponent(
    key: Key[Array, ""], obs: PyTree, allowed: Bool[Array, " n_actions"]
) -> Int[Array, ""]:
    """Chooses uniformly among the allowed actions.

    Args:
        key: Random key.
        obs: The player's observation.
        allowed: Whether each action is allowed.

    Returns:
        The action.
    """
    return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))


class Pgx(Native):
    """A pgx game in which the agent is one of the players.

    A step plays the agent's action and then the other players' actions, until it is the agent's turn
    again or the game is over; rewards along the way are summed. pgx chooses at random who begins. Games
    for one player have no opponent.

    Attributes:
        opponent: Chooses the actions of all other players.
    """

    def __init__(self, env: Any, opponent: Opponent = random_opponent) -> None:
        """Wraps a game.

        Args:
            env: The game.
            opponent: Chooses the actions of all other players.
        """
        super().__init__(env)
        self.opponent = opponent if env.num_players > 1 else None
        obs, state = reset_shapes(self)
        self.action_space = Discrete(state.legal_action_mask.shape[-1])
        self.observation_space = space_like(obs)

    @classmethod
    def named(cls, name: str, opponent: Opponent = random_opponent, **options: Any) -> Environment:
        """Creates a game by name.

        Args:
            name: One of `names()`.
            opponent: Chooses the actions of all other players.
            **options: Passed to `pgx.make`.

        Returns:
            The environment.
        """
        return cls(_pgx().make(name, **options), opponent)

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return list(_pgx().available_envs())

    @property
    def name(self) -> str:
        """The game's name in pgx."""
        return self.env.id

    def against(self, opponent: Opponent) -> "Pgx":
        """Returns the same game against another opponent.

        Args:
            opponent: Chooses the actions of all other players. Inside a compiled program, it may use
                traced arrays, such as policy parameters.

        Returns:
            The game.

        Raises:
            ValueError: The game has only one player.
        """
        if self.opponent is None:
            raise ValueError(f"{self.name} has one player, so no opponent to replace.")
        twin = copy.copy(self)
        twin.opponent = opponent
        return twin

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts a game, in which the others may move first; see `Environment`."""
        ours, theirs = jax.random.split(key)
        state, _ = self._until_our_turn(theirs, self.env.init(ours))
        return self._observation(state), state

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Plays the agent's move and the others' moves up to its next turn; see `Environment`."""
        ours, theirs = jax.random.split(key)
        over, last = jnp.logical_or(state.terminated, state.truncated), state.rewards[_OURS]
        state = self.env.step(state, action, ours)
        state, reward = self._until_our_turn(theirs, state)
        # If the others ended the game before our first turn, the first step, a no-op, gives the reward.
        reward = jnp.where(over, last, reward)
        return Step(self._observation(state), state, reward, state.terminated, state.truncated, {})

    def action_mask(self, state: PyTree) -> Bool[Array, " n_actions"]:
        """The legal actions; see `Environment`."""
        return state.legal_action_mask

    def _until_our_turn(self, key: Key[Array, ""], state: PyTree) -> tuple[PyTree, Array]:
        """Lets the others move; returns the state and the agent's summed rewards."""
        if self.opponent is None:
            return state, state.rewards[_OURS]
        opponent = self.opponent

        def is_theirs(turn: Any) -> Bool[Array, ""]:
            _, state, _ = turn
            return (state.current_player != _OURS) & ~state.terminated & ~state.truncated

        def move(turn: Any) -> Any:
            key, state, reward = turn
            key, choice, chance = jax.random.split(key, 3)
            action = opponent(choice, state.observation, state.legal_action_mask)
            state = self.env.step(state, action.astype(jnp.int32), chance)
            return key, state, reward + state.rewards[_OURS]

        turn = jax.lax.while_loop(is_theirs, move, (key, state, state.rewards[_OURS]))
        return turn[1], turn[2]

    def _observation(self, state: PyTree) -> PyTree:
        """The agent's view, even if the game ended on another player's turn."""
        # The method that games define: `observe` shows the current player's view, or warns.
        return self.env._observe(state, jnp.int32(_OURS))


def _pgx() -> Any:
    return require("pgx", "pgx")
