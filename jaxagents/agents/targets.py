"""Values, advantages and returns of a rollout, which on-policy agents learn from."""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, PyTree

from jaxagents import ops, sharding
from jaxagents.agents.collect import (
    AdvantageInput,
    ReturnInput,
    Transition,
    Weights,
    playing,
    starts,
)
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.runners import Runner, whole_critic
from jaxagents.core.arrays import replace_rows, select
from jaxagents.core.describe import name_of
from jaxagents.learners.fit import fewest_parts
from jaxagents.learners.memory import initial_carry, step, unroll
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import remembers

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

BackwardStep = Callable[[Any, Any], tuple[Any, Any]]
"""Maps the next step's accumulated value and this step to the carry and the output."""

_SHARE_OF_ENDS = 32
"""Usually at most one in this many steps of a rollout is the last of an episode."""

_REMEMBERED = 100
"""Number of rollouts. Returns grow as an agent learns, so old ones must be forgotten."""


# Values.


def with_values(
    agent: "OnPolicyBase", runner: Runner, traj: Transition
) -> tuple[Runner, Transition]:
    """Evaluates a rollout with the current critic; also updates the critic's memories in the runner."""
    config, carry = agent.config, runner.critic_carry
    critic = whole_critic(agent.config, runner.actor_training, runner.critic_training)
    if jax.tree.leaves(traj.critic_carry):  # valued before; the runner's memories have moved on
        carry = jax.tree.map(lambda x: x[0], traj.critic_carry)
    carry = sharding.whole(carry) if config.replicated_updates else carry
    if remembers(critic.model_def):
        carry, traj = _recurrent_values(agent, critic, carry, traj)
    else:
        traj = _values_at_once(agent, critic, traj)
    if config.normalise_values:
        value = ops.denormalise(traj.value, runner.targets)
        next_value = ops.denormalise(traj.next_value, runner.targets)
        traj = traj._replace(value=value, next_value=next_value)
    carry = sharding.whole(carry) if config.replicated_updates else carry
    return runner.replace(critic_carry=carry), traj


