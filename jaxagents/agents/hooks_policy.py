"""Policies made of hooks, one for each thing that a policy does."""

from collections.abc import Callable
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Key, PyTree

from jaxagents import ops
from jaxagents.agents.policy import MemorylessPolicy
from jaxagents.learners.train_state import TrainState


class Hooks(NamedTuple):
    """The hooks of `OnPolicyBase` that make up a policy, each for one observation.

    Attributes:
        sample: `_sample_actions(rng, training, obs)`.
        log_prob: `_log_prob(training, params, obs, actions)`.
        entropy: `_entropy(training, obs)`.
        greedy: `policy(training, obs)`.
    """

    sample: Callable[[Key[Array, ""], TrainState, PyTree], PyTree]
    log_prob: Callable[[TrainState, PyTree, PyTree, PyTree], Array]
    entropy: Callable[[TrainState, PyTree], Array]
    greedy: Callable[[TrainState, PyTree], PyTree]


class HooksDistribution(ops.Distribution):
    """The distribution of actions that hooks describe.

    Attributes:
        network: State of the actor's training.
        obs: One observation.
        hooks: The hooks (static).
    """

    network: TrainState
    obs: PyTree
    hooks: Hooks = struct.field(pytree_node=False)

    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""
        action = self.hooks.sample(key, self.network, self.obs)
        return jax.tree.map(jnp.asarray, action)

    def log_prob(self, action: PyTree) -> Array:
        """Log-probability of an action, in nats."""
        log_prob = self.hooks.log_prob(self.network, self.network.params, self.obs, action)
        return jnp.asarray(log_prob)

    def entropy(self) -> Array:
        """Entropy, in nats."""
        return jnp.asarray(self.hooks.entropy(self.network, self.obs))

    def mode(self) -> PyTree:
        """The greedy action."""
        return jax.tree.map(jnp.asarray, self.hooks.greedy(self.network, self.obs))


@final
class HooksPolicy(MemorylessPolicy):
    """The policy of the hooks `_sample_actions`, `_log_prob`, `_entropy` and `policy`."""

    def __init__(self, hooks: Hooks) -> None:
        """Takes the hooks."""
        super().__init__(hooks.greedy)
        self._hooks = hooks

    def distribution(self, network: TrainState, obs: PyTree) -> HooksDistribution:
        """The distribution of actions at one observation."""
        return HooksDistribution(network, obs, self._hooks)
