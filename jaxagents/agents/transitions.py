"""The data of rollouts: transitions, sequences of them for a memory, and who is still playing."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.core.hyperparameters import Traced
from jaxagents.core.observed import actor_mask
from jaxagents.learners.memory import unroll
from jaxagents.learners.train_state import TrainState

NOT_YET = cast(Array, None)
"""A placeholder for fields that are computed after the rollout."""


class Transition(NamedTuple):
    """One step of every environment, or a rollout of them with a leading time axis.

    Attributes:
        obs: Observation acted on.
        action: Action taken.
        value: Value of `obs`.
        log_prob: Log-probability of `action`.
        reward: Reward received.
        next_obs: True successor of `obs`, before any reset.
        terminated: Whether `next_obs` is terminal.
        truncated: Whether the episode was cut after this step.
        next_value: Value of `next_obs`.
        advantage: Advantage of `action`.
        target: Return that the critic is fitted to.
        carry: Memory of the policy before the step; `()` if it has none.
        critic_carry: Memory of the critic before the step, once values are known; `()` if it has none.
        info: The entries of the environment's info that the configuration names in `final_info` and
            `summed_info`.
        extra: Further arrays of a subclass, such as rewards of its own, by name.
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
        gae_lambda: Weight of the trace.
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
        gae_lambda: Weight of the trace.
    """

    reward: Array
    discount: Array
    next_value: Array
    gae_lambda: Traced


class Sequence(NamedTuple):
    """Observations in order, as a network with a memory learns from them.

    Attributes:
        obs: Observations, time first.
        carry: The memory before the first step, with an axis of time of length 1.
        first: Whether a new episode starts at the step.
    """

    obs: PyTree
    carry: PyTree
    first: Bool[Array, "..."]


def to_learn_from(traj: Transition, carry: PyTree) -> PyTree:
    """The observations of a rollout in the form in which a network learns from them.

    Args:
        traj: The rollout, shaped `(time, environments, ...)`.
        carry: The memories of the network before its steps, time first; `()` if it has none.

    Returns:
        A pytree shaped `(time, environments, ...)`: a `Sequence` if the network has a memory.
    """
    if not jax.tree.leaves(carry):
        return traj.obs
    start = jax.tree.map(lambda x: x[:1], carry)
    return Sequence(traj.obs, start, starts(traj.terminated | traj.truncated))


def starts(over: Bool[Array, "time environments"]) -> Bool[Array, "time environments"]:
    """Whether an episode starts at a step of a rollout, from whether one ends after it.

    Before such a step the memory is to be reset. The first step goes on from the memory of the runner.
    """
    return jnp.concatenate([jnp.zeros_like(over[:1]), over[:-1]])


def outputs_of(network: TrainState, inputs: PyTree) -> PyTree:
    """The outputs of a network for a minibatch.

    Args:
        network: State of its training.
        inputs: Sequences, with a leading axis, for a network with a memory; samples for one without.

    Returns:
        The outputs, samples first.
    """

    def of_one(sequence: Sequence) -> PyTree:
        start = jax.tree.map(lambda x: x[0], sequence.carry)
        return unroll(network, start, sequence.obs, sequence.first)[1]

    if isinstance(inputs, Sequence):
        return samples(jax.vmap(of_one)(inputs))
    return jax.vmap(network)(inputs)


def elements(rollout: PyTree) -> PyTree:
    """A rollout as the elements that are dealt to minibatches: the sequences of environments.

    Args:
        rollout: Pytree shaped `(time, environments, ...)`.

    Returns:
        The pytree, shaped `(1, environments, time, ...)`.
    """
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1)[None], rollout)


def samples(minibatch: PyTree) -> PyTree:
    """The steps of all sequences one after another, except for a `Sequence`, which stays.

    Args:
        minibatch: Pytree shaped `(sequences, time, ...)`.

    Returns:
        The pytree, shaped `(samples, ...)`.
    """

    def flat(x: PyTree) -> PyTree:
        return x if is_sequence(x) else x.reshape(-1, *x.shape[2:])

    return jax.tree.map(flat, minibatch, is_leaf=is_sequence)


def is_sequence(x: object) -> bool:
    """Whether something is a `Sequence`, a leaf of what losses are given."""
    return isinstance(x, Sequence)


Weights = Float[Array, "..."] | None
"""1 for each actor that is still playing and 0 for one that has left; `None` if none leaves early."""


def playing(obs: PyTree) -> Weights:
    """Weights of actors.

    Args:
        obs: Observations with any leading axes; or the sequences of a minibatch.

    Returns:
        The weights, with the same leading axes; samples first for sequences.
    """
    if isinstance(obs, Sequence):
        return samples(playing(obs.obs))
    mask = actor_mask(obs)
    return None if mask is None else jnp.asarray(mask, jnp.float32)
