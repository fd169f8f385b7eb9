"""Descriptions of how networks are fitted, and of what came of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, PyTree

from jaxagents.core.hyperparameters import Traced
from jaxagents.learners.losses import Info
from jaxagents.learners.train_state import TrainState

LOSS, GRADIENT_NORM = "loss", "gradient_norm"
OF_EVERY_FIT = (LOSS, GRADIENT_NORM)
"""Names of the numbers that every fit reports."""


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


def with_example(fit: Fit, n_minibatches: int) -> Fit:
    """A fit with the shapes of a minibatch, for which its loss is traced if they are not known yet.

    Args:
        fit: How a network is to be fitted.
        n_minibatches: Number of minibatches of each epoch.

    Returns:
        The fit.
    """
    size = fit.n_elements // n_minibatches

    def of_minibatch(training: TrainState, inputs: PyTree) -> Example:
        elements = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], inputs)
        samples = fit.prepare(*elements)
        return Example(samples, *fit.loss_fn(training, *samples))

    if fit.example is not None:
        return fit
    return fit._replace(example=jax.eval_shape(of_minibatch, fit.training, fit.inputs))
