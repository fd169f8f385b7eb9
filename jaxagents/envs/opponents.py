"""Games against one of several opponents, such as past versions of a policy."""

import copy
import functools
from collections.abc import Callable
from typing import Any, cast

import jax
from jaxtyping import Array, Bool, Int, Key, PyTree

from jaxagents.core.numbers import positive
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.wrappers import Wrapper, WrapperState

Play = Callable[[Int[Array, ""], Key[Array, ""], PyTree, Bool[Array, " n_actions"]], Int[Array, ""]]
"""Maps an opponent's number, a random key, its observation and the allowed actions to an action."""


class Opponents(Wrapper):
    """A game against one of several opponents, drawn for each episode.

    ```python
    def play(number, key, obs, allowed):
        preference = jnp.where(allowed, strengths[number] * favourites, -jnp.inf)
        return jax.random.categorical(key, preference)


    env = Opponents(jaxagents.make("pgx:connect_four"), 8, play)
    ```

    The game is a pgx game, or an environment with a method `against(opponent)`, which returns the same
    game with a different opponent: a function of a random key, the opponent's observation and the
    allowed actions.

    Attributes:
        n_opponents: Number of opponents.
        play: Chooses the action of an opponent; `None` if all play as in the given game.
    """

    def __init__(self, env: Any, n_opponents: int, play: Play | None = None) -> None:
        """Wraps a game.

        Args:
            env: The game.
            n_opponents: Number of opponents.
            play: Maps an opponent's number, a random key, its observation and the allowed actions to its
                action. With `None`, all opponents play as in the given game.

        Raises:
            TypeError: The game has no method `against`.
        """
        super().__init__(env)
        if not hasattr(self.env, "against"):
            raise TypeError(
                "Opponents needs a game whose opponent can be replaced, but "
                f"{self.wording.environment} is not a jaxagents.Environment with a method "
                "against(opponent), which returns the game with that opponent. pgx games have "
                "one."
            )
        self.n_opponents = positive("n_opponents", n_opponents)
        self.play = play
        self.observation_space = self.env.observation_space

    @property
    def name(self) -> str:
        """The name of the game and the number of opponents."""
        return f"{self.env.name}, {self.n_opponents} opponents"

    def against(self, play: Play) -> "Opponents":
        """Returns the same game with the same number of different opponents.

        Args:
            play: Chooses the action of an opponent, as in the constructor. Inside a compiled program it
                may read traced arrays, such as policy parameters.
        """
        twin = copy.copy(self)
        twin.play = play
        return twin

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, WrapperState]:
        """Draws an opponent and starts an episode; see `Environment`."""
        draw_key, key = jax.random.split(key)
        number = jax.random.randint(draw_key, (), 0, self.n_opponents)
        obs, envstate = self._game(number).reset(key)
        return obs, WrapperState(envstate, number)

    def step(self, key: Key[Array, ""], state: WrapperState, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        step = self._game(state.past).step(key, state.envstate, action)
        return step._replace(state=WrapperState(step.state, state.past))

    def _game(self, number: Int[Array, ""]) -> Environment:
        """The game against the opponent with this number."""
        if self.play is None:
            return self.env
        return cast(Any, self.env).against(functools.partial(self.play, number))
