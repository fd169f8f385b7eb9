"""Environments of pgx."""

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
"""Chooses the action of another player: of a random key, what it observes, and the actions allowed."""

_OURS = 0


def random_opponent(
    key: Key[Array, ""], obs: PyTree, allowed: Bool[Array, " n_actions"]
) -> Int[Array, ""]:
    """Plays at random.

    Args:
        key: Random key.
        obs: What the player observes.
        allowed: Which actions are allowed.

    Returns:
        One of them.
    """
    return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))


class Pgx(Native):
    """A game of pgx in which the agent is one player.

    A step takes the agent's action, and then the other players', until it is the agent's turn
    again or the game is over; rewards on the way are added up. Who begins is drawn for each game, as pgx
    does. In games of one player nobody else is asked.

    Attributes:
        opponent: Chooses the actions of all other players.
    """

    def __init__(self, env: Any, opponent: Opponent = random_opponent) -> None:
        """Reads what the game declares.

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
        """Makes an environment of the suite.

        Args:
            name: One of `names()`.
            opponent: Chooses the actions of all other players.
            **options: Passed on to `pgx.make`.

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
        """The name that pgx has for it."""
        return self.env.id

    def against(self, opponent: Opponent) -> "Pgx":
        """The same game with another opponent.

        Args:
            opponent: Chooses the actions of all other players. Inside of a compiled program it may read
                traced arrays, such as the parameters of a policy.

        Returns:
            The game.

        Raises:
            ValueError: It is a game of one player.
        """
        if self.opponent is None:
            raise ValueError(f"{self.name} has one player, and so no opponent to replace.")
        twin = copy.copy(self)
        twin.opponent = opponent
        return twin

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts a game, in which the others may have moved first; see `Environment`."""
        ours, theirs = jax.random.split(key)
        state, _ = self._until_our_turn(theirs, self.env.init(ours))
        return self._observation(state), state

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step of the agent, and the others' steps up to its next one; see `Environment`."""
        ours, theirs = jax.random.split(key)
        over, last = jnp.logical_or(state.terminated, state.truncated), state.rewards[_OURS]
        state = self.env.step(state, action, ours)
        state, reward = self._until_our_turn(theirs, state)
        # A game that the others ended before our first turn pays in the first step, which does nothing.
        reward = jnp.where(over, last, reward)
        return Step(self._observation(state), state, reward, state.terminated, state.truncated, {})

    def action_mask(self, state: PyTree) -> Bool[Array, " n_actions"]:
        """Which actions the rules allow; see `Environment`."""
        return state.legal_action_mask

    def _until_our_turn(self, key: Key[Array, ""], state: PyTree) -> tuple[PyTree, Array]:
        """Lets the others move; also adds up the agent's rewards for that and for what came before."""
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
        """The agent's view, also of a game that ended on another player's turn."""
        # The method that games define. `observe` is of the current player, or warns.
        return self.env._observe(state, jnp.int32(_OURS))


def _pgx() -> Any:
    return require("pgx", "pgx")
