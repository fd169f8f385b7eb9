"""Gradients of the losses of minibatches, computed in parts that fit into caches."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxagents import sharding
from jaxagents.learners.fits import LOSS, Fit, Share, inputs_of_losses
from jaxagents.learners.losses import Info
from jaxagents.learners.train_state import TrainState

_SAMPLES_OF_A_PART = 4096
"""The intermediate results of this many, for two networks, fit into the caches of a CPU."""


def gradients(
    fits: list[Fit],
    trainings: list[TrainState],
    samples: list[PyTree],
    n_parts: int,
    n_devices: int,
    share: Share | None = None,
) -> list[tuple[PyTree, Info]]:
    """The gradient of each loss, with what describes it.

    Args:
        fits: How the networks are fitted.
        trainings: The states of their trainings.
        samples: The inputs of their losses.
        n_parts: Number of equal parts in which a device computes them.
        n_devices: Number of devices that share the samples.
        share: What the networks have in common; `None` for nothing.

    Returns:
        Both, of each network.
    """

    def of_part(samples: list[PyTree]) -> list[tuple[PyTree, Info]]:
        return _gradients(fits, trainings, samples, share)

    def mean_of_parts(samples: list[PyTree]) -> list[tuple[PyTree, Info]]:
        parts = jax.tree.map(lambda x: x.reshape(n_parts, -1, *x.shape[1:]), samples)
        zeros = jax.eval_shape(of_part, jax.tree.map(lambda x: x[0], parts))
        total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, zeros), parts)
        return jax.tree.map(lambda x: x / n_parts, total)

    def add(total: PyTree, part: list[PyTree]) -> tuple[PyTree, None]:
        return jax.tree.map(jnp.add, total, of_part(part)), None

    if n_parts == 1:
        return of_part(samples)
    if n_devices == 1:
        return mean_of_parts(samples)
    return sharding.mean_over_devices(mean_of_parts, samples)


def _gradients(
    fits: list[Fit], trainings: list[TrainState], samples: list[PyTree], share: Share | None
) -> list[tuple[PyTree, Info]]:
    """The gradient of the sum of the mean losses by the parameters of each network."""

    def total_loss(params: list[PyTree]) -> tuple[Array, list[Info]]:
        pairs = zip(trainings, params, strict=True)
        states = [training.replace(params=of_training) for training, of_training in pairs]
        given = inputs_of_losses(states, samples, share)
        means = [_means(*of_fit) for of_fit in zip(fits, given, strict=True)]
        return sum((info[LOSS] for info in means[1:]), means[0][LOSS]), means

    grads, means = jax.grad(total_loss, has_aux=True)([x.params for x in trainings])
    return list(zip(grads, means, strict=True))


def _means(fit: Fit, inputs: tuple[PyTree, ...]) -> Info:
    """The mean loss, and the means of what describes the samples."""
    losses, info = fit.loss_fn(*inputs)
    return jax.tree.map(jnp.mean, {**info, LOSS: losses})


def parts_of(fits: Sequence[Fit], n_devices: int) -> int:
    """Number of equal parts in which a device computes the gradients of minibatches.

    Args:
        fits: How the networks are fitted, with their examples.
        n_devices: Number of devices that share the samples.

    Returns:
        The number.
    """
    sizes = {len(x) for fit in fits for x in jax.tree.leaves(fit.example.samples)}
    if len(sizes) > 1 or not all(fit.example.is_per_sample for fit in fits):
        return 1
    return equal_parts(sizes.pop() // n_devices)


def equal_parts(size: int) -> int:
    """Number of equal parts that are not much smaller than they may be; 1 if there are none."""
    fewest = fewest_parts(size)
    if fewest == 1:
        return 1
    return next((n for n in range(fewest, 2 * fewest) if size % n == 0), 1)


def fewest_parts(n_samples: int) -> int:
    """The fewest parts in which networks compute with samples, to be fast on the default backend."""
    return math.ceil(n_samples / _SAMPLES_OF_A_PART) if jax.default_backend() == "cpu" else 1
