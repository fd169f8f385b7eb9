"""Runners: everything that a training carries from one update to the next."""

from typing import Any, Protocol, Self

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxagents.learners.train_state import TrainState


class AnyRunner(Protocol):
    """The fields that runners of all families have."""

    @property
    def update_step(self) -> Int[Array, ""]:
        """Number of updates made so far."""
        ...

    @property
    def info(self) -> dict[str, PyTree]:
        """Scalars that describe the last update."""
        ...

    @property
    def hyperparams(self) -> Any:
        """Hyperparameters, which may have schedules among them."""
        ...

    def replace(self, **fields: Any) -> Self:
        """The runner with other fields."""
        ...


class Runner(struct.PyTreeNode):
    """Everything that training carries from one update to the next.

    Attributes:
        actor_training: State of the actor's training.
        critic_training: State of the critic's training.
        envstate: States of the environments, `batch_size` along the first axis.
        obs: Their current observations.
        rng: Random key.
        hyperparams: Hyperparameters.
        update_step: Number of updates made so far.
        info: Scalars that describe the last update; empty before the first.
        carry: Memories of the policy, environments first; `()` if it has none.
        received: Discounted rewards of the current episodes so far, environments first; `()` unless
            rewards are normalised.
        returns: Moments of such returns, by which they are; `()` otherwise.
        critic_carry: Memories of the critic, environments first; `()` if it has none.
        targets: Moments of the returns that the critic is fitted to, in whose units it gives values;
            `()` unless values are normalised.
        extra: Whatever else an agent remembers, the same on all devices; `()` if there is nothing.
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


class LearnerRunner(struct.PyTreeNode):
    """Everything that the training of a learner carries from one update step to the next.

    Attributes:
        learner: The learner.
        rng: Random key.
        update_step: Number of update steps made so far.
        info: Scalars that describe the last update step (NaN before the first).
    """

    learner: Any
    rng: Key[Array, ""]
    update_step: Int[Array, ""]
    info: dict[str, PyTree]

    @property
    def hyperparams(self) -> Any:
        """Hyperparameters."""
        return self.learner.hyperparams


class RolloutRunner(LearnerRunner):
    """Everything that the training of a learner by rollouts carries from one update step to the next.

    Attributes:
        envstate: States of the environments, `batch_size` along the first axis.
        obs: Their current observations.
        carry: Memories of the critic, environments first; `()` if it has none.
    """

    envstate: PyTree
    obs: PyTree
    carry: PyTree = ()


class OffPolicyRunner(LearnerRunner):
    """Everything that training carries from one update step to the next.

    Attributes:
        buffer: The replay buffer; `None` if restored from a checkpoint without it.
        envstate: States of the environments, `batch_size` along the first axis.
        obs: Their current observations.
        received: Discounted rewards of the current episodes so far, environments first; `()` unless
            rewards are normalised.
        returns: Moments of such returns, by which they are; `()` otherwise.
        carry: Memories of the critic, environments first; `()` if it has none.
    """

    buffer: PyTree
    envstate: PyTree
    obs: PyTree
    received: PyTree = ()
    returns: PyTree = ()
    carry: PyTree = ()
