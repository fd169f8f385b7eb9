"""A game of two whose perfect play is known, and opponents that look ahead in others."""

import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxagents.envs import Environment, Step
from jaxagents.envs.spaces import Discrete

N_MATCHES, MOST_TAKEN = 21, 3


def at_random(key, obs, allowed):
    """Moves at random."""
    return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))


def one_of_the_best(key, values):
    """One of the moves of the greatest value, each as likely."""
    return jax.random.categorical(key, jnp.where(values >= values.max(), 0.0, -jnp.inf))


class Takeaway(Environment):
    """Players take one to three of 21 matches in turn; whoever takes the last one wins."""

    action_space = Discrete(MOST_TAKEN)

    def __init__(self, opponent=at_random):
        self.opponent = opponent

    def against(self, opponent):
        """The same game with another opponent."""
        twin = copy.copy(self)
        twin.opponent = opponent
        return twin

    def reset(self, key):
        """Starts a game, in which either begins."""
        who, key = jax.random.split(key)
        replied = self._reply(key, jnp.int32(N_MATCHES))
        matches = jnp.where(jax.random.bernoulli(who), N_MATCHES, replied)
        return self._observe(matches), matches

    def step(self, key, state, action):
        """Takes matches, and has the opponent take some if there are any."""
        left = jnp.maximum(state - action - 1, 0)
        after = jnp.where(left > 0, self._reply(key, left), 0)
        reward = jnp.where(left == 0, 1.0, jnp.where(after == 0, -1.0, 0.0))
        return Step(self._observe(after), after, reward, after == 0, jnp.bool(False), {})

    def action_mask(self, state):
        """Nobody takes more than there are."""
        return jnp.arange(1, MOST_TAKEN + 1) <= state

    def _reply(self, key, matches):
        taken = self.opponent(key, self._observe(matches), self.action_mask(matches))
        return jnp.maximum(matches - taken - 1, 0)

    def _observe(self, matches):
        return jax.nn.one_hot(matches, N_MATCHES + 1)


def perfect_at_takeaway(key, obs, allowed):
    """Leaves a multiple of four, or else takes at random."""
    taken = jnp.arange(1, MOST_TAKEN + 1)
    good = (obs.argmax() - taken) % (MOST_TAKEN + 1) == 0
    return one_of_the_best(key, jnp.where(allowed, good, -jnp.inf))


LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
POWERS = 3 ** np.arange(9)


@functools.cache
def values_of_moves(board):
    """The value of each move in a position of tic-tac-toe under perfect play.

    Args:
        board: 1 where whoever moves has a stone, 2 where the other has one.

    Returns:
        1, 0 or -1 for a move that wins, draws or loses; -inf for one that is not allowed.
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
    """The values of all moves in all positions, by the position as a number of base three."""
    values_of_moves((0,) * 9)
    table = np.zeros((3**9, 9), np.float32)
    for number in range(len(table)):
        board = tuple(int(x) for x in number // POWERS % 3)
        table[number] = values_of_moves(board)
    return table


def perfect_at_tic_tac_toe(key, obs, allowed):
    """One of the best moves, each as likely."""
    board = obs.reshape(9, 2).astype(jnp.int32) @ jnp.array([1, 2])
    return one_of_the_best(key, jnp.asarray(table_of_tic_tac_toe())[board @ jnp.asarray(POWERS)])


def has_four(stones):
    """Whether there are four in a row among stones of one colour, on boards of any leading axes."""
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
    """The value of each column of connect four, by looking ahead.

    Args:
        mine: Where whoever moves has stones, shaped `(6, 7)`, the first row on top.
        theirs: Where the other has some.
        depth: Number of moves to look ahead.

    Returns:
        Greater if a win is nearer, less if a loss is, 0 if neither is in sight; -inf if it is full.
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
    """Plays connect four by minimax, and one of the best moves that it finds."""
    mine, theirs = obs[..., 0].astype(bool), obs[..., 1].astype(bool)
    return one_of_the_best(key, values_of_columns(mine, theirs, depth))
