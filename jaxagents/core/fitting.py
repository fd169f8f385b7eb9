"""Fitting networks to a rollout in epochs of minibatches."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt32

from jaxagents import ops
from jaxagents.core.train_state import TrainState

LossFunction = Callable[..., tuple[Float[Array, ""], Float[Array, ""]]]

_LARGEST_SHARED_MINIBATCH = 8192
"""Samples. Larger ones keep several cores busy by themselves, and those of two crowd the caches."""


class Fit(NamedTuple):
    """How a network is to be fitted.

    Attributes:
        training: State of its training.
        loss_fn: Maps a state and the inputs of a minibatch to the loss and a KL divergence.
        inputs: Tuple of pytrees, shaped `(time, environments, ...)`.
        n_epochs: Largest number of epochs.
        kl_threshold: After an epoch with a larger mean KL divergence, the network stays as it is;
            `None` sets no limit.
    """

    training: TrainState
    loss_fn: LossFunction
    inputs: Any
    n_epochs: int
    kl_threshold: Any = None


class Fitted(NamedTuple):
    """A fitted network, with what its last epoch showed.

    Attributes:
        training: State of its training.
        loss: Mean loss over the minibatches.
        kl: Mean KL divergence over the minibatches, as the loss function gives it.
    """

    training: TrainState
    loss: Any
    kl: Any


def fit(
    fits: Sequence[Fit], rng: Key[Array, ""], *, n_minibatches: int, n_groups: int = 1
) -> list[Fitted]:
    """Takes one gradient step of each network for each minibatch of each epoch.

    All networks learn from the same minibatches. Where these are small they do so in one loop, whose
    steps keep several cores of a CPU busy. Those with fewer epochs than others leave it earlier.

    Args:
        fits: The networks.
        rng: Random key.
        n_minibatches: Number of minibatches of each epoch.
        n_groups: Number of groups of environments within which samples are mixed.

    Returns:
        The fitted networks.
    """
    shape = (max(fit.n_epochs for fit in fits), n_groups, 2)
    flat_seeds = jax.random.bits(rng, (math.prod(shape),), jnp.uint32)  # compiles to less code
    fit_together = functools.partial(
        _fit_in_one_loop, seeds=flat_seeds.reshape(shape), n_minibatches=n_minibatches
    )
    time, n_envs, *_ = jax.tree.leaves(fits[0].inputs)[0].shape
    if time * n_envs // n_minibatches <= _LARGEST_SHARED_MINIBATCH:
        return fit_together(fits)
    return [fit_together([fit])[0] for fit in fits]


def _fit_in_one_loop(
    fits: Sequence[Fit], seeds: UInt32[Array, "epochs n_groups 2"], n_minibatches: int
) -> list[Fitted]:
    time, n_envs, *_ = jax.tree.leaves(fits[0].inputs)[0].shape
    n_samples = time * n_envs // seeds.shape[1]

    def minibatches_of(epoch: Int[Array, ""]) -> Array:
        return ops.minibatch_indices(seeds[epoch], n_samples, n_minibatches)

    fitted = [Fitted(fit.training, jnp.zeros(()), jnp.zeros(())) for fit in fits]
    first = 0
    for last in sorted({fit.n_epochs for fit in fits}):
        learning = [i for i, fit in enumerate(fits) if fit.n_epochs >= last]
        after = _epochs(
            [fits[i] for i in learning],
            [fitted[i] for i in learning],
            minibatches_of,
            range(first, last),
        )
        for i, network in zip(learning, after, strict=True):
            fitted[i] = network
        first = last
    return fitted


def _epochs(
    fits: list[Fit],
    fitted: list[Fitted],
    minibatches_of: Callable[[Any], Array],
    epochs: range,
) -> list[Fitted]:
    """The networks after further epochs."""

    def minibatch(trainings: list[TrainState], indices: Array) -> tuple[list[TrainState], Any]:
        inputs = [fit.inputs for fit in fits]  # in the loop: what they share is gathered once
        data = jax.tree.map(lambda x: _in_groups(x, len(indices)), inputs)
        samples = ops.take_minibatch(data, indices)
        steps = [_step(*step) for step in zip(fits, trainings, samples, strict=True)]
        return [training for training, _ in steps], [shown for _, shown in steps]

    def epoch(number: Any, before: list[Fitted]) -> list[Fitted]:
        trainings = [network.training for network in before]
        trainings, shown = jax.lax.scan(minibatch, trainings, minibatches_of(number))
        after = [
            Fitted(training, losses.mean(), kls.mean())
            for training, (losses, kls) in zip(trainings, shown, strict=True)
        ]
        return [_unless_stopped(*network) for network in zip(fits, before, after, strict=True)]

    return jax.lax.fori_loop(epochs.start, epochs.stop, epoch, fitted)


def _unless_stopped(fit: Fit, before: Fitted, after: Fitted) -> Fitted:
    if fit.kl_threshold is None:
        return after
    goes_on = before.kl <= fit.kl_threshold
    return jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, before)


def _step(fit: Fit, training: TrainState, samples: Any) -> tuple[TrainState, tuple[Array, Array]]:
    def loss_and_info(params: Any) -> tuple[Array, tuple[Array, Array]]:
        loss, kl = fit.loss_fn(training.replace(params=params), *samples)
        return loss, (loss, kl)

    return training.apply_loss_fn(loss_fn=loss_and_info, has_aux=True)


def _in_groups(x: Array, n_groups: int) -> Array:
    """From `(time, environments, ...)` to `(groups, samples, ...)`."""
    time, n_envs, *rest = x.shape
    by_group = jnp.moveaxis(x.reshape(time, n_groups, n_envs // n_groups, *rest), 1, 0)
    return by_group.reshape(n_groups, -1, *rest)
