"""Hyperparameters that change while an agent is trained: data, as the numbers that they give are."""

import abc
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, ArrayLike, Float, PyTree

from jaxagents.core.arrays import is_traced
from jaxagents.core.numbers import Interval

Traced = Any
"""A number or array of numbers, or whatever JAX puts in its place while it transforms a pytree."""

_REAL = Interval(-np.inf, np.inf, infinite=True)
_POSITIVE = Interval(float(np.finfo(np.float32).tiny), np.inf)
_FROM_ONE, _FROM_ZERO = Interval(1.0, np.inf), Interval(0.0, np.inf)


def _steps(interval: Interval) -> Any:
    """A field that counts update steps."""
    return struct.field(metadata={"interval": interval})


class Schedule(struct.PyTreeNode):
    """A hyperparameter as a function of the number of update steps that were made before.

    Its numbers are traced, as hyperparameters are: each may be swept and vmapped. Subclass it for
    another shape, with the numbers as fields.

    Attributes:
        schedule_type: Class of the schedule (static), which tells compiled programs schedules apart.
    """

    schedule_type: "type[Schedule] | None" = struct.field(
        pytree_node=False, default=None, kw_only=True, repr=False
    )

    def __post_init__(self) -> None:
        """Notes the class, which JAX leaves out when it compares the structures of dataclasses."""
        object.__setattr__(self, "schedule_type", type(self))

    @abc.abstractmethod
    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value in an update.

        Args:
            update_step: Number of update steps made before.

        Returns:
            The value.
        """
        raise NotImplementedError

    def check(self, name: str, interval: Interval | None) -> None:
        """Raises if a concrete number is out of its range.

        Args:
            name: Name of the hyperparameter.
            interval: The values that it may take; `None` allows all.

        Raises:
            ValueError: A number is out of its range.
        """
        for path, value, own in self._numbers(name):
            (own or interval or _REAL).check(path, value)

    def check_single(self, name: str) -> None:
        """Raises if a number is an array.

        Args:
            name: Name of the hyperparameter.

        Raises:
            ValueError: It is.
        """
        for path, value, _ in self._numbers(name):
            check_one_number(path, value)

    def _numbers(self, name: str) -> list[tuple[str, Traced, Interval | None]]:
        """The numbers by name; with their own intervals if they are not values of the schedule."""
        return [
            (
                f"{name}.{field.name}{jax.tree_util.keystr(path)}",
                value,
                field.metadata.get("interval"),
            )
            for field in dataclasses.fields(self)
            for path, value in jax.tree_util.tree_leaves_with_path(getattr(self, field.name))
            if field.metadata.get("pytree_node", True)
        ]


class _FromTo(Schedule):
    """A schedule that goes from one value to another, and stays there."""

    initial: Traced
    final: Traced
    n_steps: Traced = _steps(_FROM_ONE)

    def _progress(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The part of the way that is done."""
        return jnp.clip(jnp.asarray(update_step, jnp.float32) / self.n_steps, 0.0, 1.0)

    def _between(self, share: Float[Array, ""]) -> Float[Array, ""]:
        """The value at a share of the way, exact at both ends."""
        return self.initial * (1.0 - share) + self.final * share


class LinearSchedule(_FromTo):
    r"""A straight line, $x_t = x_0 + (x_N - x_0) \min(t / N, 1)$.

    Attributes:
        initial: Value in the first update, $x_0$.
        final: Value after `n_steps` updates, $x_N$, which is then kept.
        n_steps: Number of updates in between, $N$.
    """

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value in an update; see `Schedule`."""
        return self._between(self._progress(update_step))


class CosineSchedule(_FromTo):
    r"""Half a period of a cosine, $x_t = x_N + \frac{1}{2} (x_0 - x_N) (1 + \cos(\pi \min(t / N, 1)))$.

    Loshchilov and Hutter, 2017, "SGDR: stochastic gradient descent with warm restarts", equation 5.

    Attributes:
        initial: Value in the first update, $x_0$.
        final: Value after `n_steps` updates, $x_N$, which is then kept.
        n_steps: Number of updates in between, $N$.
    """

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value in an update; see `Schedule`."""
        return self._between(0.5 * (1.0 - jnp.cos(jnp.pi * self._progress(update_step))))


