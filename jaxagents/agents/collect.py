"""Rollouts: their data, and collecting them with an agent's hooks."""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, ArrayLike, Bool, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.runners import Runner, whole_critic
from jaxagents.core.arrays import select
from jaxagents.core.hyperparameters import Traced
from jaxagents.core.observed import actor_mask
from jaxagents.core.report import Report
from jaxagents.engine.host_play import reset_memories
from jaxagents.engine.host_rollout import HostCollection, HostRollout
from jaxagents.envs.checks import check_alike
from jaxagents.learners.memory import initial_carry, step, unroll
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import remembers

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

# Rollouts.

NOT_YET = cast(Array, None)
"""A placeholder for fields that are computed after the rollout."""


class Transition(NamedTuple):
    """One step of every environment, or a rollout of such steps with a leading time axis.

    Attributes:
        obs: Observation acted on.
        action: Action taken.
        value: Value of `obs`.
        log_prob: Log-probability of `action`.
        reward: Reward received.
        next_obs: True successor of `obs`, before any reset.
        terminated: Whether `next_obs` is terminal.
        truncated: Whether the episode was truncated after this step.
        next_value: Value of `next_obs`.
        advantage: Advantage of `action`.
        target: Return that the critic learns to predict.
        carry: Memory of the policy before the step; `()` if it has none.
        critic_carry: Memory of the critic before the step, filled in along with the values; `()` if it
            has none.
        info: The entries of the environment's info named in the configuration's `final_info` and
            `summed_info`.
        extra: Additional arrays of a subclass, by name, such as its own rewards.
    """

    obs: PyTree
    action: PyTree
    value: Array
    log_prob: Array
    reward: Array
    next_obs: PyTree
    terminated: Array
    truncated: Array
    next_value: Array = NOT_YET
    advantage: Array = NOT_YET
    target: Array = NOT_YET
    carry: PyTree = ()
    critic_carry: PyTree = ()
    info: PyTree = ()
    extra: PyTree = ()


class AdvantageInput(NamedTuple):
    """The inputs of `_trajectory_advantages` at each time step (arrays over environments).

    Attributes:
        reward: Reward received.
        value: Value of the observation acted on.
        next_value: Value of the true successor, before any reset.
        terminated: Whether the successor is terminal.
        gamma: Discount.
        gae_lambda: Trace decay.
    """

    reward: Array
    value: Array
    next_value: Array
    terminated: Array
    gamma: Traced
    gae_lambda: Traced


class ReturnInput(NamedTuple):
    """The inputs of `_trajectory_returns` at each time step (arrays over environments).

    Attributes:
        reward: Reward received.
        discount: Discount, zero where the successor is terminal.
        next_value: Value of the true successor, before any reset.
        gae_lambda: Trace decay.
    """

    reward: Array
    discount: Array
    next_value: Array
    gae_lambda: Traced


class Sequence(NamedTuple):
    """A sequence of observations, for a network with a memory.

    Attributes:
        obs: Observations, time first.
        carry: The memory before the first step, with a time axis of length 1.
        first: Whether a new episode starts at each step.
    """

    obs: PyTree
    carry: PyTree
    first: Bool[Array, "..."]


def to_learn_from(traj: Transition, carry: PyTree) -> PyTree:
    """The observations of a rollout, as inputs of a network's loss.

    Args:
        traj: The rollout, shaped `(time, environments, ...)`.
        carry: The network's memories before the steps, time first; `()` if it has none.

    Returns:
        A pytree shaped `(time, environments, ...)`: a `Sequence` if the network has a memory.
    """
    if not jax.tree.leaves(carry):
        return traj.obs
    start = jax.tree.map(lambda x: x[:1], carry)
    return Sequence(traj.obs, start, starts(traj.terminated | traj.truncated))


def starts(over: Bool[Array, "time environments"]) -> Bool[Array, "time environments"]:
    """Whether an episode starts at each step of a rollout, given whether one ends after each step.

    The memory is reset before these steps. The first step continues from the runner's memory.
    """
    return jnp.concatenate([jnp.zeros_like(over[:1]), over[:-1]])


def outputs_of(network: TrainState, inputs: PyTree) -> PyTree:
    """The outputs of a network for a minibatch.

    Args:
        network: Its train state.
        inputs: Sequences, with a leading axis, for a network with a memory; samples otherwise.

    Returns:
        The outputs, samples first.
    """

    def of_one(sequence: Sequence) -> PyTree:
        start = jax.tree.map(lambda x: x[0], sequence.carry)
        return unroll(network, start, sequence.obs, sequence.first)[1]

    if isinstance(inputs, Sequence):
        return samples(jax.vmap(of_one)(inputs))
    return jax.vmap(network)(inputs)


def by_environment(rollout: PyTree) -> PyTree:
    """Reshapes a rollout so that minibatches draw whole environments.

    Args:
        rollout: Pytree shaped `(time, environments, ...)`.

    Returns:
        The pytree, shaped `(1, environments, time, ...)`.
    """
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1)[None], rollout)


