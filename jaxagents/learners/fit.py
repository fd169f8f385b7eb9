"""Fitting networks to a rollout in epochs of minibatches."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, PyTree, UInt32

from jaxagents import ops, sharding
from jaxagents.core.arrays import in_32_bits, in_single_precision, select
from jaxagents.core.hyperparameters import Traced
from jaxagents.learners.train_state import Info, TrainState

LOSS, GRADIENT_NORM = "loss", "gradient_norm"
OF_EVERY_FIT = (LOSS, GRADIENT_NORM)
"""Names of the metrics that every fit reports."""

_SAMPLES_OF_A_PART = 4096
"""The activations of this many samples, for two networks, fit into a CPU's caches."""

Share = Callable[[list[TrainState], list[PyTree]], tuple[list[TrainState], list[PyTree]]]
"""Maps train states and the inputs of their losses to replacements of both; gradients flow through
it."""


class Fit(NamedTuple):
    """How to fit a network.

    Attributes:
        training: Train state of the network.
        loss_fn: Maps a train state and the inputs of a minibatch to losses, one per sample or one for
            the whole minibatch, and a dict of arrays that describe the samples. The mean loss is
            minimised, and the means of the arrays are reported.
        inputs: Tuple of pytrees, shaped `(time, environments, ...)`.
        n_epochs: Maximum number of epochs.
        kl_threshold: After an epoch with a larger mean `kl`, the network stops learning; `None` for no
            limit.
        prepare: Maps whether there is one loss per sample, and the inputs of a whole minibatch, to the
            inputs of `loss_fn`, which may receive them in parts.
        name: Name of the loss, for messages.
        in_one_array: Whether the optimizer may receive all parameters in one array.
        params_of: Maps the train state's parameters to the network's.
    """

    training: TrainState
    loss_fn: Callable[..., tuple[Array, Info]]
    inputs: tuple[Any, ...]
    n_epochs: int
    kl_threshold: Traced | None = None
    prepare: Callable[..., tuple] = lambda for_each_sample, *inputs: inputs
    name: str = "The loss of a fit"
    in_one_array: bool = False
    params_of: Callable[[PyTree], PyTree] = lambda params: params


class Fitted(NamedTuple):
    """A fitted network, with the metrics of its last epoch.

    Attributes:
        training: Train state of the network.
        info: Means over the minibatches of `loss`, `gradient_norm` and the metrics of the loss.
    """

    training: TrainState
    info: Info


def fit(
    fits: Sequence[Fit],
    rngs: Key[Array, "epochs n_groups"],
    *,
    n_minibatches: int,
    replicated: bool = False,
    share: Share | None = None,
) -> list[Fitted]:
    """Fits networks to a rollout, with one gradient step per minibatch and epoch.

    All networks learn from the same minibatches in one loop, which keeps several CPU cores busy.
    Networks with fewer epochs stop earlier.

    Args:
        fits: The networks.
        rngs: Random keys for the largest number of epochs, and for the groups of environments within
            which samples are shuffled.
        n_minibatches: Number of minibatches per epoch.
        replicated: Whether each device of a mesh learns from all samples.
        share: The part that the networks share; they then stop together. `None` for nothing.

    Returns:
        The fitted networks.

    Raises:
        TypeError: A network has a `kl_threshold`, but its loss does not report `kl`.
    """
    n_devices = 1 if replicated else sharding.n_devices()
    n_steps, n_envs, *_ = jax.tree.leaves(fits[0].inputs)[0].shape
    size = n_steps * n_envs // n_minibatches

    def example(trainings: list[TrainState], inputs: list[PyTree]) -> tuple[list, list]:
        elements = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], inputs)
        samples = [fit.prepare(False, *taken) for fit, taken in zip(fits, elements, strict=True)]
        return samples, _losses(fits, trainings, samples, share)

    as_given, fits = fits, [*map(_in_one_array, fits)]
    trainings, inputs = [fit.training for fit in as_given], [fit.inputs for fit in fits]
    samples, outputs = jax.eval_shape(example, trainings, inputs)
    prepared, fitted = [], []
    for fit, (losses, info) in zip(fits, outputs, strict=True):
        if fit.kl_threshold is not None and "kl" not in info:
            raise TypeError(
                f"{fit.name} must report 'kl', since a threshold on it stops the epochs, but "
                f"reports {sorted(info)}: add the entry 'kl': ops.approximate_kl(log_prob, "
                "log_prob_old), or set no threshold, for instance with a _kl_threshold that "
                "returns None."
            )
        zero = jnp.zeros((), jnp.float32)
        fitted.append(Fitted(fit.training, dict.fromkeys((*info, *OF_EVERY_FIT), zero)))
        prepared.append(fit._replace(prepare=functools.partial(fit.prepare, losses.ndim > 0)))
    seeds, first = jax.random.key_data(rngs)[..., :2], 0
    for last in sorted({fit.n_epochs for fit in fits}):
        learning = [i for i, fit in enumerate(fits) if fit.n_epochs >= last]
        of_these = [samples[i] for i in learning], [outputs[i] for i in learning]
        sizes = n_minibatches, _n_parts(*of_these, n_devices), n_devices
        epoch = functools.partial(_epoch, [prepared[i] for i in learning], seeds, *sizes, share)
        after = jax.lax.fori_loop(first, last, epoch, [fitted[i] for i in learning])
        for i, network in zip(learning, after, strict=True):
            fitted[i] = network
        first = last
    networks = zip(as_given, fits, fitted, strict=True)
    return [
        Fitted(_as_before(before, flat, after.training), after.info)
        for before, flat, after in networks
    ]


