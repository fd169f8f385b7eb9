"""The data that agents carry and return."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, ArrayLike, Float, Key

from jaxagents.core.arrays import is_traced
from jaxagents.core.config import KnownFields
from jaxagents.core.train_state import TrainState

Traced = Any
"""A number or array of numbers, or whatever JAX puts in its place while it transforms a pytree."""


def hyperparameter(default: Any, low: float, high: float = float("inf")) -> Any:
    """A traced hyperparameter with the closed interval of values that it may take."""
    return struct.field(default=default, metadata={"interval": (low, high)})


class Hyperparameters(KnownFields, struct.PyTreeNode):
    """Base of the traced hyperparameters: numbers that are only multiplied, added or compared.

    Every leaf may be an array with a leading axis for `jax.vmap`.
    """

    def check_ranges(self, path: str = "") -> None:
        """Raises if a concrete value lies outside of its interval.

        Raises:
            ValueError: A value is not a number, or out of its interval.
        """
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), f"{path}{field.name}"
            if value is None and field.default is None:
                continue
            if isinstance(value, str):
                raise ValueError(f"{name} must be a number, got {value!r}.")
            if isinstance(value, Hyperparameters):
                value.check_ranges(f"{name}.")
            elif "interval" in field.metadata and not is_traced(value):
                low, high = field.metadata["interval"]
                values = np.asarray(value)
                if values.dtype.kind not in "iuf":
                    raise ValueError(f"{name} must be a number, got {value!r}.")
                if not np.all((values >= low) & (values <= high)):
                    raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {value}.")


class OptimizerParams(Hyperparameters):
    """Parameters of an optimizer.

    Subclass it with further fields (`b1`, `weight_decay`, ...) to have them traced as well.

    Attributes:
        learning_rate: Step size.
        eps: Term added to the denominator of the adaptive optimizers.
        grad_clip: Largest global norm of the gradient; larger ones are scaled down to it.
    """

    learning_rate: Traced = hyperparameter(1e-3, 0.0)
    eps: Traced = hyperparameter(1e-8, 0.0)
    grad_clip: Traced = hyperparameter(10.0, 0.0)


class Transition(NamedTuple):
    """One step of every environment, or a rollout of them with a leading time axis.

    Attributes:
        obs: Observation acted on.
        action: Action taken.
        value: Value of `obs`.
        log_prob: Log-probability of `action`.
        reward: Reward received.
        next_obs: True successor of `obs`, before any reset.
        terminated: Whether `next_obs` is terminal.
        truncated: Whether the episode was cut after this step.
        next_value: Value of `next_obs`.
        advantage: Advantage of `action`.
        target: Return that the critic is fitted to.
    """

    obs: Any
    action: Any
    value: Any
    log_prob: Any
    reward: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    next_value: Any = None
    advantage: Any = None
    target: Any = None


class AdvantageInput(NamedTuple):
    """What `_trajectory_advantages` is given of each time step (arrays over environments).

    Attributes:
        reward: Reward received.
        value: Value of the observation acted on.
        next_value: Value of the true successor, before any reset.
        terminated: Whether the successor is terminal.
        gamma: Discount.
        gae_lambda: Weight of the trace.
    """

    reward: Any
    value: Any
    next_value: Any
    terminated: Any
    gamma: Any
    gae_lambda: Any


class ReturnInput(NamedTuple):
    """What `_trajectory_returns` is given of each time step (arrays over environments).

    Attributes:
        reward: Reward received.
        discount: Discount, zero where the successor is terminal.
        next_value: Value of the true successor, before any reset.
        gae_lambda: Weight of the trace.
    """

    reward: Any
    discount: Any
    next_value: Any
    gae_lambda: Any


class Runner(struct.PyTreeNode):
    """Everything that training carries from one update to the next.

    Attributes:
        actor_training: State of the actor's training.
        critic_training: State of the critic's training.
        envstate: States of the environments, `batch_size` along the first axis.
        obs: Their current observations.
        rng: Random key.
        hyperparams: Hyperparameters.
        update_step: Number of updates made so far.
        info: Scalars that describe the last update (NaN before the first).
    """

    actor_training: TrainState
    critic_training: TrainState
    envstate: Any
    obs: Any
    rng: Key[Array, ""]
    hyperparams: Any
    update_step: Any
    info: dict[str, Any]

    @property
    def actor_loss(self) -> Float[Array, ""]:
        """The actor's loss in the last update."""
        return self.info["actor_loss"]

    @property
    def critic_loss(self) -> Float[Array, ""]:
        """The critic's loss in the last update."""
        return self.info["critic_loss"]


class MetricStats(struct.PyTreeNode):
    """Statistics over the last axis of a metric.

    Attributes:
        episode_metric: The metric itself.
        mean: Mean.
        var: Variance.
        std: Standard deviation.
        min: Smallest value.
        max: Largest value.
        median: Median.
        has_nans: Whether any value is not a number.
    """

    episode_metric: Any
    mean: Any
    var: Any
    std: Any
    min: Any
    max: Any
    median: Any
    has_nans: Any

    @classmethod
    def of(cls, metric: ArrayLike) -> "MetricStats":
        """Summarises a metric over its last axis."""
        metric = jnp.asarray(metric, dtype=float)
        return cls(
            episode_metric=metric,
            mean=metric.mean(axis=-1),
            var=metric.var(axis=-1),
            std=metric.std(axis=-1),
            min=metric.min(axis=-1),
            max=metric.max(axis=-1),
            median=jnp.median(metric, axis=-1),
            has_nans=jnp.isnan(metric).any(axis=-1),
        )


class SweepResult(NamedTuple):
    """What a sweep returns.

    Attributes:
        runners: Final runners, with leading axes `(n_sets, n_seeds)`.
        metrics: Metrics, with leading axes `(n_sets, n_seeds, n_points)`.
        best: Index of the set of hyperparameters with the highest mean return at the last
            evaluation; `None` without evaluation during training.
        best_hyperparams: That set.
    """

    runners: Any
    metrics: dict[str, Array]
    best: int | None
    best_hyperparams: Any
