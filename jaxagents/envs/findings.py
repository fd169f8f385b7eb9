"""Findings from random play in an environment: mistakes, and oddities that may be intended."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from jaxagents.core.arrays import is_key
from jaxagents.core.compilation import quick_jit
from jaxagents.envs.environment import Environment
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.random_play import Player, RandomPlay

_N_STEPS = 64
"""Number of steps that are played again and again."""
_FEW = 4
"""With this many episodes or more, equal lengths are no coincidence."""


class Repetitions:
    """The same actions, played again with equal random keys and with different ones.

    Attributes:
        differ_for_equal_keys: Whether outcomes differ where nothing else does.
        ignore_keys: Whether outcomes are the same whatever the keys are.
    """

    def __init__(self, episodes: Episodes, player: Player, key: Key[Array, ""], n: int) -> None:
        """Plays.

        Args:
            episodes: The environment.
            player: Draws actions.
            key: Random key.
            n: Number of different keys.
        """
        actions = jax.vmap(lambda key: player(key, None))(jax.random.split(key, _N_STEPS))
        keys = jax.random.split(key, n)
        (text, run), (other_text, run_other) = (_program(episodes, actions, keys) for _ in range(2))
        first = run()
        again = run() if text == other_text else run_other()
        self._wording = episodes.env.wording
        self.differ_for_equal_keys = not all(map(_are_equal, first, again))
        self.ignore_keys = all(_are_equal(x, np.broadcast_to(x[:1], x.shape)) for x in first)

    def mistakes(self) -> list[str]:
        """Complaints about outcomes that something else than key, state and action decides."""
        name, reset, step = self._wording
        if not self.differ_for_equal_keys:
            return []
        return [
            f"{name}.{reset} or {name}.{step} gives different outcomes for the same key, state and "
            "action. Draw random numbers with jax.random and the key that is given, not with "
            "numpy.random or random, and keep whatever changes in the state."
        ]

    def doubts(self) -> list[str]:
        """A warning about outcomes on which keys have no influence."""
        name, reset, step = self._wording
        if self.differ_for_equal_keys or not self.ignore_keys:
            return []
        return [
            f"{name} does the same whatever the random keys of {reset} and {step} are. If it is meant "
            "to be random, draw random numbers with jax.random and the key that is given: those of "
            "numpy.random, or of a key of its own, are constants in a compiled program."
        ]


def _program(
    episodes: Episodes, actions: PyTree, keys: Key[Array, "keys"]
) -> tuple[str, Callable[[], list[np.ndarray]]]:
    """A program that takes a few steps, traced anew: its text, and what runs it.

    It gives all arrays of these steps but for random keys, those of the different keys first.
    """

    def play(key: Key[Array, ""]) -> PyTree:
        reset_key, key = jax.random.split(key)
        first = episodes.reset(reset_key)

        def step(state: PyTree, x: tuple) -> tuple[PyTree, PyTree]:
            taken = episodes.step(x[0], state, x[1])
            return taken.envstate, taken._replace(info={})

        steps = jax.random.split(key, _N_STEPS), actions
        return first, jax.lax.scan(step, first[1], steps)[1]

    program = quick_jit(jax.vmap(play))

    def run() -> list[np.ndarray]:
        leaves = jax.tree.leaves(program(keys))
        return [np.asarray(leaf) for leaf in leaves if not is_key(leaf)]

    return program.lower(keys).as_text(), run


def _are_equal(first: np.ndarray, second: np.ndarray) -> bool:
    return np.array_equal(first, second, equal_nan=jnp.issubdtype(first.dtype, jnp.inexact))


def mistakes_of_play(play: RandomPlay, env: Environment) -> list[str]:
    """Complaints about NaN, infinity and masks that allow nothing, each with the first such step."""
    name, reset, step = env.wording
    mistakes = []
    if not play.finite_obs[play.length == 1].all():
        mistakes.append(f"{name}.{reset} returns an observation with NaN or infinity.")
    if not play.some_allowed.all():
        first = play.length[~play.some_allowed].min() - 1
        mistakes.append(
            f"{name} allows no action after {first} steps of an episode that is not over: its action "
            "mask must allow one at least, such as an action that does nothing, or the step before must "
            "end the episode."
        )
    kinds = {"a reward": play.finite_reward, "an observation": play.finite_next_obs}
    for what, finite in kinds.items():
        if not finite.all():
            first = play.length[~finite].min()
            mistakes.append(
                f"{name}.{step} returns {what} with NaN or infinity under random actions, at the "
                f"earliest in step {first} of an episode."
            )
    return mistakes


def doubts_of_play(play: RandomPlay, env: Environment) -> list[str]:
    """Warnings about observations outside of their space, and about a time limit among the ends."""
    name, _, step = env.wording
    doubts = []
    if not play.obs_in_space.all():
        doubts.append(f"{name} gives observations outside of the bounds of its observation_space.")
    lengths = play.length[play.terminated]
    alone = not play.truncated.any() and len(lengths) >= _FEW
    if alone and lengths[0] > 1 and (lengths == lengths[0]).all():
        doubts.append(
            f"All {len(lengths)} episodes of {name} terminated after exactly {lengths[0]} steps. If "
            f"that is a time limit, {step} should not call it terminated, since agents take what "
            "follows a terminated step to be worth nothing: report it as truncated, or take it out and "
            "give it as the environment's max_steps or as config.max_episode_steps."
        )
    return doubts
