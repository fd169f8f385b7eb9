"""Losses that are means over samples."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple


class Mean(NamedTuple):
    """A loss that is a mean over samples.

    Attributes:
        of: Maps what there is of a whole minibatch to what the loss is given.
        loss: The loss.
    """

    of: Callable[..., tuple]
    loss: Callable


def mean_over_samples(
    loss: Callable | None = None, /, *, of: Callable[..., tuple] = lambda *samples: samples
) -> Any:
    """Marks a loss as a mean over samples, so that those of a large minibatch can come in parts.

    A CPU is faster with parts that fit into its caches. A loss that is not marked is given its
    minibatches whole.

    ```python
    class Huber(PPO):
        @mean_over_samples
        def _critic_loss(self, training, obs, targets, hyperparams):
            value = jax.vmap(lambda o: self._value(training, training.params, o))(obs)
            return optax.losses.huber_loss(value, targets).mean()
    ```

    Args:
        loss: The loss, a method `(training, *samples, hyperparams)`.
        of: Maps what the loss is given of a whole minibatch to what it is a mean of: arrays with as many
            samples. What it needs of all of them, as to standardise, is done here.

    Returns:
        The marked loss, which is called as before; without `loss`, the decorator.
    """
    if loss is None:
        return functools.partial(mean_over_samples, of=of)

    @functools.wraps(loss)
    def of_minibatch(self: Any, training: Any, *inputs: Any) -> Any:
        *samples, hyperparams = inputs
        return loss(self, training, *of(*samples), hyperparams)

    of_minibatch.mean = Mean(of, loss)  # pyright: ignore[reportAttributeAccessIssue]
    return of_minibatch


def as_mean(loss: Any) -> Mean | None:
    """What a marked loss consists of, `None` of another."""
    return getattr(loss, "mean", None)