def samples(minibatch: PyTree) -> PyTree:
    """Concatenates the steps of all sequences, but leaves a `Sequence` unchanged.

    Args:
        minibatch: Pytree shaped `(sequences, time, ...)`.

    Returns:
        The pytree, shaped `(samples, ...)`.
    """

    def flat(x: PyTree) -> PyTree:
        return x if is_sequence(x) else x.reshape(-1, *x.shape[2:])

    return jax.tree.map(flat, minibatch, is_leaf=is_sequence)


def is_sequence(x: object) -> bool:
    """Whether an input of a loss is a `Sequence`."""
    return isinstance(x, Sequence)


Weights = Float[Array, "..."] | None
"""1 for each actor that is still playing, 0 for one that has left; `None` if no actor leaves early."""


def playing(obs: PyTree) -> Weights:
    """Weights of actors: 1 while they are playing.

    Args:
        obs: Observations with any leading axes, or the sequences of a minibatch.

    Returns:
        The weights, with the same leading axes, or samples first for sequences.
    """
    if isinstance(obs, Sequence):
        return samples(playing(obs.obs))
    mask = actor_mask(obs)
    return None if mask is None else jnp.asarray(mask, jnp.float32)


# Acting.

_MOST_NOISE = 64
"""Maximum random numbers drawn ahead per environment step, to save memory."""

Distribution = Any
"""An [`ops.Distribution`][jaxagents.ops.Distribution], or an object with the same methods."""

DRAWING_HOOKS = ("_sample_actions", "_log_prob", "_entropy")


class HooksDistribution(ops.Distribution):
    """The distribution of actions defined by an agent's hooks, one per method.

    Attributes:
        network: Train state of the actor.
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
    """The distribution of actions for one observation, from the hooks that an agent overrides.

    Args:
        agent: The agent.
        actor: Train state of the actor.
        carry: The memory; `()` if the actor has none.
        obs: The observation.

    Returns:
        The new memory, and the distribution.
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
    """Log-probabilities, in nats, of a rollout's actions under an actor."""

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


def keys_of_update(
    config: OnPolicyConfig, rng: Key[Array, ""]
) -> tuple[Key[Array, ""], Key[Array, ""], Key[Array, "epochs n_groups"]]:
    """Random keys of the next runner, of a rollout, and of the epochs that learn from it."""
    shape = max(config.actor_epochs, config.critic_epochs), config.n_groups
    rngs = jax.random.split(rng, 2 + math.prod(shape))
    return rngs[0], rngs[1], rngs[2:].reshape(shape)


def collect(
    agent: "OnPolicyBase", runner: Runner
) -> tuple[Runner, Transition, Key[Array, "epochs n_groups"]]:
    """Takes `rollout_length` steps in every compiled environment; see `OnPolicyBase._collect`.

    Raises:
        TypeError: `_rollout_environment` does not return an environment.
        ValueError: Its states or observations differ in structure from the agent's own environment.
    """
    next_rng, rng, rngs_of_epochs = keys_of_update(agent.config, runner.rng)
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
    runner = runner.replace(rng=next_rng, obs=obs, envstate=envstate, carry=carry)
    return runner, traj, rngs_of_epochs


def drawing(agent: "OnPolicyBase", actor: TrainState) -> tuple[Callable, Callable]:
    """Splits sampling of actions into drawing noise for many steps, and acting on it.

    Args:
        agent: The agent.
        actor: Train state of the actor.

    Returns:
        A function that maps a random key and a shape to an array of draws, and one that maps a draw, a
        memory and one observation to the new memory, an action and its log-probability. A draw is
        the noise of the distribution if that is small, and otherwise a key.
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
        return carry, action, distribution.log_prob(action).reshape(agent.episodes.actors_shape)

    return (shapes.noise if by_noise else jax.random.split), act


def collection_on_host(agent: "OnPolicyBase") -> HostCollection:
    """Defines how an agent acts and learns if environments are stepped on the host.

    Args:
        agent: The agent.

    Returns:
        The parts of its update.
    """
    config = agent.config

    def draw(runner: Runner, block: ArrayLike) -> PyTree:
        draw_noise, _ = drawing(agent, runner.actor_training)
        key = jax.random.fold_in(keys_of_update(config, runner.rng)[1], block)
        return draw_noise(key, (config.rollout_length, config.batch_size))

    def act(
        actor: TrainState, carry: PyTree, obs: PyTree, noise: PyTree
    ) -> tuple[PyTree, PyTree, Array]:
        return jax.vmap(drawing(agent, actor)[1])(noise, carry, obs)

    def begin(runner: Runner, where: Bool[np.ndarray, "environments"]) -> Runner:
        critic = whole_critic(agent.config, runner.actor_training, runner.critic_training)
        past = runner.critic_carry, runner.received
        nothing = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), runner.received)
        present = reset_memories(past, (initial_carry(critic.model_def), nothing), where)
        critic_carry, received = jax.tree.map(jnp.asarray, present)
        return runner.replace(critic_carry=critic_carry, received=received)

    def learn(runner: Runner, rollout: HostRollout) -> tuple[Runner, Report]:
        next_rng, _, rngs_of_epochs = keys_of_update(config, runner.rng)
        traj = Transition(value=NOT_YET, **rollout._asdict())
        return agent._update_from(runner.replace(rng=next_rng), traj, rngs_of_epochs)

    return HostCollection(agent.initial_carry, draw, act, begin, learn)