def _in_one_array(fit: Fit) -> Fit:
    """Flattens all parameters into one array for the optimizer, if allowed and worthwhile.

    On an accelerator, the time of an optimizer step depends more on the number of small arrays than on
    their size. On CPU, concatenating them would cost more than it saves.
    """
    params, opt_state = fit.training.params, fit.training.opt_state
    leaves = jax.tree.leaves(params)
    may = fit.in_one_array and jax.default_backend() != "cpu"
    if not may or len(leaves) < 2 or len({x.dtype for x in leaves}) > 1:
        return fit
    flat, params_of = ravel_pytree(params)
    opt_state = _map_params(lambda moments: ravel_pytree(moments)[0], params, opt_state)
    training = fit.training.replace(params=flat, opt_state=opt_state)
    return fit._replace(training=training, params_of=params_of)


def _as_before(given: Fit, fit: Fit, training: TrainState) -> TrainState:
    """Undoes `_in_one_array`."""
    if fit is given:
        return training
    params, opt_state = given.training.params, given.training.opt_state
    opt_state = _map_params(
        lambda tree, flat: ravel_pytree(tree)[1](flat), params, opt_state, training.opt_state
    )
    return training.replace(params=fit.params_of(training.params), opt_state=opt_state)


def _map_params(function: Callable[..., PyTree], params: PyTree, *opt_states: PyTree) -> PyTree:
    """Maps the parts of optimizer states that are structured like the parameters, such as moments.

    All other parts are taken from the last state.
    """
    structure = jax.tree.structure(params)

    def is_like_params(x: PyTree) -> bool:
        return jax.tree.structure(x) == structure

    def map_one(*x: PyTree) -> PyTree:
        return function(*x) if is_like_params(x[0]) else x[-1]

    return jax.tree.map(map_one, *opt_states, is_leaf=is_like_params)