class ExponentialSchedule(_FromTo):
    r"""A constant factor from update to update, $x_t = x_0 (x_N / x_0)^{\min(t / N, 1)}$.

    Attributes:
        initial: Value in the first update, $x_0$, above 0.
        final: Value after `n_steps` updates, $x_N$, above 0, which is then kept.
        n_steps: Number of updates in between, $N$.
    """

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value in an update; see `Schedule`."""
        progress = self._progress(update_step)
        value = self.initial * (self.final / jnp.asarray(self.initial, jnp.float32)) ** progress
        return jnp.where(progress < 1.0, value, self.final)

    def check(self, name: str, interval: Interval | None) -> None:
        """Raises if a concrete number is out of its range, or not above 0; see `Schedule`."""
        super().check(name, interval)
        for end in ("initial", "final"):
            _POSITIVE.check(f"{name}.{end} of an ExponentialSchedule", getattr(self, end))


class PiecewiseSchedule(Schedule):
    """Values at some updates, with straight lines between them, or with jumps.

    ```python
    warm_up_and_decay = PiecewiseSchedule(
        values=(0.0, 1e-3, 0.0), steps=(0, 100, 5_000)
    )
    ```

    Attributes:
        values: The values. The first also holds before its update, and the last after its own.
        steps: The update steps at which each is reached, in order.
        interpolate: Whether there are lines between them (static), rather than each value being kept
            until the next.
    """

    values: tuple[Traced, ...]
    steps: tuple[Traced, ...] = _steps(_FROM_ZERO)
    interpolate: bool = struct.field(pytree_node=False, default=True)

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value in an update; see `Schedule`."""
        step = jnp.asarray(update_step, jnp.float32)
        value = jnp.asarray(self.values[0], jnp.float32)
        for i in range(1, len(self.values)):
            first, last = self.values[i - 1], self.values[i]
            began, ends = self.steps[i - 1], self.steps[i]
            if self.interpolate:
                share = jnp.clip((step - began) / (ends - began), 0.0, 1.0)
                value = jnp.where(step > began, first * (1.0 - share) + last * share, value)
            else:
                value = jnp.where(step >= ends, last, value)
        return value

    def check(self, name: str, interval: Interval | None) -> None:
        """Raises if a concrete number is out of its range, or steps are out of order; see `Schedule`."""
        sizes = [len(x) if isinstance(x, tuple | list) else 0 for x in (self.values, self.steps)]
        if sizes[0] != sizes[1] or not sizes[0]:
            raise ValueError(
                f"{name} is a PiecewiseSchedule, which takes a tuple of values and one of as many "
                f"steps, got values={self.values} and steps={self.steps}."
            )
        super().check(name, interval)
        if any(map(is_traced, self.steps)):
            return
        for before, after in itertools.pairwise(self.steps):
            if np.any(np.asarray(before) >= np.asarray(after)):
                raise ValueError(f"{name}.steps must rise, got {self.steps}.")


class FunctionSchedule(Schedule):
    """A function of the update step, such as a schedule of optax.

    It is what a function given for a hyperparameter becomes. The function is static: programs are
    compiled again for each other one, checkpoints do not hold it, and only its first value is checked.

    Attributes:
        function: Maps the number of update steps made before to the value.
    """

    function: Callable[[Any], ArrayLike] = struct.field(pytree_node=False)

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value in an update; see `Schedule`."""
        return jnp.asarray(self.function(update_step), jnp.float32)

    def check(self, name: str, interval: Interval | None) -> None:
        """Raises if it is no function in JAX, or its first value is out of range; see `Schedule`."""
        if isinstance(self.function, type) or not callable(self.function):
            raise TypeError(
                f"{name} must be a number, a schedule such as LinearSchedule(1e-3, 0.0, n_steps=200), "
                f"or a function of the update step, got {self.function!r}."
            )
        try:
            jax.eval_shape(self.function, jnp.zeros((), jnp.int32))
        except jax.errors.JAXTypeError as error:
            raise TypeError(
                f"{name} is a function that is not written in JAX: while it is compiled the update "
                "step holds no number yet, so that float(), int(), if, and functions of NumPy fail on "
                "it. Use jax.numpy, jnp.where and the like."
            ) from error
        first = self.function(jnp.zeros((), jnp.int32))
        check_one_number(f"{name} of the first update", first)
        (interval or _REAL).check(f"{name} of the first update", first)


def check_value(name: str, value: Traced, interval: Interval | None) -> None:
    """Raises unless the value of a hyperparameter is a number in an interval, or a schedule of such.

    Raises:
        ValueError: It is something else, or out of range.
    """
    if isinstance(value, Schedule):
        value.check(name, interval)
    elif isinstance(value, list | tuple):
        raise ValueError(
            f"{name} must be a number, or an array of them for a sweep, got {value!r}: give "
            f"jnp.array({list(value)})."
        )
    elif interval is not None:
        interval.check(name, value)


def check_one_number(name: str, value: Traced) -> None:
    """Raises if a value is an array, or a schedule of arrays, where one training takes one number.

    Raises:
        ValueError: It is.
    """
    if isinstance(value, Schedule):
        value.check_single(name)
    elif np.ndim(value):
        raise ValueError(
            f"{name} is an array of shape {np.shape(value)}, but a training takes one number: "
            "for several trainings at once, use agent.sweep or jax.vmap."
        )


def is_schedule(x: object) -> bool:
    """Whether something is a schedule."""
    return isinstance(x, Schedule)


def has_schedules(tree: PyTree) -> bool:
    """Whether there are schedules in a pytree."""
    return any(map(is_schedule, jax.tree.leaves(tree, is_leaf=is_schedule)))


def values_at(tree: PyTree, update_step: ArrayLike) -> PyTree:
    """A pytree with numbers in place of its schedules.

    Args:
        tree: Such as hyperparameters.
        update_step: Number of update steps made before.

    Returns:
        The pytree for the update.
    """
    return jax.tree.map(
        lambda x: x(update_step) if is_schedule(x) else x, tree, is_leaf=is_schedule
    )
