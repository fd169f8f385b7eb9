"""Random play: environments played by actions that nobody has learned."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxagents import ops
from jaxagents.core.observed import action_mask, network_input
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.spaces import (
    Space,
    box_bounds,
    is_array,
    is_box,
    is_discrete,
    is_multi_discrete,
    map_spaces,
    parts,
)

Sampler = Callable[[Key[Array, ""]], PyTree]
"""Draws an action of one environment, given a random key."""
Player = Callable[[Key[Array, ""], PyTree], PyTree]
"""Draws an action of one environment, given a random key and an observation."""


class RandomPlay(NamedTuple):
    """Steps of random play in several environments, steps first, then environments.

    Attributes:
        length: Number of steps of the episode so far, this one included.
        returns: Sum of its rewards so far.
        terminated: Whether the environment ended the episode.
        truncated: Whether it cut the episode.
        finite_reward: Whether the reward is a finite number.
        finite_obs: Whether the observation acted on is finite.
        finite_next_obs: Whether the true successor is finite.
        obs_in_space: Whether both observations are within the bounds of their space.
        some_allowed: Whether the observation acted on allows any action (each actor one).
    """

    length: Int[Array, "steps environments"]
    returns: Float[Array, "steps environments *actors"]
    terminated: Bool[Array, "steps environments"]
    truncated: Bool[Array, "steps environments"]
    finite_reward: Bool[Array, "steps environments"]
    finite_obs: Bool[Array, "steps environments"]
    finite_next_obs: Bool[Array, "steps environments"]
    obs_in_space: Bool[Array, "steps environments"]
    some_allowed: Bool[Array, "steps environments"]


def play_at_random(
    episodes: Episodes, player: Player, key: Key[Array, ""], n_envs: int, n_steps: int
) -> RandomPlay:
    """Plays random actions in several environments.

    Args:
        episodes: The environment.
        player: Draws actions.
        key: Random key.
        n_envs: Number of environments.
        n_steps: Number of steps in each.

    Returns:
        The steps.
    """
    space = episodes.observation_space

    def step(carry: tuple, key: Key[Array, ""]) -> tuple[tuple, RandomPlay]:
        obs, state, returns = carry
        action_key, step_key = jax.random.split(key)
        taken = episodes.step(step_key, state, player(action_key, obs))
        returns = returns + taken.reward
        play = RandomPlay(
            length=state.step + 1,
            returns=returns,
            terminated=taken.terminated,
            truncated=taken.truncated,
            finite_reward=_is_finite(taken.reward),
            finite_obs=_is_finite(obs),
            finite_next_obs=_is_finite(taken.next_obs),
            obs_in_space=_is_in(space, obs) & _is_in(space, taken.next_obs),
            some_allowed=_some_allowed(obs),
        )
        over = taken.terminated | taken.truncated
        return (taken.obs, taken.envstate, jnp.where(over, 0.0, returns)), play

    def in_one(key: Key[Array, ""]) -> RandomPlay:
        reset_key, key = jax.random.split(key)
        returns = jnp.zeros(episodes.actors_shape, jnp.float32)
        first = (*episodes.reset(reset_key), returns)
        return jax.lax.scan(step, first, jax.random.split(key, n_steps))[1]

    return jax.vmap(in_one, out_axes=1)(jax.random.split(key, n_envs))


def player_of(space: Space, actors_shape: tuple[int, ...]) -> Player:
    """The function that draws actions from a space uniformly, of those that an observation allows.

    Args:
        space: The space of the actions of one actor.
        actors_shape: `()` for one actor, `(n_actors,)` for several.

    Returns:
        The function.
    """

    def draw(key: Key[Array, ""], obs: PyTree) -> PyTree:
        mask = action_mask(obs)
        if not actors_shape:
            return _draw(space, key, mask)
        keys = jax.random.split(key, actors_shape)
        return jax.vmap(lambda key, mask: _draw(space, key, mask))(keys, mask)

    return draw


def _some_allowed(obs: PyTree) -> Bool[Array, ""]:
    masks = jax.tree.leaves(action_mask(obs))
    some = [jnp.asarray(mask, bool).any(axis=-1).all() for mask in masks]
    return jnp.all(jnp.stack([*some, jnp.ones((), bool)]))


def _draw(space: Space, key: Key[Array, ""], mask: PyTree) -> PyTree:
    treedef = jax.tree.structure(map_spaces(lambda space: 0, space))
    keys = treedef.unflatten(jax.random.split(key, treedef.num_leaves))
    return map_spaces(_draw_part, space, keys, mask)


def _draw_part(space: Space, key: Key[Array, ""], mask: PyTree) -> Array:
    if is_multi_discrete(space):
        keys = jax.random.split(key, len(space.nvec))
        masks = [None] * len(space.nvec) if mask is None else mask
        parts_of_action = zip(keys, space.nvec, masks, strict=True)
        drawn = [ops.random_actions(key, int(n), mask) for key, n, mask in parts_of_action]
        return jnp.stack(drawn)
    if is_discrete(space):
        return ops.random_actions(key, int(space.n), mask)
    if not is_box(space):
        raise ValueError(f"Actions cannot be drawn from the space {space!r}: give sample_action.")
    low, high = box_bounds(space)
    is_bounded = np.isfinite(high - low) & (high - low < np.finfo(np.float32).max)
    uniform = jax.random.uniform(key, low.shape, jnp.float32)
    within = low + uniform * np.where(is_bounded, high - low, 0.0).astype(np.float32)
    normal = jnp.clip(jax.random.normal(key, low.shape, jnp.float32), low, high)
    return jnp.where(is_bounded, within, normal)


def _is_finite(tree: PyTree) -> Bool[Array, ""]:
    inexact = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.isfinite(x).all() for x in inexact] or [jnp.ones((), bool)]))


def _is_in(space: Space, obs: PyTree) -> Bool[Array, ""]:
    """Whether an observation is within the bounds of its space, as far as it declares any."""
    obs = network_input(obs)
    children = parts(space)
    if children is not None:
        items = obs if isinstance(obs, dict) else dict(enumerate(jax.tree.leaves(obs)))
        inside = [_is_in(child, items[name]) for name, child in children.items() if name in items]
        return jnp.all(jnp.stack([*inside, jnp.ones((), bool)]))
    if is_discrete(space):
        return jnp.all((obs >= 0) & (obs < space.n))
    if not (is_box(space) and is_array(obs)):
        return jnp.ones((), bool)
    low, high = box_bounds(space)
    return jnp.all((obs >= low) & (obs <= high))
