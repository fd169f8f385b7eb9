"""Plays whole episodes with a fixed policy or random actions."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped

from jaxagents.core.observed import action_mask
from jaxagents.core.report import floating
from jaxagents.envs.episodes import Episodes, Timestep
from jaxagents.envs.spaces import sample
from jaxagents.sharding import on_each_device

Act = Callable[..., tuple[Any, Any]]
"""Maps a memory and one observation to the new memory and an action; given a random key too, it samples
the action."""

_OF_ACTIONS = 2**30
"""Separates the keys of actions from the keys of episodes, which are fewer."""


class EpisodeOutcomes(NamedTuple):
    """Outcomes of episodes, `n_episodes` along the first axis.

    Attributes:
        returns: Undiscounted returns, shaped `(n_episodes, *actors_shape)`. NaN if an observation was
            non-finite, which greedy actions would hide.
        final_rewards: Rewards of the last steps, shaped like `returns`.
        terminated: Whether the environment terminated the episode.
        truncated: Whether the episode was truncated.
        lengths: Number of steps of each episode.
        info: The kept info entries, by name.
    """

    returns: Float[Array, "n_episodes ..."]
    final_rewards: Float[Array, "n_episodes ..."]
    terminated: Bool[Array, "n_episodes"]
    truncated: Bool[Array, "n_episodes"]
    lengths: Int[Array, "n_episodes"]
    info: dict[str, Shaped[Array, "n_episodes ..."]]


NAMES_OF_METRICS = (
    *("update_step", "set", "seed", "env_steps", "seconds", "steps_per_second"),
    *EpisodeOutcomes._fields,
)
"""Names of the other metrics of an evaluation, including the ones that loggers add."""


def random_action(episodes: Episodes, key: Key[Array, ""], obs: PyTree = None) -> PyTree:
    """Draws a random action (per actor) from the actions that an observation allows.

    Args:
        episodes: The environment.
        key: Random key.
        obs: The observation; `None` allows all actions.

    Returns:
        The action.
    """
    draw, mask = functools.partial(sample, episodes.action_space), action_mask(obs)
    if not episodes.actors_shape:
        return draw(key, mask)
    return jax.vmap(draw)(jax.random.split(key, episodes.actors_shape), mask)


def play_episodes(
    episodes: Episodes,
    policy: Act,
    carry: PyTree,
    rng: Key[Array, ""],
    n_episodes: int,
    *,
    deterministic: bool = True,
) -> EpisodeOutcomes:
    """Plays episodes in parallel, on each device until all of its episodes are over.

    Args:
        episodes: The environment.
        policy: Maps a memory and one observation to the new memory and an action.
        carry: The memory at the start of an episode; `()` for none.
        rng: Random key.
        n_episodes: Number of episodes.
        deterministic: Whether the policy gets no random key.

    Returns:
        The outcomes.
    """
    play = functools.partial(_play_until_all_are_over, episodes, policy, carry)
    return on_each_device(play, *_keys(rng, n_episodes, deterministic))


def record_episode(
    episodes: Episodes,
    policy: Act,
    carry: PyTree,
    rng: Key[Array, ""],
    max_steps: int,
    *,
    deterministic: bool = True,
) -> tuple[PyTree, Int[Array, ""]]:
    """Plays the episode that `play_episodes` plays with this key, and keeps its states.

    Args:
        episodes: The environment.
        policy: Maps a memory and one observation to the new memory and an action.
        carry: The memory at the start of an episode; `()` for none.
        rng: Random key.
        max_steps: Number of steps after which to stop.
        deterministic: Whether the policy gets no random key.

    Returns:
        The environment's states, shaped `(max_steps + 1, ...)`, and the number of steps played; later
        states are padding.
    """
    reset_keys, *keys = _keys(rng, 1, deterministic)
    obs, first = jax.vmap(episodes.reset)(reset_keys)

    def play(state: tuple, time: Int[Array, ""]) -> tuple:
        carry, obs, envstate, _, n_steps = state
        carry, timestep = _take_step(episodes, policy, keys, time, carry, obs, envstate)
        over = (timestep.terminated | timestep.truncated)[0]
        return carry, timestep.obs, timestep.envstate, over, n_steps + 1

    def step(state: tuple, time: Int[Array, ""]) -> tuple[tuple, PyTree]:
        state = jax.lax.cond(state[3], lambda state, _: state, play, state, time)
        return state, state[2].envstate

    carries = jax.tree.map(lambda x: x[None], carry)
    state = carries, obs, first, jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    state, later = jax.lax.scan(step, state, jnp.arange(max_steps, dtype=jnp.int32))
    states = jax.tree.map(lambda x, xs: jnp.concatenate([x, xs[:, 0]]), first.envstate, later)
    return states, state[-1]


def _keys(
    rng: Key[Array, ""], n_episodes: int, deterministic: bool
) -> list[Key[Array, "n_episodes"]]:
    """Keys for the resets, the steps and, unless deterministic, the actions."""
    keys = [*jnp.moveaxis(jax.random.split(rng, (n_episodes, 2)), 1, 0)]
    if not deterministic:
        keys.append(jax.random.split(jax.random.fold_in(rng, _OF_ACTIONS), n_episodes))
    return keys


def _take_step(
    episodes: Episodes,
    policy: Act,
    keys: Sequence[Key[Array, "n_episodes"]],
    time: Int[Array, ""],
    carry: PyTree,
    obs: PyTree,
    envstate: PyTree,
) -> tuple[PyTree, Timestep]:
    """Takes one step in each episode."""
    at_time = jax.vmap(jax.random.fold_in, (0, None))
    step_keys, *draws = (at_time(of_all, time) for of_all in keys)
    carry, actions = jax.vmap(policy)(carry, obs, *draws)
    return carry, jax.vmap(episodes.play)(step_keys, envstate, actions)


def _play_until_all_are_over(
    episodes: Episodes,
    policy: Act,
    carry: PyTree,
    reset_keys: Key[Array, "n_episodes"],
    *keys: Key[Array, "n_episodes"],
) -> EpisodeOutcomes:
    n_episodes, names = len(reset_keys), episodes.info_names
    obs, envstate = jax.vmap(episodes.reset)(reset_keys)
    nothing = jnp.zeros((n_episodes, *episodes.actors_shape), jnp.float32)
    rewards = _nan_where_not_finite(nothing, obs)
    never = jnp.zeros(n_episodes, bool)
    carries = jax.tree.map(lambda x: jnp.broadcast_to(x, (n_episodes, *x.shape)), carry)
    time, no_steps = jnp.zeros((), jnp.int32), jnp.zeros(n_episodes, jnp.int32)
    take_step, info = functools.partial(_take_step, episodes, policy, keys), {}
    if any(names):  # shaped as in a step
        info = jax.eval_shape(take_step, time, carries, obs, envstate)[1].info
        info = names.before_an_episode(info)
    outcomes = EpisodeOutcomes(rewards, rewards, never, never, no_steps, info)

    def over(outcomes: EpisodeOutcomes) -> Bool[Array, "n_episodes"]:
        return outcomes.terminated | outcomes.truncated

    def step(state: tuple) -> tuple:
        time, carry, obs, envstate, outcomes = state
        carry, timestep = take_step(time, carry, obs, envstate)
        after = EpisodeOutcomes(
            returns=outcomes.returns + _nan_where_not_finite(timestep.reward, timestep.obs),
            final_rewards=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            lengths=outcomes.lengths + 1,
            info=names.of_episode(outcomes.info, timestep.info),
        )
        was_over = over(outcomes)
        outcomes = jax.tree.map(
            lambda old, new: jnp.where(was_over.reshape(-1, *[1] * (new.ndim - 1)), old, new),
            outcomes,
            after,
        )
        return time + 1, carry, timestep.obs, timestep.envstate, outcomes

    state = (time, carries, obs, envstate, outcomes)
    *_, outcomes = jax.lax.while_loop(lambda state: ~jnp.all(over(state[-1])), step, state)
    return outcomes


def _nan_where_not_finite(
    rewards: Float[Array, "n_episodes ..."], obs: PyTree[Shaped[Array, "n_episodes ..."]]
) -> Float[Array, "n_episodes ..."]:
    """Rewards, or NaN in episodes with non-finite observations."""
    for leaf in floating(obs):
        nothing = (0.0 * leaf).sum(axis=tuple(range(1, leaf.ndim)))  # NaN if any is non-finite
        rewards += nothing.reshape(-1, *[1] * (rewards.ndim - 1)).astype(rewards.dtype)
    return rewards
