"""Runners: the state that a run carries from one update to the next."""

from typing import Any

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxagents import ops, sharding
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.core.hyperparameters import Traced
from jaxagents.core.summary import Summarised
from jaxagents.learners.train_state import TrainState
from jaxagents.networks.encoding import BehindTrunk

MOST_REWARD = 10.0
"""Limit of normalised rewards, in standard deviations."""


class Runner(Summarised, struct.PyTreeNode):
    """The state that an on-policy agent carries from one update to the next.

    Attributes:
        actor_training: Train state of the actor.
        critic_training: Train state of the critic.
        envstate: States of the environments, `batch_size` along the first axis.
        obs: Their current observations.
        rng: Random key.
        hyperparams: Hyperparameters.
        update_step: Number of updates made so far.
        info: Scalar metrics of the last update; empty before the first.
        carry: Memories of the policy, environments first; `()` if it has none.
        received: Discounted return so far in each current episode, environments first; `()` unless
            rewards are normalised.
        returns: Running statistics of returns, used to scale rewards; `()` unless rewards are
            normalised.
        critic_carry: Memories of the critic, environments first; `()` if it has none.
        targets: Running statistics of the critic's targets, used to scale values; `()` unless values
            are normalised.
        extra: Additional state of a custom agent, the same on all devices; `()` if there is none.
    """

    actor_training: TrainState
    critic_training: TrainState
    envstate: PyTree
    obs: PyTree
    rng: Key[Array, ""]
    hyperparams: Any
    update_step: Int[Array, ""]
    info: dict[str, PyTree] = struct.field(default_factory=dict)
    carry: PyTree = ()
    received: PyTree = ()
    returns: PyTree = ()
    critic_carry: PyTree = ()
    targets: PyTree = ()
    extra: PyTree = ()

    @property
    def actor_loss(self) -> Float[Array, ""]:
        """The actor's loss in the last update; NaN before the first."""
        return self.info.get("actor_loss", jnp.asarray(jnp.nan, jnp.float32))

    @property
    def critic_loss(self) -> Float[Array, ""]:
        """The critic's loss in the last update; NaN before the first."""
        return self.info.get("critic_loss", jnp.asarray(jnp.nan, jnp.float32))


class LearnerRunner(Summarised, struct.PyTreeNode):
    """The state that an agent with a learner carries from one update to the next.

    Attributes:
        learner: The learner.
        rng: Random key.
        update_step: Number of updates made so far.
        info: Scalar metrics of the last update; NaN before the first.
    """

    learner: Any
    rng: Key[Array, ""]
    update_step: Int[Array, ""]
    info: dict[str, PyTree]

    @property
    def hyperparams(self) -> Any:
        """The learner's hyperparameters."""
        return self.learner.hyperparams


class RolloutRunner(LearnerRunner):
    """The state that an agent with a learner and rollouts carries from one update to the next.

    Attributes:
        envstate: States of the environments, `batch_size` along the first axis.
        obs: Their current observations.
        carry: Memories of the critic, environments first; `()` if it has none.
    """

    envstate: PyTree
    obs: PyTree
    carry: PyTree = ()


class OffPolicyRunner(LearnerRunner):
    """The state that an off-policy agent carries from one update to the next.

    Attributes:
        buffer: The replay buffer; `None` if restored from a checkpoint without it.
        envstate: States of the environments, `batch_size` along the first axis.
        obs: Their current observations.
        received: Discounted return so far in each current episode, environments first; `()` unless
            rewards are normalised.
        returns: Running statistics of returns, used to scale rewards; `()` unless rewards are
            normalised.
        carry: Memories of the critic, environments first; `()` if it has none.
    """

    buffer: PyTree
    envstate: PyTree
    obs: PyTree
    received: PyTree = ()
    returns: PyTree = ()
    carry: PyTree = ()


def whole_critic(config: OnPolicyConfig, actor: TrainState, critic: TrainState) -> TrainState:
    """The whole critic, from observations to values: on top of the actor's trunk, if there is one."""
    if config.trunk is None:
        return critic
    parts = {"trunk": actor.part("trunk"), "network": critic}
    extra: dict[str, PyTree] = {}
    for name, part in parts.items():
        for kind, variables in part.extra_variables.items():
            extra.setdefault(kind, {})[name] = variables
    params = {name: part.params for name, part in parts.items()}
    network = BehindTrunk(critic.model_def, parts["trunk"].model_def)
    return TrainState(critic.step, params, None, extra, network)


def observe_rewards(
    statistics: Any,
    rewards: Float[Array, "time environments *actors"],
    over: Bool[Array, "time environments"],
    gamma: Traced,
    replicated: bool,
    playing: Float[Array, "time environments *actors"] | None = None,
) -> Any:
    """Updates running statistics of returns, used to scale rewards, with a rollout's rewards.

    Args:
        statistics: A runner, or another struct with `received`, the discounted rewards of current
            episodes so far, and `returns`, the moments of these returns.
        rewards: Original rewards.
        over: Whether an episode ends, terminated or truncated, after each step.
        gamma: Discount.
        replicated: Whether each device of a mesh sums over all environments, which gives the same sums
            on any number of devices.
        playing: 1 for each actor that is still playing at a step, 0 for one that has left; `None` if
            no actor leaves early.

    Returns:
        The statistics after the rollout.
    """
    so_far, received = ops.running_returns(rewards, over, statistics.received, gamma)
    if replicated:
        so_far, playing = sharding.in_one_order((sharding.whole(so_far), playing))
    n_axes = so_far.ndim - statistics.returns.mean.ndim
    moments = ops.moments_of(so_far, n_axes, playing)
    returns = ops.merge_moments(statistics.returns, moments)
    return statistics.replace(received=received, returns=returns)
