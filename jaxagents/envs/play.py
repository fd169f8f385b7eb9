"""Playing whole episodes with a fixed policy."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxagents.envs.episodes import Episodes
from jaxagents.sharding import on_each_device

Act = Callable[..., tuple[Any, Any]]
"""Maps a memory and one observation to the memory afterwards and an action, which is drawn with a random
key if that is given too."""

_OF_ACTIONS = 2**30
"""Tells the keys of actions from those of episodes, of which there are fewer."""


class EpisodeOutcomes(NamedTuple):
    """Outcomes of episodes, `n_episodes` along the first axis.

    Attributes:
        returns: Undiscounted sums of rewards, shaped `(n_episodes, *actors_shape)`.
        final_rewards: Rewards of the last steps, shaped as `returns`.
        terminated: Whether the environment ended the episode.
        truncated: Whether a time limit cut it.
        lengths: Numbers of steps.
    """

    returns: Float[Array, "n_episodes ..."]
    final_rewards: Float[Array, "n_episodes ..."]
    terminated: Bool[Array, "n_episodes"]
    truncated: Bool[Array, "n_episodes"]
    lengths: Int[Array, "n_episodes"]


def play_episodes(
    episodes: Episodes,
    policy: Act,
    carry: PyTree,
    rng: Key[Array, ""],
    n_episodes: int,
    *,
    deterministic: bool = True,
) -> EpisodeOutcomes:
    """Plays episodes side by side, on each device until its last one is over.

    Args:
        episodes: The environment.
        policy: Maps a memory and one observation to the memory afterwards and an action.
        carry: The memory at the start of an episode; `()` for none.
        rng: Random key.
        n_episodes: Number of episodes.
        deterministic: Whether the policy is given no random key.

    Returns:
        The outcomes.
    """
    keys = [*jnp.moveaxis(jax.random.split(rng, (n_episodes, 2)), 1, 0)]
    if not deterministic:
        keys.append(jax.random.split(jax.random.fold_in(rng, _OF_ACTIONS), n_episodes))
    return on_each_device(
        functools.partial(_play_until_all_are_over, episodes, policy, carry), *keys
    )


def _play_until_all_are_over(
    episodes: Episodes,
    policy: Act,
    carry: PyTree,
    reset_keys: Key[Array, "n_episodes"],
    step_keys: Key[Array, "n_episodes"],
    *action_keys: Key[Array, "n_episodes"],
) -> EpisodeOutcomes:
    n_episodes = len(reset_keys)
    obs, envstate = jax.vmap(episodes.reset)(reset_keys)
    rewards = jnp.zeros((n_episodes, *episodes.actors_shape), jnp.float32)
    never = jnp.zeros(n_episodes, bool)
    outcomes = EpisodeOutcomes(rewards, rewards, never, never, jnp.zeros(n_episodes, jnp.int32))

    def over(outcomes: EpisodeOutcomes) -> Bool[Array, "n_episodes"]:
        return outcomes.terminated | outcomes.truncated

    def step(state: tuple) -> tuple:
        time, carry, obs, envstate, outcomes = state
        at_time = jax.vmap(jax.random.fold_in, (0, None))
        keys, *draws = (at_time(of_all, time) for of_all in (step_keys, *action_keys))
        carry, actions = jax.vmap(policy)(carry, obs, *draws)
        timestep = jax.vmap(episodes.play)(keys, envstate, actions)
        after = EpisodeOutcomes(
            returns=outcomes.returns + timestep.reward,
            final_rewards=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            lengths=outcomes.lengths + 1,
        )
        was_over = over(outcomes)
        outcomes = jax.tree.map(
            lambda old, new: jnp.where(was_over.reshape(-1, *[1] * (new.ndim - 1)), old, new),
            outcomes,
            after,
        )
        return time + 1, carry, timestep.obs, timestep.envstate, outcomes

    carries = jax.tree.map(lambda x: jnp.broadcast_to(x, (n_episodes, *x.shape)), carry)
    state = (jnp.zeros((), jnp.int32), carries, obs, envstate, outcomes)
    *_, outcomes = jax.lax.while_loop(lambda state: ~jnp.all(over(state[-1])), step, state)
    return outcomes
