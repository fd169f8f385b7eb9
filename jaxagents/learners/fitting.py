"""Fitting networks to a rollout in epochs of minibatches."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt32

from jaxagents import ops, sharding
from jaxagents.learners.train_state import TrainState

LossFunction = Callable[..., tuple[Float[Array, ""], Float[Array, ""]]]

_LARGEST_SHARED_MINIBATCH = 8192
"""Samples. Larger ones keep several cores busy by themselves, and those of two crowd the caches."""
_SAMPLES_OF_A_PART = 4096
"""Intermediate results of so many, for two networks, fit into the caches of a CPU."""


class Fit(NamedTuple):
    """How a network is to be fitted.

    Attributes:
        training: State of its training.
        loss_fn: Maps a state and the inputs of a minibatch to the loss and a KL divergence.
        inputs: Tuple of pytrees, shaped `(time, environments, ...)`.
        n_epochs: Largest number of epochs.
        kl_threshold: After an epoch with a larger mean KL divergence, the network stays as it is;
            `None` sets no limit.
        mean_of: Where loss and KL divergence are means over samples: maps the inputs of a minibatch to
            those that `loss_fn` is given instead, in parts.
    """

    training: TrainState
    loss_fn: LossFunction
    inputs: Any
    n_epochs: int
    kl_threshold: Any = None
    mean_of: Callable[..., tuple] | None = None


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
    fits: Sequence[Fit],
    rngs: Key[Array, "epochs n_groups"],
    *,
    n_minibatches: int,
    replicated: bool = False,
) -> list[Fitted]:
    """Takes one gradient step of each network for each minibatch of each epoch.

    All networks learn from the same minibatches. Where these are small, or come in parts, they do so in
    one loop, whose steps keep several cores of a CPU busy. Those with fewer epochs than others leave it
    earlier.

    Args:
        fits: The networks.
        rngs: Random keys of as many epochs as a network has at most, and of the groups of environments
            within which samples are mixed.
        n_minibatches: Number of minibatches of each epoch.
        replicated: Whether each device of a mesh learns from all samples.

    Returns:
        The fitted networks.
    """
    n_devices = 1 if replicated else sharding.n_devices()
    fit_together = functools.partial(
        _fit_in_one_loop,
        seeds=jax.random.key_data(rngs)[..., :2],
        n_minibatches=n_minibatches,
        n_devices=n_devices,
    )
    time, n_envs, *_ = jax.tree.leaves(fits[0].inputs)[0].shape
    size = time * n_envs // n_minibatches
    if size <= _LARGEST_SHARED_MINIBATCH or _n_parts(fits, size // n_devices) > 1:
        return fit_together(fits)
    return [fit_together([fit])[0] for fit in fits]


def fewest_parts(n_samples: int) -> int:
    """The fewest parts in which networks compute with samples, to be fast on the default backend."""
    return math.ceil(n_samples / _SAMPLES_OF_A_PART) if jax.default_backend() == "cpu" else 1


def _fit_in_one_loop(
    fits: Sequence[Fit],
    seeds: UInt32[Array, "epochs n_groups 2"],
    n_minibatches: int,
    n_devices: int,
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
            n_devices,
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
    n_devices: int,
) -> list[Fitted]:
    """The networks after further epochs."""

    def minibatch(trainings: list[TrainState], indices: Array) -> tuple[list[TrainState], Any]:
        inputs = [fit.inputs for fit in fits]  # in the loop: what they share is gathered once
        data = jax.tree.map(lambda x: _in_groups(x, len(indices)), inputs)
        samples = [
            fit.mean_of(*taken) if fit.mean_of else taken
            for fit, taken in zip(fits, ops.take_minibatch(data, indices), strict=True)
        ]
        found = _gradients(fits, trainings, samples, n_devices)
        steps = zip(trainings, found, strict=True)
        after = [training.apply_gradients(grads=grads) for training, (grads, _) in steps]
        return after, [shown for _, shown in found]

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


def _gradients(
    fits: list[Fit], trainings: list[TrainState], samples: list[Any], n_devices: int
) -> list[tuple[Any, tuple[Array, Array]]]:
    """The gradient of each loss, with the loss and the KL divergence."""

    def of_part(samples: list[Any]) -> list[tuple[Any, tuple[Array, Array]]]:
        return [_gradient(*of_fit) for of_fit in zip(fits, trainings, samples, strict=True)]

    def mean_of_parts(samples: list[Any]) -> list[tuple[Any, tuple[Array, Array]]]:
        parts = jax.tree.map(lambda x: x.reshape(n_parts, -1, *x.shape[1:]), samples)
        zeros = jax.eval_shape(of_part, jax.tree.map(lambda x: x[0], parts))
        total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, zeros), parts)
        return jax.tree.map(lambda x: x / n_parts, total)

    def add(total: Any, part: list[Any]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, of_part(part)), None

    n_parts = _n_parts(fits, len(jax.tree.leaves(samples)[0]) // n_devices)
    if n_parts == 1:
        return of_part(samples)
    if n_devices == 1:
        return mean_of_parts(samples)
    return sharding.mean_over_devices(mean_of_parts, samples)


def _gradient(fit: Fit, training: TrainState, samples: Any) -> tuple[Any, tuple[Array, Array]]:
    def loss_and_kl(params: Any) -> tuple[Array, Array]:
        return fit.loss_fn(training.replace(params=params), *samples)

    shown, grads = jax.value_and_grad(loss_and_kl, has_aux=True)(training.params)
    return grads, shown


def _n_parts(fits: Sequence[Fit], size: int) -> int:
    """Number of equal parts in which a device computes the gradients of samples."""
    fewest = fewest_parts(size)
    if fewest == 1 or not all(fit.mean_of for fit in fits):
        return 1
    return next((n for n in range(fewest, 2 * fewest) if size % n == 0), 1)


def _in_groups(x: Array, n_groups: int) -> Array:
    """From `(time, environments, ...)` to `(groups, samples, ...)`."""
    time, n_envs, *rest = x.shape
    by_group = jnp.moveaxis(x.reshape(time, n_groups, n_envs // n_groups, *rest), 1, 0)
    return by_group.reshape(n_groups, -1, *rest)
