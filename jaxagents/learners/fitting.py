"""Fitting networks to a rollout in epochs of minibatches."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, Key, PyTree, UInt32

from jaxagents import ops, sharding
from jaxagents.core.arrays import in_32_bits, select
from jaxagents.learners.fits import GRADIENT_NORM, LOSS, Fit, Fitted, with_example
from jaxagents.learners.gradients import gradients, parts_of
from jaxagents.learners.losses import Info
from jaxagents.learners.train_state import TrainState

KEPT = "kept"
"""Name of what tells whether the step of a minibatch was kept, rather than undone by early stopping."""

_LARGEST_SHARED_MINIBATCH = 8192
"""Samples. Larger ones keep several cores busy by themselves, and those of two crowd the caches."""


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
    sizes = n_minibatches, replicated
    return [fitted for fitted, _ in _fit(_last_epoch, fits, rngs, *sizes)]


def minibatches_of_fit(
    fits: Sequence[Fit],
    rngs: Key[Array, "epochs n_groups"],
    *,
    n_minibatches: int,
    replicated: bool = False,
) -> list[Info]:
    """Reports every minibatch of a `fit`, in whose place this is called.

    Args:
        fits: The networks.
        rngs: As for `fit`.
        n_minibatches: As for `fit`.
        replicated: As for `fit`.

    Returns:
        By network, the numbers of each minibatch of all its epochs, and whether its step was `kept`.
    """
    sizes = n_minibatches, replicated
    reports = [report for _, report in _fit(_every_epoch, fits, rngs, *sizes)]
    return [jax.tree.map(lambda *x: jnp.concatenate(x, axis=None), *report) for report in reports]


Epoch = Callable[[ArrayLike, list[Fitted]], tuple[list[Fitted], list[Info]]]
"""Maps its number and networks to the networks after it, and the numbers of its minibatches."""
Loop = Callable[[list[Fit], range, Epoch, list[Fitted]], tuple[list[Fitted], list[Info]]]
"""Runs epochs: the networks after the last, and what is reported of the minibatches of all."""


def _last_epoch(
    fits: list[Fit], epochs: range, epoch: Epoch, fitted: list[Fitted]
) -> tuple[list[Fitted], list[Info]]:
    after = jax.lax.fori_loop(epochs.start, epochs.stop, lambda *x: epoch(*x)[0], fitted)
    return after, [{} for _ in fits]


def _every_epoch(
    fits: list[Fit], epochs: range, epoch: Epoch, fitted: list[Fitted]
) -> tuple[list[Fitted], list[Info]]:
    def reported(before: list[Fitted], number: Array) -> tuple[list[Fitted], list[Info]]:
        after, infos = epoch(number, before)
        goes_on = [_goes_on(*network) for network in zip(fits, before, strict=True)]
        pairs = zip(infos, goes_on, strict=True)
        return after, [{**x, KEPT: jnp.broadcast_to(kept, x[LOSS].shape)} for x, kept in pairs]

    return jax.lax.scan(reported, fitted, jnp.arange(epochs.start, epochs.stop))


def _fit(
    loop: Loop,
    fits: Sequence[Fit],
    rngs: Key[Array, "epochs n_groups"],
    n_minibatches: int,
    replicated: bool,
) -> list[tuple[Fitted, list[Info]]]:
    """The fitted networks, each with what the loop reports of its epochs."""
    n_devices = 1 if replicated else sharding.n_devices()
    fits = [with_example(fit, n_minibatches) for fit in fits]
    in_parts = parts_of(fits, n_devices) > 1
    fit_together = functools.partial(
        _fit_in_one_loop,
        loop,
        seeds=jax.random.key_data(rngs)[..., :2],
        n_minibatches=n_minibatches,
        n_devices=n_devices,
    )
    if in_parts or fits[0].n_elements // n_minibatches <= _LARGEST_SHARED_MINIBATCH:
        return fit_together(fits)
    return [fit_together([fit])[0] for fit in fits]


def _fit_in_one_loop(
    loop: Loop,
    fits: Sequence[Fit],
    seeds: UInt32[Array, "epochs n_groups 2"],
    n_minibatches: int,
    n_devices: int,
) -> list[tuple[Fitted, list[Info]]]:
    n_samples = fits[0].n_elements // seeds.shape[1]

    def minibatches_of(epoch: Int[Array, ""]) -> Array:
        return ops.minibatch_indices(seeds[epoch], n_samples, n_minibatches)

    fitted = [
        Fitted(fit.training, {name: jnp.zeros((), jnp.float32) for name in fit.example.names})
        for fit in fits
    ]
    reports: list[list[Info]] = [[] for _ in fits]
    first = 0
    for last in sorted({fit.n_epochs for fit in fits}):
        learning = [i for i, fit in enumerate(fits) if fit.n_epochs >= last]
        after, reported = _epochs(
            loop,
            [fits[i] for i in learning],
            [fitted[i] for i in learning],
            minibatches_of,
            range(first, last),
            functools.partial(
                gradients,
                n_parts=parts_of([fits[i] for i in learning], n_devices),
                n_devices=n_devices,
            ),
        )
        for i, network, report in zip(learning, after, reported, strict=True):
            fitted[i] = network
            reports[i].append(report)
        first = last
    return list(zip(fitted, reports, strict=True))


def _epochs(
    loop: Loop,
    fits: list[Fit],
    fitted: list[Fitted],
    minibatches_of: Callable[[Any], Array],
    epochs: range,
    gradients: Callable[..., list[tuple[PyTree, Info]]],
) -> tuple[list[Fitted], list[Info]]:
    """The networks after further epochs, and what the loop reports of these."""

    def minibatch(
        trainings: list[TrainState], indices: Array
    ) -> tuple[list[TrainState], list[Info]]:
        inputs = [fit.inputs for fit in fits]  # in the loop: what they share is gathered once
        data = jax.tree.map(lambda x: in_groups(x, len(indices)), inputs)
        elements = ops.take_minibatch(data, indices)
        samples = [fit.prepare(*taken) for fit, taken in zip(fits, elements, strict=True)]
        found = gradients(fits, trainings, samples)
        steps = zip(trainings, found, strict=True)
        after = [training.apply_gradients(grads=grads) for training, (grads, _) in steps]
        return after, [{**info, GRADIENT_NORM: optax.tree.norm(grads)} for grads, info in found]

    def epoch(number: ArrayLike, before: list[Fitted]) -> tuple[list[Fitted], list[Info]]:
        trainings = [network.training for network in before]
        trainings, infos = jax.lax.scan(minibatch, trainings, minibatches_of(number))
        means = in_32_bits(jax.tree.map(lambda x: x.mean(), infos))
        after = [Fitted(*network) for network in zip(trainings, means, strict=True)]
        networks = zip(fits, before, after, strict=True)
        return [_unless_stopped(*network) for network in networks], infos

    return loop(fits, epochs, epoch, fitted)


def _unless_stopped(fit: Fit, before: Fitted, after: Fitted) -> Fitted:
    return after if fit.kl_threshold is None else select(_goes_on(fit, before), after, before)


def _goes_on(fit: Fit, before: Fitted) -> Bool[Array, ""]:
    """Whether a network makes an epoch after what the one before it showed."""
    if fit.kl_threshold is None:
        return jnp.asarray(True)
    if "kl" not in before.info:
        raise TypeError(
            "A network whose fit stops by a KL divergence needs a loss that reports it, under the name "
            f"'kl': it must report 'kl', but reports {sorted(before.info)}."
        )
    return before.info["kl"] <= fit.kl_threshold


def in_groups(x: Array, n_groups: int) -> Array:
    """From `(time, environments, ...)` to `(groups, samples, ...)`."""
    time, n_envs, *rest = x.shape
    by_group = jnp.moveaxis(x.reshape(time, n_groups, n_envs // n_groups, *rest), 1, 0)
    return by_group.reshape(n_groups, -1, *rest)