def _epoch(
    fits: list[Fit],
    seeds: UInt32[Array, "epochs n_groups 2"],
    n_minibatches: int,
    n_parts: int,
    n_devices: int,
    share: Share | None,
    number: ArrayLike,
    before: list[Fitted],
) -> list[Fitted]:
    """Trains the networks for one epoch, except those beyond their KL threshold."""
    n_groups = seeds.shape[1]

    def gradient_step(
        trainings: list[TrainState], indices: Int[Array, "n_groups samples"]
    ) -> tuple[list[TrainState], Float[Array, "numbers"]]:
        inputs = [fit.inputs for fit in fits]  # inside the loop, shared inputs are gathered once
        data = jax.tree.map(functools.partial(in_groups, n_groups=n_groups), inputs)
        elements = ops.take_minibatch(data, indices)
        samples = [fit.prepare(*taken) for fit, taken in zip(fits, elements, strict=True)]
        found = gradients(fits, trainings, samples, n_parts, n_devices, share)
        after, infos = [], []
        for training, (grads, info) in zip(trainings, found, strict=True):
            after.append(training.apply_gradients(grads=grads, value=info[LOSS]))
            norm = optax.tree.norm(in_single_precision(grads))
            infos.append({**info, GRADIENT_NORM: norm})
        return after, jnp.stack(jax.tree.leaves(infos))

    n_steps, n_envs, *_ = jax.tree.leaves(fits[0].inputs)[0].shape
    minibatches = ops.minibatch_indices(seeds[number], n_steps * n_envs // n_groups, n_minibatches)
    trainings, numbers = jax.lax.scan(gradient_step, [x.training for x in before], minibatches)
    means = list(in_32_bits(numbers.mean(axis=0)))
    infos = jax.tree.unflatten(jax.tree.structure([x.info for x in before]), means)
    after = [Fitted(*network) for network in zip(trainings, infos, strict=True)]
    goes_on: dict[int, Any] = {
        i: before[i].info["kl"] <= fit.kl_threshold
        for i, fit in enumerate(fits)
        if fit.kl_threshold is not None
    }
    if share is not None and goes_on:
        goes_on = dict.fromkeys(
            range(len(fits)), functools.reduce(jnp.logical_and, goes_on.values())
        )
    for i, goes in goes_on.items():
        after[i] = select(goes, after[i], before[i])
    return after


def gradients(
    fits: Sequence[Fit],
    trainings: list[TrainState],
    samples: list[PyTree],
    n_parts: int,
    n_devices: int,
    share: Share | None = None,
) -> list[tuple[PyTree, Info]]:
    """Computes the gradients and metrics of each network's mean loss.

    Args:
        fits: How the networks are fitted.
        trainings: Train states of the networks.
        samples: Inputs of the losses.
        n_parts: Number of equal parts that a device processes one by one, so that they fit into caches.
        n_devices: Number of devices that share the samples.
        share: The part that the networks share; `None` for nothing.

    Returns:
        Gradients and metrics of each network.
    """

    def total_loss(params: list[PyTree], samples: list[PyTree]) -> tuple[Array, list[Info]]:
        networks = zip(fits, trainings, params, strict=True)
        states = [training.replace(params=fit.params_of(own)) for fit, training, own in networks]
        outputs = _losses(fits, states, samples, share)
        means = [jax.tree.map(jnp.mean, {**info, LOSS: losses}) for losses, info in outputs]
        return functools.reduce(jnp.add, [info[LOSS] for info in means]), means

    def of_part(samples: list[PyTree]) -> list[tuple[PyTree, Info]]:
        params = [training.params for training in trainings]
        return list(zip(*jax.grad(total_loss, has_aux=True)(params, samples), strict=True))

    def mean_of_parts(samples: list[PyTree]) -> list[tuple[PyTree, Info]]:
        parts = jax.tree.map(lambda x: x.reshape(n_parts, -1, *x.shape[1:]), samples)
        zeros = jax.eval_shape(of_part, jax.tree.map(lambda x: x[0], parts))
        total, _ = jax.lax.scan(
            lambda total, part: (jax.tree.map(jnp.add, total, of_part(part)), None),
            jax.tree.map(jnp.zeros_like, zeros),
            parts,
        )
        return jax.tree.map(lambda x: x / n_parts, total)

    if n_parts == 1:
        return of_part(samples)
    if n_devices == 1:
        return mean_of_parts(samples)
    return sharding.mean_over_devices(mean_of_parts, samples)


def _losses(
    fits: Sequence[Fit], trainings: list[TrainState], samples: list[PyTree], share: Share | None
) -> list[tuple[Array, Info]]:
    if share is not None:
        trainings, samples = share(trainings, samples)
    networks = zip(fits, trainings, samples, strict=True)
    return [fit.loss_fn(training, *inputs) for fit, training, inputs in networks]


def _n_parts(samples: list[PyTree], outputs: list[PyTree], n_devices: int) -> int:
    """Number of equal parts in which a device computes the gradients of a minibatch.

    Parts are at least about half the allowed size. Losses of whole minibatches are not split.

    Args:
        samples: Shapes of the losses' inputs.
        outputs: Shapes of the losses and metrics.
        n_devices: Number of devices that share the samples.

    Returns:
        The number.
    """
    sizes = set(map(len, jax.tree.leaves(samples)))
    if len(sizes) > 1 or not all(losses.ndim for losses, _ in outputs):
        return 1
    size = sizes.pop() // n_devices
    fewest = fewest_parts(size)
    return next((n for n in range(fewest, 2 * fewest) if size % n == 0), 1)


def fewest_parts(n_samples: int) -> int:
    """The smallest number of parts for fast computation on the default backend."""
    return math.ceil(n_samples / _SAMPLES_OF_A_PART) if jax.default_backend() == "cpu" else 1


def in_groups(x: Array, n_groups: int) -> Array:
    """Reshapes `(time, environments, ...)` to `(groups, samples, ...)`."""
    time, n_envs, *rest = x.shape
    by_group = jnp.moveaxis(x.reshape(time, n_groups, n_envs // n_groups, *rest), 1, 0)
    return by_group.reshape(n_groups, -1, *rest)
