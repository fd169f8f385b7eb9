"""Fitting a network to a rollout in epochs of minibatches."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from jaxagents import ops
from jaxagents.core.train_state import TrainState

LossFunction = Callable[..., tuple[Float[Array, ""], Float[Array, ""]]]


class Fitted(NamedTuple):
    """A fitted network, with what its last epoch showed.

    Attributes:
        training: State of its training.
        loss: Mean loss over the minibatches.
        kl: Mean KL divergence over the minibatches, as the loss function gives it.
        n_epochs: Number of epochs made.
    """

    training: TrainState
    loss: Any
    kl: Any
    n_epochs: Any


def fit(
    training: TrainState,
    loss_fn: LossFunction,
    inputs: Any,
    rng: Key[Array, ""],
    *,
    n_epochs: int,
    n_minibatches: int,
    n_groups: int = 1,
    kl_threshold: Any = jnp.inf,
) -> Fitted:
    """Takes one gradient step for each minibatch of each epoch.

    Args:
        training: State of the network's training.
        loss_fn: Maps a state and the inputs of a minibatch to the loss and a KL divergence.
        inputs: Tuple of pytrees, shaped `(time, environments, ...)`.
        rng: Random key.
        n_epochs: Largest number of epochs.
        n_minibatches: Number of minibatches of each epoch.
        n_groups: Number of groups of environments within which samples are mixed.
        kl_threshold: No further epoch is made after one with a larger mean KL divergence.

    Returns:
        The fitted network.
    """
    data = jax.tree.map(lambda x: _in_groups(x, n_groups), inputs)
    n_samples = jax.tree.leaves(data)[0].shape[1]

    def minibatch(training: TrainState, indices: Array) -> tuple[TrainState, tuple[Array, Array]]:
        samples = ops.take_minibatch(data, indices)

        def loss_and_info(params: Any) -> tuple[Array, tuple[Array, Array]]:
            loss, kl = loss_fn(training.replace(params=params), *samples)
            return loss, (loss, kl)

        return training.apply_loss_fn(loss_fn=loss_and_info, has_aux=True)

    def epoch(fitted: Fitted) -> Fitted:
        key = jax.random.fold_in(rng, fitted.n_epochs)
        indices = ops.minibatch_indices(key, n_samples, n_minibatches, n_groups)
        training, (losses, kls) = jax.lax.scan(minibatch, fitted.training, indices)
        return Fitted(training, losses.mean(), kls.mean(), fitted.n_epochs + 1)

    def goes_on(fitted: Fitted) -> Bool[Array, ""]:
        return (fitted.n_epochs < n_epochs) & (fitted.kl <= kl_threshold)

    unfitted = Fitted(training, jnp.zeros(()), jnp.zeros(()), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(goes_on, epoch, unfitted)


def _in_groups(x: Array, n_groups: int) -> Array:
    """From `(time, environments, ...)` to `(groups, samples, ...)`."""
    time, n_envs, *rest = x.shape
    by_group = jnp.moveaxis(x.reshape(time, n_groups, n_envs // n_groups, *rest), 1, 0)
    return by_group.reshape(n_groups, -1, *rest)
