"""A two-player game with known perfect play, and opponents for it and other games."""

import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxagents.envs import Environment, Step
from jaxagents.envs.spaces import Discrete

N_MATCHES, MOST_TAKEN = 21, 3


def at_random(key, obs, allowed):
    """A random allowed move."""
    return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))


def one_of_the_best(key, values):
    """A random move among those of the highest value."""
    return jax.random.categorical(key, jnp.where(values >= values.max(), 0.0, -jnp.inf))


class Takeaway(Environment):
    """Players take turns removing one to three of 21 matches; whoever takes the last one wins."""

    action_space = Discrete(MOST_TAKEN)

    def __init__(self, opponent=at_random):
        self.opponent = opponent

    def against(self, opponent):
        """Returns the same game with another opponent."""
        twin = copy.copy(self)
        twin.opponent = opponent
        return twin

    def reset(self, key):
        """Starts a game; a random player moves first."""
        who, key = jax.random.split(key)
        replied = self._reply(key, jnp.int32(N_MATCHES))
        matches = jnp.where(jax.random.bernoulli(who), N_MATCHES, replied)
        return self._observe(matches), matches

    def step(self, key, state, action):
        """Takes matches, then lets the opponent take some if any are left."""
        left = jnp.maximum(state - action - 1, 0)
        after = jnp.where(left > 0, self._reply(key, left), 0)
        reward = jnp.where(left == 0, 1.0, jnp.where(after == 0, -1.0, 0.0))
        return Step(self._observe(after), after, reward, after == 0, jnp.bool(False), {})

    def action_mask(self, state):
        """A player cannot take more matches than are left."""
        return jnp.arange(1, MOST_TAKEN + 1) <= state

    def _reply(self, key, matches):
        taken = self.opponent(key, self._observe(matches), self.action_mask(matches))
        return jnp.maximum(matches - taken - 1, 0)

    def _observe(self, matches):
        return jax.nn.one_hot(matches, N_MATCHES + 1)


def perfect_at_takeaway(key, obs, allowed):
    """Leaves a multiple of four if possible; otherwise moves at random."""
    taken = jnp.arange(1, MOST_TAKEN + 1)
    good = (obs.argmax() - taken) % (MOST_TAKEN + 1) == 0
    return one_of_the_best(key, jnp.where(allowed, good, -jnp.inf))


LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
POWERS = 3 ** np.arange(9)


@functools.cache
def values_of_moves(board):
    """The value of each move in a position of tic-tac-toe under perfect play.

    Args:
        board: 1 for stones of the player to move, 2 for stones of the other player.

    Returns:
        1, 0 or -1 for moves that win, draw or lose; -inf for illegal moves.
    """
    return tuple(_value_of(board, i) if x == 0 else -np.inf for i, x in enumerate(board))


def _value_of(board, move):
    after = tuple(1 if i == move else x for i, x in enumerate(board))
    if any(all(after[i] == 1 for i in line) for line in LINES):
        return 1.0
    if 0 not in after:
        return 0.0
    return -max(values_of_moves(tuple((0, 2, 1)[x] for x in after)))


@functools.cache
def table_of_tic_tac_toe():
    """The values of all moves in all positions, indexed by the position as a base-3 number."""
    values_of_moves((0,) * 9)
    table = np.zeros((3**9, 9), np.float32)
    for number in range(len(table)):
        board = tuple(int(x) for x in number // POWERS % 3)
        table[number] = values_of_moves(board)
    return table


def perfect_at_tic_tac_toe(key, obs, allowed):
    """A random move among the best."""
    board = obs.reshape(9, 2).astype(jnp.int32) @ jnp.array([1, 2])
    return one_of_the_best(key, jnp.asarray(table_of_tic_tac_toe())[board @ jnp.asarray(POWERS)])


def has_four(stones):
    """Whether stones of one colour have four in a row, on boards with any leading axes."""
    rows, columns = stones.shape[-2:]
    found = jnp.zeros(stones.shape[:-2], bool)
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        height, width, first = rows - 3 * down, columns - 3 * abs(right), 3 * (right < 0)
        parts = [
            stones[..., i * down :, first + i * right :][..., :height, :width] for i in range(4)
        ]
        found |= functools.reduce(jnp.logical_and, parts).any(axis=(-2, -1))
    return found


def values_of_columns(mine, theirs, depth):
    """The value of each column of connect four, by minimax search.

    Args:
        mine: Stones of the player to move, shaped `(6, 7)`, top row first.
        theirs: Stones of the other player.
        depth: Number of moves to look ahead.

    Returns:
        Positive for a win in sight, larger the nearer it is; negative for a loss; 0 for neither; -inf
        for full columns.
    """
    height = mine.shape[0] - 1 - (mine | theirs).sum(axis=0)
    columns = jnp.arange(mine.shape[1])
    after = jax.vmap(lambda row, column: mine.at[row, column].set(True))(height, columns)
    wins = has_four(after)
    value = jnp.where(wins, float(depth), 0.0)
    if depth > 1:
        replies = jax.vmap(lambda board: values_of_columns(theirs, board, depth - 1))(after)
        best = replies.max(axis=-1)
        value = jnp.where(wins, value, jnp.where(jnp.isfinite(best), -best, 0.0))
    return jnp.where(height >= 0, value, -jnp.inf)


def looking_ahead(depth, key, obs, allowed):
    """A random move among the best that minimax finds in connect four."""
    mine, theirs = obs[..., 0].astype(bool), obs[..., 1].astype(bool)
    return one_of_the_best(key, values_of_columns(mine, theirs, depth))
