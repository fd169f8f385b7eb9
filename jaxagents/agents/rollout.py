"""Rollouts: acting by a policy in many environments at once."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from jaxagents import ops
from jaxagents.agents.policy import Carry, Policy
from jaxagents.agents.transitions import NOT_YET, Transition
from jaxagents.core.arrays import select
from jaxagents.envs.episodes import Episodes, EpisodeState
from jaxagents.learners.train_state import TrainState

_MOST_NOISE = 64
"""The most random numbers that are drawn ahead for each step of an environment, to save memory."""


class Players(NamedTuple):
    """The current state of many environments, and of the memories of their actors.

    Attributes:
        obs: Current observations, environments first.
        envstate: States of the environments.
        carry: Memories of the policy.
    """

    obs: PyTree
    envstate: EpisodeState
    carry: Carry


def rollout(
    policy: Policy,
    actor: TrainState,
    episodes: Episodes,
    players: Players,
    rng: Key[Array, ""],
    n_steps: int,
) -> tuple[Players, Transition]:
    """Takes steps in all environments.

    Args:
        policy: How actions are drawn.
        actor: State of the actor's training.
        episodes: The environment.
        players: The current state of the environments.
        rng: Random key.
        n_steps: Number of steps in each environment.

    Returns:
        Their state afterwards, and the rollout, shaped `(time, environments, ...)`.
    """
    initial = policy.initial(actor)
    draw, act = drawing(policy, actor, players.carry, players.obs, episodes.actors_shape)

    def act_and_step(
        players: Players, draws: tuple[PyTree, Key[Array, "environments 2"]]
    ) -> tuple[Players, Transition]:
        noise, keys = draws
        carry, action, log_prob = jax.vmap(act)(noise, players.carry, players.obs)
        step = episodes.step_all(keys, players.envstate, action)
        transition = Transition(
            obs=players.obs,
            action=action,
            value=NOT_YET,
            log_prob=log_prob,
            reward=step.reward,
            next_obs=step.next_obs,
            terminated=step.terminated,
            truncated=step.truncated,
            carry=players.carry,
            info=episodes.info_names.of_step(step.info) if any(episodes.info_names) else (),
        )
        carry = jax.vmap(select, (0, None, 0))(step.terminated | step.truncated, initial, carry)
        return Players(step.obs, step.envstate, carry), transition

    shape = (n_steps, len(players.envstate.step))
    rngs = jax.random.split(rng, 1 + 2 * math.prod(shape))
    draws = draw(rngs[0], shape), rngs[1:].reshape(*shape, 2)
    return jax.lax.scan(act_and_step, players, draws)


def blank_step(
    policy: Policy,
    act: Callable[[Carry, PyTree], tuple[Carry, PyTree]],
    actor: TrainState,
    episodes: Episodes,
    players: Players,
) -> Transition:
    """A step of one environment in a rollout with targets, whose numbers mean nothing.

    Args:
        policy: How actions are drawn.
        act: Maps a memory and an observation to the memory afterwards and the greedy action.
        actor: State of the actor's training.
        episodes: The environment.
        players: The current state of the environments.

    Returns:
        The step.
    """
    first = jax.tree.map(lambda x: x[0], players)
    _, distribution = policy.step(actor, first.carry, first.obs)
    of_each_actor = jnp.zeros(episodes.actors_shape, jnp.float32)
    never = jnp.zeros((), bool)
    return Transition(
        obs=first.obs,
        action=distribution.sample(jax.random.key(0)),
        value=of_each_actor,
        log_prob=of_each_actor,
        reward=of_each_actor,
        next_obs=first.obs,
        terminated=never,
        truncated=never,
        next_value=of_each_actor,
        advantage=of_each_actor,
        target=of_each_actor,
        carry=first.carry,
        info=_blank_info(act, episodes, first),
    )


def _blank_info(
    act: Callable[[Carry, PyTree], tuple[Carry, PyTree]], episodes: Episodes, first: Players
) -> PyTree:
    """Zeros for the entries of the environment's info that a rollout keeps."""
    names = episodes.info_names
    if not any(names):
        return ()
    if episodes.env.on_host:
        return names.on_host(episodes.actors_shape)

    def play(first: Players) -> PyTree:
        _, action = act(first.carry, first.obs)
        return names.of_step(episodes.play(jax.random.key(0), first.envstate, action).info)

    shapes = jax.eval_shape(play, first)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def drawing(
    policy: Policy, actor: TrainState, carry: Carry, obs: PyTree, actors_shape: tuple[int, ...]
) -> tuple[Callable, Callable]:
    """The halves of acting at random: random numbers for many steps at once, and actions of them.

    Args:
        policy: How actions are drawn.
        actor: State of the actor's training.
        carry: Memories of the policy, environments first.
        obs: Observations, environments first.
        actors_shape: `()` for one actor, `(n_actors,)` for several.

    Returns:
        A function that maps a random key and a shape to so many draws, and one that maps a draw, a
        memory and one observation to the memory afterwards, an action and its log-probability. A draw is
        the noise of the distribution if that is few numbers, and otherwise a key.
    """
    of_one = jax.tree.map(lambda x: x[0], (carry, obs))
    _, distribution = jax.eval_shape(policy.step, actor, *of_one)
    draw, action_of = _draw_of(distribution)

    def act(noise: PyTree, carry: Carry, obs: PyTree) -> tuple[Carry, PyTree, Array]:
        carry, distribution = policy.step(actor, carry, obs)
        action = action_of(distribution, noise)
        log_prob = distribution.log_prob(action).reshape(actors_shape)
        return carry, action, log_prob

    return draw, act


def _draw_of(distribution: PyTree) -> tuple[Callable, Callable]:
    """How random numbers of a distribution are drawn, and how they are turned into an action."""
    if isinstance(distribution, ops.Reparametrised) and distribution.draws_noise:
        noise = jax.eval_shape(distribution.noise, jax.random.key(0))
        if sum(x.size for x in jax.tree.leaves(noise)) <= _MOST_NOISE:
            return distribution.noise, lambda distribution, noise: distribution.sample_from(noise)
    return jax.random.split, lambda distribution, key: distribution.sample(key)
