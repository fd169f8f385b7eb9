"""Policies: how the hooks of an agent make distributions of actions, with or without a memory."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.sequences import first_of
from jaxagents.agents.transitions import Transition
from jaxagents.learners.memory import step, unroll
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import remembers

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

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
    """The distribution of actions at one observation, by whichever hooks an agent gives.

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
    if any(agent._gives(hook) for hook in DRAWING_HOOKS):
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
    return jax.vmap(of_environment, (0, 1, 1), 1)(start, traj, first_of(traj))