def _values_at_once(agent: "OnPolicyBase", critic: TrainState, traj: Transition) -> Transition:
    """Evaluates a rollout with a critic without a memory.

    The true successor is the next observation, unless the episode or the rollout ends. A CPU evaluates
    only the exceptions; accelerators, and devices that share environments, evaluate all successors.
    """
    values_of = functools.partial(agent._values, critic)
    few = jax.default_backend() == "cpu" and _n_sharing(agent.config) == 1
    value, *next_values = jax.lax.map(
        lambda at_t: [values_of(obs) for obs in at_t],
        [traj.obs] if few else [traj.obs, traj.next_obs],
        batch_size=steps_valued_at_once(agent.config),
    )
    if not few:
        return traj._replace(value=value, next_value=next_values[0])
    ends, n_envs = (traj.terminated | traj.truncated).at[-1].set(True), value.shape[1]
    flat = functools.partial(jax.tree.map, lambda x: x.reshape(-1, *x.shape[2:]))
    next_value = replace_rows(
        flat(ends),
        flat(jnp.roll(value, -1, axis=0)),
        lambda some: values_of(
            jax.tree.map(lambda x: x.at[some].get(mode="clip"), flat(traj.next_obs))
        ),
        at_once=max(n_envs, ends.size // _SHARE_OF_ENDS),
    )
    return traj._replace(value=value, next_value=next_value.reshape(value.shape))


def _recurrent_values(
    agent: "OnPolicyBase", critic: TrainState, carry: PyTree, traj: Transition
) -> tuple[PyTree, Transition]:
    """Evaluates a rollout with a recurrent critic.

    Returns the critic's memories after the rollout, and the rollout with values and with the memories
    before each step. A true successor is evaluated with the memory after the step, even if the
    episode ends there.
    """
    over = traj.terminated | traj.truncated

    def in_turn(carry: PyTree, obs: PyTree, first: Array) -> tuple[PyTree, Array]:
        return unroll(critic, carry, obs, first)

    def after(at_t: tuple[PyTree, PyTree]) -> Array:
        return values_from(agent, jax.vmap(lambda *one: step(critic, *one)[1])(*at_t))

    carries, value = jax.vmap(in_turn, (0, 1, 1), 1)(carry, traj.obs, starts(over))
    value = jax.vmap(functools.partial(values_from, agent))(value)
    at_once = steps_valued_at_once(agent.config)
    next_value = jax.lax.map(after, (carries, traj.next_obs), batch_size=at_once)
    fresh = jax.vmap(jax.vmap(select, (0, None, 0)), (0, None, 0))
    carries = fresh(over, initial_carry(critic.model_def), carries)
    before = jax.tree.map(lambda x, y: jnp.concatenate([x[None], y[:-1]]), carry, carries)
    traj = traj._replace(value=value, next_value=next_value, critic_carry=before)
    return jax.tree.map(lambda x: x[-1], carries), traj


def values_from(agent: "OnPolicyBase", outputs: Array) -> Float[Array, "samples ..."]:
    """Outputs of a critic, samples first, as values (per actor) in at least single precision."""
    values = outputs.reshape(len(outputs), *agent.episodes.actors_shape)
    return values.astype(jnp.promote_types(values.dtype, jnp.float32))


def steps_valued_at_once(config: OnPolicyConfig) -> int:
    """Number of steps of a rollout that networks evaluate in one batch."""
    n_samples = config.rollout_length * config.batch_size // _n_sharing(config)
    n_parts = max(config.n_minibatches, fewest_parts(n_samples))
    return math.ceil(config.rollout_length / n_parts)


def _n_sharing(config: OnPolicyConfig) -> int:
    """Number of devices that share the environments of an update."""
    return 1 if config.replicated_updates else sharding.n_devices()


# Advantages and returns.


def with_advantages(agent: "OnPolicyBase", runner: Runner, traj: Transition) -> Transition:
    """Adds advantages and targets to a rollout.

    The critic learns no values for actors that have left, so their values are not used: the rewards
    that they still get are summed until the episode or the rollout ends.

    Args:
        agent: The agent, whose hooks compute advantages and targets step by step.
        runner: The runner after the rollout.
        traj: The rollout with its values, shaped `(time, environments, ...)`.

    Returns:
        The rollout.

    Raises:
        TypeError: A hook does not return two arrays.
        ValueError: A hook returns arrays of the wrong shape, or rewards and values differ in shape.
    """
    gamma, gae_lambda = runner.hyperparams.gamma, agent._gae_lambda(runner.hyperparams)
    now, later = playing(traj.obs), playing(traj.next_obs)
    if now is not None and later is not None:
        traj = traj._replace(value=now * traj.value, next_value=later * traj.next_value)
        gae_lambda = jnp.where(later > 0.0, gae_lambda, 1.0)
    value, next_value = traj.value, traj.next_value
    shape, of_each = value.shape, (*value.shape[:2], *[1] * (value.ndim - 2))
    if jnp.shape(traj.reward) not in (shape, of_each):
        raise ValueError(
            "The rewards of a rollout must be shaped as its values, (time, environments, *actors) of "
            f"{shape}, got shape {jnp.shape(traj.reward)}."
        )

    def of_actors(x: Array) -> Array:
        return jnp.broadcast_to(x.reshape(of_each) if x.shape != shape else x, shape)

    reward, terminated, truncated = map(of_actors, (traj.reward, traj.terminated, traj.truncated))
    gamma, gae_lambda = jnp.broadcast_to(gamma, shape), jnp.broadcast_to(gae_lambda, shape)

    def backwards(
        after: tuple[Array, Array], inputs: tuple[AdvantageInput, ReturnInput]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        advantage, advantage_out = _backward(agent._trajectory_advantages, after[0], inputs[0])
        target, target_out = _backward(agent._trajectory_returns, after[1], inputs[1])
        return (advantage, target), (advantage_out, target_out)

    inputs = (
        AdvantageInput(reward, value, next_value, terminated, gamma, gae_lambda),
        ReturnInput(reward, gamma * (1.0 - terminated), next_value, gae_lambda),
    )
    bootstrap = (jnp.zeros_like(value), next_value)
    advantage, target = ops.scan_backwards(backwards, inputs, bootstrap, truncated)
    return traj._replace(advantage=advantage, target=target)


def _backward(step: BackwardStep, after: Array, inputs: Any) -> tuple[Array, Array]:
    """Calls a hook for one backward step through a rollout, and checks its outputs."""
    output, expected = (
        step(after, inputs),
        "what the step before is given, and the output of this step",
    )
    if not isinstance(output, tuple) or len(output) != 2:
        raise TypeError(f"{name_of(step)} must return two arrays, {expected}, got {output!r}.")
    shapes = [*map(jnp.shape, output)]
    if shapes != [after.shape] * 2:
        raise ValueError(
            f"{name_of(step)} must return two arrays of shape {after.shape}, {expected}, got shapes "
            f"{shapes}."
        )
    carried, collected = output
    return jnp.asarray(carried, after.dtype), jnp.asarray(collected, after.dtype)


def explained_variance(agent: "OnPolicyBase", traj: Transition) -> Float[Array, ""]:
    """Fraction of the variance of returns that values explain, averaged over actors that played."""
    value, target, weights = traj.value, traj.target, playing(traj.obs)
    if agent.config.replicated_updates:
        value, target, weights = jax.tree.map(
            lambda x: x[:, None], sharding.in_one_order((value, target, weights))
        )
    explained = ops.explained_variance(value, target, weights)
    if weights is None:
        return explained.mean()
    axes = tuple(range(explained.ndim))
    return ops.weighted_mean(explained, weights.max(axis=(0, 1)), axes)


# Statistics.


def shares_params(network: nn.Module | None) -> bool:
    """Whether a network, or one inside it, has the same parameters for all actors."""
    if network is None or getattr(network, "shared_params", False):
        return network is not None
    return shares_params(getattr(network, "network", None))


def targets_after(config: OnPolicyConfig, runner: Runner, traj: Transition) -> PyTree:
    """Running statistics of targets, updated with a rollout; `()` unless values are normalised."""
    if not config.normalise_values:
        return runner.targets
    targets, weights = sharding.in_one_order(
        (traj.target, playing(traj.obs)), config.replicated_updates
    )
    return observe_targets(targets, weights, runner.targets)


def observe_targets(
    targets: Float[Array, "..."], weights: Weights, moments: ops.Moments
) -> ops.Moments:
    """Adds the returns of a rollout to running moments.

    The first 100 rollouts weigh the same; each later one weighs 1%.

    Args:
        targets: The targets of the rollout, with leading axes of samples.
        weights: Weights of actors, with the same axes.
        moments: Moments of the targets of all earlier rollouts.

    Returns:
        The moments.
    """
    n_axes = targets.ndim - moments.mean.ndim
    merged = ops.merge_moments(moments, ops.moments_of(targets, n_axes, weights))
    most = min((_REMEMBERED - 1) * math.prod(targets.shape[:n_axes]), ops.MOST_SAMPLES)
    return merged._replace(count=jnp.minimum(merged.count, most))


def in_units_of_critic(config: OnPolicyConfig, runner: Runner, traj: Transition) -> Transition:
    """Normalises the values and targets of a rollout.

    Args:
        config: Configuration of the agent.
        runner: The runner after the rollout.
        traj: The rollout, with original values and targets.

    Returns:
        The rollout.
    """
    after = targets_after(config, runner, traj)
    value = ops.normalise(traj.value, runner.targets, jnp.inf)
    return traj._replace(value=value, target=ops.normalise(traj.target, after, jnp.inf))
