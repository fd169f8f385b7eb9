"""Fitting networks to a rollout in epochs of minibatches."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, Key, PyTree, UInt32

from jaxagents import ops, sharding
from jaxagents.core.arrays import in_32_bits, select
from jaxagents.core.hyperparameters import Traced
from jaxagents.learners.losses import Info
from jaxagents.learners.train_state import TrainState

_LOSS, _GRADIENT_NORM = "loss", "gradient_norm"
OF_EVERY_FIT = (_LOSS, _GRADIENT_NORM)
"""Names of the numbers that every fit reports."""
KEPT = "kept"
"""Name of what tells whether the step of a minibatch was kept, rather than undone by early stopping."""

_LARGEST_SHARED_MINIBATCH = 8192
"""Samples. Larger ones keep several cores busy by themselves, and those of two crowd the caches."""
_SAMPLES_OF_A_PART = 4096
"""Intermediate results of so many, for two networks, fit into the caches of a CPU."""


class Example(NamedTuple):
    """A minibatch and its losses, as shapes.

    Attributes:
        samples: The inputs that the loss is given.
        losses: One loss for each sample, or a single one.
        info: Arrays that describe the samples.
    """

    samples: PyTree
    losses: PyTree
    info: Info

    @property
    def is_per_sample(self) -> bool:
        """Whether there is a loss for each sample, rather than one for the whole minibatch."""
        return self.losses.ndim > 0

    @property
    def names(self) -> list[str]:
        """The names of the numbers that a fitted network comes with."""
        return [*self.info, *OF_EVERY_FIT]


class Fit(NamedTuple):
    """How a network is to be fitted.

    Attributes:
        training: State of its training.
        loss_fn: Maps a state and the inputs of a minibatch to losses, one for each sample or a single
            one for the whole minibatch, and a dict of arrays that describe the samples. The mean of
            the losses is made small, and the means of the arrays are reported.
        inputs: Tuple of pytrees, shaped `(time, environments, ...)`.
        n_epochs: Largest number of epochs.
        kl_threshold: After an epoch with a larger mean `kl`, the network stays as it is; `None` sets no
            limit.
        prepare: Maps the inputs of a whole minibatch to those that `loss_fn` is given, if need be in
            parts.
        example: The [`Example`][jaxagents.learners.fitting.Example] of a minibatch; `None` before it is
            known.
    """

    training: TrainState
    loss_fn: Callable[..., tuple[Array, Info]]
    inputs: tuple[Any, ...]
    n_epochs: int
    kl_threshold: Traced | None = None
    prepare: Callable[..., tuple] = lambda *inputs: inputs
    example: PyTree = None


class Fitted(NamedTuple):
    """A fitted network, with what its last epoch showed.

    Attributes:
        training: State of its training.
        info: Means over the minibatches: the `loss`, the `gradient_norm`, and what the loss reports.
    """

    training: TrainState
    info: Info


def with_example(fit: Fit, n_minibatches: int) -> Fit:
    """A fit with the shapes of a minibatch, for which its loss is traced if they are not known yet.

    Args:
        fit: How a network is to be fitted.
        n_minibatches: Number of minibatches of each epoch.

    Returns:
        The fit.
    """
    size = _n_elements(fit) // n_minibatches

    def of_minibatch(training: TrainState, inputs: PyTree) -> Example:
        elements = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], inputs)
        samples = fit.prepare(*elements)
        return Example(samples, *fit.loss_fn(training, *samples))

    if fit.example is not None:
        return fit
    return fit._replace(example=jax.eval_shape(of_minibatch, fit.training, fit.inputs))


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
        return after, [{**x, KEPT: jnp.broadcast_to(kept, x[_LOSS].shape)} for x, kept in pairs]

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
    in_parts = _n_parts(fits, n_devices) > 1
    fit_together = functools.partial(
        _fit_in_one_loop,
        loop,
        seeds=jax.random.key_data(rngs)[..., :2],
        n_minibatches=n_minibatches,
        n_devices=n_devices,
    )
    if in_parts or _n_elements(fits[0]) // n_minibatches <= _LARGEST_SHARED_MINIBATCH:
        return fit_together(fits)
    return [fit_together([fit])[0] for fit in fits]


def fewest_parts(n_samples: int) -> int:
    """The fewest parts in which networks compute with samples, to be fast on the default backend."""
    return math.ceil(n_samples / _SAMPLES_OF_A_PART) if jax.default_backend() == "cpu" else 1


def _n_elements(fit: Fit) -> int:
    time, n_envs, *_ = jax.tree.leaves(fit.inputs)[0].shape
    return time * n_envs


def _fit_in_one_loop(
    loop: Loop,
    fits: Sequence[Fit],
    seeds: UInt32[Array, "epochs n_groups 2"],
    n_minibatches: int,
    n_devices: int,
) -> list[tuple[Fitted, list[Info]]]:
    n_samples = _n_elements(fits[0]) // seeds.shape[1]

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
                _gradients,
                n_parts=_n_parts([fits[i] for i in learning], n_devices),
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
    gradients: Callable[..., list[tuple[Any, Info]]],
) -> tuple[list[Fitted], list[Info]]:
    """The networks after further epochs, and what the loop reports of these."""

    def minibatch(trainings: list[TrainState], indices: Array) -> tuple[list[TrainState], Any]:
        inputs = [fit.inputs for fit in fits]  # in the loop: what they share is gathered once
        data = jax.tree.map(lambda x: in_groups(x, len(indices)), inputs)
        elements = ops.take_minibatch(data, indices)
        samples = [fit.prepare(*taken) for fit, taken in zip(fits, elements, strict=True)]
        found = gradients(fits, trainings, samples)
        steps = zip(trainings, found, strict=True)
        after = [training.apply_gradients(grads=grads) for training, (grads, _) in steps]
        return after, [{**info, _GRADIENT_NORM: optax.tree.norm(grads)} for grads, info in found]

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


def _gradients(
    fits: list[Fit], trainings: list[TrainState], samples: list[Any], n_parts: int, n_devices: int
) -> list[tuple[Any, Info]]:
    """The gradient of each loss, with what describes it."""

    def of_part(samples: list[Any]) -> list[tuple[Any, Info]]:
        return [_gradient(*of_fit) for of_fit in zip(fits, trainings, samples, strict=True)]

    def mean_of_parts(samples: list[Any]) -> list[tuple[Any, Info]]:
        parts = jax.tree.map(lambda x: x.reshape(n_parts, -1, *x.shape[1:]), samples)
        zeros = jax.eval_shape(of_part, jax.tree.map(lambda x: x[0], parts))
        total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, zeros), parts)
        return jax.tree.map(lambda x: x / n_parts, total)

    def add(total: PyTree, part: list[Any]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, of_part(part)), None

    if n_parts == 1:
        return of_part(samples)
    if n_devices == 1:
        return mean_of_parts(samples)
    return sharding.mean_over_devices(mean_of_parts, samples)


def _gradient(fit: Fit, training: TrainState, samples: PyTree) -> tuple[Any, Info]:
    def mean_loss(params: PyTree) -> tuple[Array, Info]:
        losses, info = fit.loss_fn(training.replace(params=params), *samples)
        means = jax.tree.map(jnp.mean, {**info, _LOSS: losses})
        return means[_LOSS], means

    grads, info = jax.grad(mean_loss, has_aux=True)(training.params)
    return grads, info


def _n_parts(fits: Sequence[Fit], n_devices: int) -> int:
    """Number of equal parts in which a device computes the gradients of minibatches."""
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


def in_groups(x: Array, n_groups: int) -> Array:
    """From `(time, environments, ...)` to `(groups, samples, ...)`."""
    time, n_envs, *rest = x.shape
    by_group = jnp.moveaxis(x.reshape(time, n_groups, n_envs // n_groups, *rest), 1, 0)
    return by_group.reshape(n_groups, -1, *rest)
