"""Rollouts: what agents play between updates, all of their environments at once."""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.policy import distribution_at
from jaxagents.agents.runners import Runner
from jaxagents.agents.shared_trunk import whole_critic
from jaxagents.agents.transitions import NOT_YET, Transition
from jaxagents.core.arrays import select
from jaxagents.core.report import Report
from jaxagents.engine.host_play import begun_again
from jaxagents.engine.host_rollout import HostCollection, HostRollout
from jaxagents.envs.checks import check_alike
from jaxagents.learners.memory import initial_carry
from jaxagents.learners.train_state import TrainState

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

_MOST_NOISE = 64
"""The most random numbers that are drawn ahead for each step of an environment, to save memory."""


class RolloutKeys(NamedTuple):
    """Random keys of an update.

    Attributes:
        next_runner: The key of the runner after it.
        rollout: Key of the rollout.
        epochs: RolloutKeys of the epochs that learn from it.
    """

    next_runner: Key[Array, ""]
    rollout: Key[Array, ""]
    epochs: Key[Array, "epochs n_groups"]


def keys_of_update(config: OnPolicyConfig, rng: Key[Array, ""]) -> RolloutKeys:
    """The random keys of an update, from the one of the runner before it."""
    shape = max(config.actor_epochs, config.critic_epochs), config.n_groups
    rngs = jax.random.split(rng, 2 + math.prod(shape))
    return RolloutKeys(rngs[0], rngs[1], rngs[2:].reshape(shape))


def collect(
    agent: "OnPolicyBase", runner: Runner, rng: Key[Array, ""]
) -> tuple[Runner, Transition]:
    """Takes `rollout_length` steps in every compiled environment.

    Args:
        agent: The agent.
        runner: The runner before the rollout.
        rng: Random key.

    Returns:
        The runner with the environments and memories after it, and the rollout, shaped `(time,
        environments, ...)`.

    Raises:
        TypeError: `_rollout_environment` gives no environment.
        ValueError: Its states or observations are structured otherwise than the agent's own.
    """
    actor = runner.actor_training
    episodes = agent.episodes.within(agent._rollout_environment(runner))
    if episodes is not agent.episodes:
        check_alike(agent.episodes, episodes, f"{type(agent).__name__}._rollout_environment")
    initial = initial_carry(actor.model_def)
    draw, act = drawing(agent, actor, runner.carry, runner.obs)

    def act_and_step(
        players: tuple[PyTree, PyTree, PyTree],
        draws: tuple[PyTree, Key[Array, "environments 2"]],
    ) -> tuple[tuple[PyTree, PyTree, PyTree], Transition]:
        (obs, envstate, memory), (noise, keys) = players, draws
        carry, action, log_prob = jax.vmap(act)(noise, memory, obs)
        step = episodes.step_all(keys, envstate, action)
        transition = Transition(
            obs=obs,
            action=action,
            value=NOT_YET,
            log_prob=log_prob,
            reward=step.reward,
            next_obs=step.next_obs,
            terminated=step.terminated,
            truncated=step.truncated,
            carry=memory,
            info=episodes.info_names.of_step(step.info) if any(episodes.info_names) else (),
        )
        carry = jax.vmap(select, (0, None, 0))(step.terminated | step.truncated, initial, carry)
        return (step.obs, step.envstate, carry), transition

    shape = agent.config.rollout_length, agent.config.batch_size
    rngs = jax.random.split(rng, 1 + 2 * math.prod(shape))
    draws = draw(rngs[0], shape), rngs[1:].reshape(*shape, 2)
    players, traj = jax.lax.scan(act_and_step, (runner.obs, runner.envstate, runner.carry), draws)
    obs, envstate, carry = players
    return runner.replace(obs=obs, envstate=envstate, carry=carry), traj


def drawing(
    agent: "OnPolicyBase", actor: TrainState, carry: PyTree, obs: PyTree
) -> tuple[Callable, Callable]:
    """The halves of acting at random: random numbers for many steps at once, and actions of them.

    Args:
        agent: The agent.
        actor: State of the actor's training.
        carry: Memories of the policy, environments first.
        obs: Observations, environments first.

    Returns:
        A function that maps a random key and a shape to so many draws, and one that maps a draw, a
        memory and one observation to the memory afterwards, an action and its log-probability. A draw is
        the noise of the distribution if that is few numbers, and otherwise a key.
    """
    distribution = functools.partial(distribution_at, agent, actor)
    of_one = jax.tree.map(lambda x: x[0], (carry, obs))
    draw, action_of = _draw_of(jax.eval_shape(distribution, *of_one)[1])

    def act(noise: PyTree, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree, Array]:
        carry, of_actions = distribution(carry, obs)
        action = action_of(of_actions, noise)
        return carry, action, of_actions.log_prob(action).reshape(agent._actors_shape)

    return draw, act


def _draw_of(distribution: PyTree) -> tuple[Callable, Callable]:
    """How random numbers of a distribution are drawn, and how they are turned into an action."""
    if isinstance(distribution, ops.Reparametrised) and distribution.draws_noise:
        noise = jax.eval_shape(distribution.noise, jax.random.key(0))
        if sum(x.size for x in jax.tree.leaves(noise)) <= _MOST_NOISE:
            return distribution.noise, lambda distribution, noise: distribution.sample_from(noise)
    return jax.random.split, lambda distribution, key: distribution.sample(key)


def collection_on_host(agent: "OnPolicyBase") -> HostCollection:
    """How an agent plays and learns where environments are stepped on the host.

    Args:
        agent: The agent.

    Returns:
        The parts of its update.
    """
    config = agent.config

    def draw(runner: Runner, block: ArrayLike) -> PyTree:
        actor = runner.actor_training
        one = initial_carry(actor.model_def), agent._observation
        carry, obs = jax.tree.map(lambda x: jnp.zeros((1, *x.shape), x.dtype), one)
        draw_noise, _ = drawing(agent, actor, carry, obs)
        key = jax.random.fold_in(keys_of_update(config, runner.rng).rollout, block)
        return draw_noise(key, (config.rollout_length, config.batch_size))

    def act(
        actor: TrainState, carry: PyTree, obs: PyTree, noise: PyTree
    ) -> tuple[PyTree, PyTree, Array]:
        _, act = drawing(agent, actor, carry, obs)
        return jax.vmap(act)(noise, carry, obs)

    def begin(runner: Runner, where: Bool[np.ndarray, "environments"]) -> Runner:
        critic = whole_critic(config, runner.actor_training, runner.critic_training)
        past = runner.critic_carry, runner.received
        nothing = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), runner.received)
        present = begun_again(past, (initial_carry(critic.model_def), nothing), where)
        critic_carry, received = jax.tree.map(jnp.asarray, present)
        return runner.replace(critic_carry=critic_carry, received=received)

    def learn(runner: Runner, rollout: HostRollout) -> tuple[Runner, Report]:
        keys = keys_of_update(config, runner.rng)
        traj = Transition(value=NOT_YET, **rollout._asdict())
        return agent._update_from(runner.replace(rng=keys.next_runner), traj, keys.epochs)

    return HostCollection(agent.initial_carry, draw, act, begin, learn)
