"""Acting in environments: distributions of actions by the hooks of an agent, and rollouts of them."""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, ArrayLike, Bool, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.actor_and_critic import whole_critic
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.runners import Runner
from jaxagents.agents.transitions import NOT_YET, Transition, starts
from jaxagents.core.arrays import select
from jaxagents.core.report import Report
from jaxagents.engine.host_play import begun_again
from jaxagents.engine.host_rollout import HostCollection, HostRollout
from jaxagents.envs.checks import check_alike
from jaxagents.learners.memory import initial_carry, step, unroll
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import remembers

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

_MOST_NOISE = 64
"""The most random numbers that are drawn ahead for each step of an environment, to save memory."""

Distribution = Any
"""An [`ops.Distribution`][jaxagents.ops.Distribution], or an object with the same methods."""

DRAWING_HOOKS = ("_sample_actions", "_log_prob", "_entropy")


class HooksDistribution(ops.Distribution):
    """The distribution of actions that the hooks of an agent describe, one for each of its methods.

    Attributes:
        network: State of the actor's training.
        obs: One observation.
        agent: The agent (static).
    """

    network: TrainState
    obs: PyTree
    agent: "OnPolicyBase" = struct.field(pytree_node=False)

    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""
        action = self.agent._sample_actions(key, self.network, self.obs)
        return jax.tree.map(jnp.asarray, action)

    def log_prob(self, action: PyTree) -> Array:
        """Log-probability of an action, in nats."""
        params = self.network.params
        return jnp.asarray(self.agent._log_prob(self.network, params, self.obs, action))

    def entropy(self) -> Array:
        """Entropy, in nats."""
        return jnp.asarray(self.agent._entropy(self.network, self.obs))

    def mode(self) -> PyTree:
        """The greedy action."""
        return jax.tree.map(jnp.asarray, self.agent.policy(self.network, self.obs))


def distribution_at(
    agent: "OnPolicyBase", actor: TrainState, carry: PyTree, obs: PyTree
) -> tuple[PyTree, Distribution]:
    """The distribution of actions at one observation, from the hooks that an agent gives.

    Args:
        agent: The agent.
        actor: State of the actor's training.
        carry: The memory; `()` if the actor remembers nothing.
        obs: The observation.

    Returns:
        The memory afterwards, and the distribution.
    """
    if remembers(actor.model_def):
        carry, output = step(actor, carry, obs)
        return carry, agent._distribution_of(output)
    if any(map(agent._gives, DRAWING_HOOKS)):
        return carry, HooksDistribution(actor, obs, agent)
    return carry, agent._distribution(actor, actor.params, obs)


def log_probs_of_rollout(
    agent: "OnPolicyBase", actor: TrainState, traj: Transition
) -> Float[Array, "time environments *actors"]:
    """Log-probabilities of the actions of a rollout under an actor, in nats."""

    def of_environment(carry: PyTree, traj: Transition, first: Array) -> Array:
        if remembers(actor.model_def):
            _, outputs = unroll(actor, carry, traj.obs, first)
            distributions = jax.vmap(agent._distribution_of)(outputs)
        else:
            of_one = jax.vmap(lambda obs: distribution_at(agent, actor, (), obs)[1])
            distributions = of_one(traj.obs)
        log_probs = jax.vmap(lambda it, action: it.log_prob(action))(distributions, traj.action)
        return log_probs.reshape(traj.log_prob.shape)

    start = jax.tree.map(lambda x: x[0], traj.carry)
    first = starts(traj.terminated | traj.truncated)
    return jax.vmap(of_environment, (0, 1, 1), 1)(start, traj, first)


class RolloutKeys(NamedTuple):
    """Random keys of an update.

    Attributes:
        next_runner: The key of the runner after it.
        rollout: Key of the rollout.
        epochs: Keys of the epochs that learn from it.
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
    draw, act = drawing(agent, actor)

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


def drawing(agent: "OnPolicyBase", actor: TrainState) -> tuple[Callable, Callable]:
    """The halves of acting at random: random numbers for many steps at once, and actions of them.

    Args:
        agent: The agent.
        actor: State of the actor's training.

    Returns:
        A function that maps a random key and a shape to so many draws, and one that maps a draw, a
        memory and one observation to the memory afterwards, an action and its log-probability. A draw is
        the noise of the distribution if that is few numbers, and otherwise a key.
    """
    distribution_of = functools.partial(distribution_at, agent, actor)
    one = initial_carry(actor.model_def), agent._observation
    _, shapes = jax.eval_shape(distribution_of, *one)
    by_noise = isinstance(shapes, ops.Reparametrised) and shapes.draws_noise
    if by_noise:
        noise = jax.eval_shape(shapes.noise, jax.random.key(0))
        by_noise = sum(x.size for x in jax.tree.leaves(noise)) <= _MOST_NOISE

    def act(draw: PyTree, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree, Array]:
        carry, distribution = distribution_of(carry, obs)
        action = distribution.sample_from(draw) if by_noise else distribution.sample(draw)
        return carry, action, distribution.log_prob(action).reshape(agent._actors_shape)

    return (shapes.noise if by_noise else jax.random.split), act


def collection_on_host(agent: "OnPolicyBase") -> HostCollection:
    """How an agent plays and learns where environments are stepped on the host.

    Args:
        agent: The agent.

    Returns:
        The parts of its update.
    """
    config = agent.config

    def draw(runner: Runner, block: ArrayLike) -> PyTree:
        draw_noise, _ = drawing(agent, runner.actor_training)
        key = jax.random.fold_in(keys_of_update(config, runner.rng).rollout, block)
        return draw_noise(key, (config.rollout_length, config.batch_size))

    def act(
        actor: TrainState, carry: PyTree, obs: PyTree, noise: PyTree
    ) -> tuple[PyTree, PyTree, Array]:
        return jax.vmap(drawing(agent, actor)[1])(noise, carry, obs)

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
