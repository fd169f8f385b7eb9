"""Fitting networks to a rollout in epochs of minibatches."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from jaxagents import ops, sharding
from jaxagents.core.arrays import in_32_bits, in_single_precision, select
from jaxagents.core.hyperparameters import Traced
from jaxagents.learners.fits import GRADIENT_NORM, LOSS, Fit, Fitted, Share, with_examples
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
    share: Share | None = None,
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
        share: What the networks have in common, which then stop together; `None` for nothing.

    Returns:
        The fitted networks.
    """
    how = n_minibatches, replicated, share
    return [fitted for fitted, _ in _fit(_last_epoch, fits, rngs, *how)]


def minibatches_of_fit(
    fits: Sequence[Fit],
    rngs: Key[Array, "epochs n_groups"],
    *,
    n_minibatches: int,
    replicated: bool = False,
    share: Share | None = None,
) -> list[Info]:
    """Reports every minibatch of a `fit`, in whose place this is called.

    Args:
        fits: The networks.
        rngs: As for `fit`.
        n_minibatches: As for `fit`.
        replicated: As for `fit`.
        share: As for `fit`.

    Returns:
        By network, the numbers of each minibatch of all its epochs, and whether its step was `kept`.
    """
    how = n_minibatches, replicated, share
    reports = [report for _, report in _fit(_every_epoch, fits, rngs, *how)]
    return [jax.tree.map(lambda *x: jnp.concatenate(x, axis=None), *report) for report in reports]


Epoch = Callable[[ArrayLike, list[Fitted]], tuple[list[Fitted], list[Info]]]
"""Maps its number and networks to the networks after it, and the numbers of its minibatches."""
GoingOn = Callable[[list[Fitted]], list[Bool[Array, ""] | None]]
"""Says which networks make an epoch by what the one before showed; `None` for those that always do."""
Loop = Callable[[range, Epoch, GoingOn, list[Fitted]], tuple[list[Fitted], list[Info]]]
"""Runs epochs: the networks after the last, and what is reported of the minibatches of all."""


def _last_epoch(
    epochs: range, epoch: Epoch, going_on: GoingOn, fitted: list[Fitted]
) -> tuple[list[Fitted], list[Info]]:
    after = jax.lax.fori_loop(epochs.start, epochs.stop, lambda *x: epoch(*x)[0], fitted)
    return after, [{} for _ in fitted]


def _every_epoch(
    epochs: range, epoch: Epoch, going_on: GoingOn, fitted: list[Fitted]
) -> tuple[list[Fitted], list[Info]]:
    def reported(before: list[Fitted], number: Array) -> tuple[list[Fitted], list[Info]]:
        after, infos = epoch(number, before)
        kept = [jnp.asarray(True) if x is None else x for x in going_on(before)]
        pairs = zip(infos, kept, strict=True)
        return after, [{**x, KEPT: jnp.broadcast_to(kept, x[LOSS].shape)} for x, kept in pairs]

    return jax.lax.scan(reported, fitted, jnp.arange(epochs.start, epochs.stop))


def _fit(
    loop: Loop,
    fits: Sequence[Fit],
    rngs: Key[Array, "epochs n_groups"],
    n_minibatches: int,
    replicated: bool,
    share: Share | None,
) -> list[tuple[Fitted, list[Info]]]:
    """The fitted networks, each with what the loop reports of its epochs."""
    n_devices = 1 if replicated else sharding.n_devices()
    fits = with_examples(fits, n_minibatches, share)
    in_parts = parts_of(fits, n_devices) > 1
    fit_together = functools.partial(
        _fit_in_one_loop,
        loop,
        seeds=jax.random.key_data(rngs)[..., :2],
        n_minibatches=n_minibatches,
        n_devices=n_devices,
        share=share,
    )
    is_small = fits[0].n_elements // n_minibatches <= _LARGEST_SHARED_MINIBATCH
    if share is not None or in_parts or is_small:
        return fit_together(fits)
    return [fit_together([fit])[0] for fit in fits]


def _fit_in_one_loop(
    loop: Loop,
    fits: Sequence[Fit],
    seeds: UInt32[Array, "epochs n_groups 2"],
    n_minibatches: int,
    n_devices: int,
    share: Share | None,
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
                share=share,
            ),
            functools.partial(_going_on, [fits[i] for i in learning], share),
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
    going_on: GoingOn,
) -> tuple[list[Fitted], list[Info]]:
    """The networks after further epochs, and what the loop reports of these."""

    def minibatch(
        trainings: list[TrainState], indices: Array
    ) -> tuple[list[TrainState], Float[Array, "numbers"]]:
        inputs = [fit.inputs for fit in fits]  # in the loop: what they share is gathered once
        data = jax.tree.map(lambda x: in_groups(x, len(indices)), inputs)
        elements = ops.take_minibatch(data, indices)
        samples = [fit.prepare(*taken) for fit, taken in zip(fits, elements, strict=True)]
        found = gradients(fits, trainings, samples)
        steps = zip(trainings, found, strict=True)
        after = [
            training.apply_gradients(grads=grads, value=info[LOSS])
            for training, (grads, info) in steps
        ]
        return after, jnp.stack(jax.tree.leaves([_with_norm(*of_network) for of_network in found]))

    def epoch(number: ArrayLike, before: list[Fitted]) -> tuple[list[Fitted], list[Info]]:
        trainings = [network.training for network in before]
        trainings, numbers = jax.lax.scan(minibatch, trainings, minibatches_of(number))
        named = functools.partial(jax.tree.unflatten, jax.tree.structure([x.info for x in before]))
        infos, means = named(list(numbers.T)), named(list(in_32_bits(numbers.mean(axis=0))))
        after = [Fitted(*network) for network in zip(trainings, means, strict=True)]
        networks = zip(going_on(before), before, after, strict=True)
        return [_unless_stopped(*network) for network in networks], infos

    return loop(epochs, epoch, going_on, fitted)


def _with_norm(grads: PyTree, info: Info) -> Info:
    return {**info, GRADIENT_NORM: optax.tree.norm(in_single_precision(grads))}


def _unless_stopped(goes_on: Bool[Array, ""] | None, before: Fitted, after: Fitted) -> Fitted:
    return after if goes_on is None else select(goes_on, after, before)


def _going_on(
    fits: list[Fit], share: Share | None, before: list[Fitted]
) -> list[Bool[Array, ""] | None]:
    """See `GoingOn`; networks that have something in common stop together."""
    networks = zip(fits, before, strict=True)
    each = [_goes_on(fit.kl_threshold, fitted.info) for fit, fitted in networks]
    limited = [x for x in each if x is not None]
    if share is None or not limited:
        return each
    return [functools.reduce(jnp.logical_and, limited)] * len(each)


def _goes_on(kl_threshold: Traced | None, before: Info) -> Bool[Array, ""] | None:
    """Whether a network makes an epoch after what the one before it showed, `None` without a limit."""
    if kl_threshold is None:
        return None
    if "kl" not in before:
        raise TypeError(
            "A network whose fit stops by a KL divergence needs a loss that reports it, under the name "
            f"'kl': it must report 'kl', but reports {sorted(before)}."
        )
    return before["kl"] <= kl_threshold


def in_groups(x: Array, n_groups: int) -> Array:
    """From `(time, environments, ...)` to `(groups, samples, ...)`."""
    time, n_envs, *rest = x.shape
    by_group = jnp.moveaxis(x.reshape(time, n_groups, n_envs // n_groups, *rest), 1, 0)
    return by_group.reshape(n_groups, -1, *rest)
