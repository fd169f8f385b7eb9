"""Descriptions of how networks are fitted, and of what came of it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, PyTree

from jaxagents.core.hyperparameters import Traced
from jaxagents.learners.losses import Info
from jaxagents.learners.train_state import TrainState

LOSS, GRADIENT_NORM = "loss", "gradient_norm"
OF_EVERY_FIT = (LOSS, GRADIENT_NORM)
"""Names of the numbers that every fit reports."""


Share = Callable[[list[TrainState], list[PyTree]], tuple[list[TrainState], list[PyTree]]]
"""Maps the states of networks, and the inputs of their losses, to what these are given instead; they
are differentiated through it."""


class Example(NamedTuple):
    """A minibatch and its losses, as shapes.

    Attributes:
        samples: The inputs of the loss.
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
        example: The [`Example`][jaxagents.learners.fits.Example] of a minibatch; `None` before it is
            known.
    """

    training: TrainState
    loss_fn: Callable[..., tuple[Array, Info]]
    inputs: tuple[Any, ...]
    n_epochs: int
    kl_threshold: Traced | None = None
    prepare: Callable[..., tuple] = lambda *inputs: inputs
    example: PyTree = None

    @property
    def n_elements(self) -> int:
        """Number of steps in all environments."""
        time, n_envs, *_ = jax.tree.leaves(self.inputs)[0].shape
        return time * n_envs


class Fitted(NamedTuple):
    """A fitted network, with what its last epoch showed.

    Attributes:
        training: State of its training.
        info: Means over the minibatches: the `loss`, the `gradient_norm`, and what the loss reports.
    """

    training: TrainState
    info: Info


def with_examples(fits: Sequence[Fit], n_minibatches: int, share: Share | None = None) -> list[Fit]:
    """Fits with the shapes of a minibatch, for which losses are traced if they are not known yet.

    Args:
        fits: How networks are to be fitted.
        n_minibatches: Number of minibatches of each epoch.
        share: What the networks have in common; `None` for nothing.

    Returns:
        The fits.
    """
    if all(fit.example is not None for fit in fits):
        return list(fits)
    size = fits[0].n_elements // n_minibatches

    def of_minibatch(trainings: list[TrainState], inputs: list[PyTree]) -> list[Example]:
        elements = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], inputs)
        samples = [fit.prepare(*of_fit) for fit, of_fit in zip(fits, elements, strict=True)]
        given = inputs_of_losses(trainings, samples, share)
        outputs = [fit.loss_fn(*of_fit) for fit, of_fit in zip(fits, given, strict=True)]
        return [
            Example(*of_fit) for of_fit in zip(samples, *zip(*outputs, strict=True), strict=True)
        ]

    trainings, inputs = [fit.training for fit in fits], [fit.inputs for fit in fits]
    examples = jax.eval_shape(of_minibatch, trainings, inputs)
    return [fit._replace(example=x) for fit, x in zip(fits, examples, strict=True)]


def inputs_of_losses(
    trainings: list[TrainState], samples: list[PyTree], share: Share | None
) -> list[tuple[Any, ...]]:
    """The arguments of the loss of each network.

    Args:
        trainings: The states of their trainings.
        samples: The inputs of their losses.
        share: What the networks have in common; `None` for nothing.

    Returns:
        By network, its state and inputs, as the loss is given them.
    """
    if share is not None:
        trainings, samples = share(trainings, samples)
    return [(training, *inputs) for training, inputs in zip(trainings, samples, strict=True)]
