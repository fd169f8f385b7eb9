"""Hyperparameters: numbers that are only multiplied, added or compared, and schedules of them."""

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, ArrayLike, Float, PyTree

from jaxagents.core.arrays import is_traced, written_in_jax
from jaxagents.core.names import advice, did_you_mean, missing_attribute, refuse_assignment

Traced = Any
"""A number or array of numbers, or a placeholder that JAX puts into pytrees while it transforms them."""


def check_arguments(cls: type, arguments: Iterable[str]) -> None:
    """Rejects misspelt arguments of a dataclass, and defaults without a type.

    Its constructor would ignore the latter.

    Args:
        cls: A dataclass, or a class that inherits from one.
        arguments: The names of its constructor's arguments.

    Raises:
        TypeError: There is one.
    """
    known = []
    for field in dataclasses.fields(cls):
        default, value = field.default, getattr(cls, field.name, None)
        if value is not default is not dataclasses.MISSING and repr(value) != repr(default):
            raise TypeError(
                f"{cls.__name__}.{field.name} = {value!r} is not a field, so the default would "
                f"stay {default!r}: add its type, as in '{field.name}: int = ...'. A "
                "configuration class also needs @dataclasses.dataclass(frozen=True, "
                "kw_only=True, eq=False)."
            )
        known += [field.name] * field.init
    check_known_fields(cls, arguments, known)


def field_names(dataclass: Any) -> list[str]:
    """The names of the fields that a dataclass's constructor takes."""
    return [field.name for field in dataclasses.fields(dataclass) if field.init]


def check_known_fields(owner: type, names: Iterable[str], known: Sequence[str]) -> None:
    """Rejects misspelt names, and suggests the nearest field.

    Args:
        owner: The class that should have these fields.
        names: The given names.
        known: The names of its fields.

    Raises:
        TypeError: A name is unknown.
    """
    for name in names:
        if name not in known:
            hint = advice(name, known, owner) or did_you_mean(name, known)
            fields = f"Its fields are: {', '.join(known)}."
            told = [f"{owner.__name__} has no field '{name}'.", hint, fields]
            raise TypeError(" ".join(filter(None, told)))


@dataclasses.dataclass(frozen=True)
class Interval:
    """The values that a hyperparameter may take.

    Attributes:
        low: Smallest value.
        high: Largest value.
        infinite: Whether a value may be infinite.
    """

    low: float
    high: float
    infinite: bool = False

    def check(self, name: str, given: Any) -> None:
        """Raises if a concrete value is not in the interval.

        Args:
            name: Name of the value.
            given: A number, or an array of them.

        Raises:
            ValueError: A value is not a number, or not in the interval.
        """
        if is_traced(given):
            return
        values = np.asarray(given)
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be a number, got {values}.")
        inside = (values >= self.low) & (values <= self.high)
        if not np.all(inside & (self.infinite | np.isfinite(values))):
            raise ValueError(f"{name} must lie in {self}, got {values}.")

    def __str__(self) -> str:
        left = "[" if self.infinite or math.isfinite(self.low) else "("
        right = "]" if self.infinite or math.isfinite(self.high) else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"


def hyperparameter(
    default: Any,
    low: float,
    high: float = float("inf"),
    *,
    infinite: bool = False,
    kw_only: bool = False,
    constant: bool = False,
) -> Any:
    """A field for a traced hyperparameter, with its valid range.

    Args:
        default: The default.
        low: Smallest value.
        high: Largest value.
        infinite: Whether the value may be infinite, as for a limit.
        kw_only: Whether it is keyword-only.
        constant: Whether it must stay the same throughout a run, and so cannot be a schedule.

    Returns:
        The field.
    """
    metadata = {"interval": Interval(low, high, infinite), "constant": constant}
    return struct.field(default=default, metadata=metadata, kw_only=kw_only)


class Hyperparameters(struct.PyTreeNode):
    """Base class of traced hyperparameters: numbers that are only multiplied, added or compared.

    Every leaf may be an array with a leading axis for `jax.vmap`. A number may be replaced by a
    [`Schedule`][jaxagents.Schedule], or by a function of the update step.
    """

    env_params = MappingProxyType({})
    """Environment parameters by name. Agents that learn in an environment have this field."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Makes assignments raise an error that says how to change an instance."""
        super().__init_subclass__(**kwargs)
        cls.__setattr__ = refuse_assignment

    def __new__(cls, *args: Any, **kwargs: Any):
        """Rejects misspelt names, and suggests the nearest field."""
        check_arguments(cls, kwargs)
        return super().__new__(cls)

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name)

    def __post_init__(self) -> None:
        """Turns functions into schedules."""
        for name, value in list(vars(self).items()):
            if not (callable(value) or isinstance(value, Mapping)):
                continue  # nearly all, and JAX makes many of these
            field = self.__dataclass_fields__[name]
            is_nested = isinstance(field.default, Hyperparameters)
            if not is_nested and field.metadata.get("pytree_node", True):
                object.__setattr__(self, name, _scheduled(value))

    def at(self, update_step: ArrayLike) -> Self:
        """The hyperparameters of one update, with schedules evaluated.

        Args:
            update_step: Number of updates so far.

        Returns:
            The hyperparameters.
        """
        return values_at(self, update_step)

    def check_ranges(self, path: str = "", single: bool = False) -> None:
        """Raises if a concrete value lies outside its interval.

        Args:
            path: Prefix of the names of nested hyperparameters.
            single: Whether they are for a single run, which takes no arrays.

        Raises:
            TypeError: A value should be nested hyperparameters, such as an optimizer's.
            ValueError: A value is not a number, lies outside its interval, or is an array for a single
                run.
        """
        if not isinstance(self.env_params, Mapping):
            raise TypeError(
                "env_params must be a dict of environment parameters, such as {'gravity': "
                f"9.8}}, got {self.env_params!r}: pass a complete set of parameters to the "
                "agent."
            )
        for name, value in self.env_params.items():
            check_value(f"env_params[{name!r}]", value, _FINITE, single)
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), f"{path}{field.name}"
            if value is None and field.default is None:
                continue
            if isinstance(value, str):
                raise ValueError(f"{name} must be a number, got {value!r}.")
            if isinstance(value, Hyperparameters):
                value.check_ranges(f"{name}.", single)
            elif isinstance(field.default, Hyperparameters) and not isinstance(value, list | tuple):
                raise _not_nested(name, type(field.default).__name__, value)
            elif isinstance(value, Schedule) and field.metadata.get("constant"):
                raise ValueError(
                    f"{name} stays the same throughout a run: give a number, not a "
                    f"{type(value).__name__}."
                )
            else:
                check_value(name, value, field.metadata.get("interval"), single)


def _scheduled(value: Any) -> Any:
    """Turns functions into schedules, in the value of a hyperparameter or a dict of values."""
    if isinstance(value, Mapping):
        return {name: _scheduled(x) for name, x in value.items()}
    is_function = callable(value) and not isinstance(value, Schedule)
    return FunctionSchedule(cast(Any, value)) if is_function else value


def check_value(name: str, value: Any, interval: Interval | None, single: bool) -> None:
    """Raises unless a value is a number in an interval, or an array or schedule of such numbers.

    Args:
        name: Name of the hyperparameter.
        value: The value.
        interval: The interval; `None` allows everything but lists.
        single: Whether to reject arrays, since a single run takes one number.

    Raises:
        ValueError: The value is something else, or out of range.
    """
    if isinstance(value, Schedule):
        value.check(name, interval, single)
    elif isinstance(value, list | tuple):
        raise ValueError(
            f"{name} must be a number, or an array of them for a sweep, got {value!r}: give "
            f"jnp.array({list(value)})."
        )
    elif interval is not None:
        if single and np.ndim(value):
            raise ValueError(
                f"{name} is an array of shape {np.shape(value)}, but a run takes one number: "
                "for several runs at once, use agent.sweep or jax.vmap."
            )
        interval.check(name, value)


def _not_nested(name: str, kind: str, value: object) -> TypeError:
    article = "an" if kind[0] in "AEIOU" else "a"
    given, hint = repr(value), ""
    if isinstance(value, Mapping):
        given, hint = f"a {type(value).__name__}", f": give {kind}(**params)"
    return TypeError(f"{name} must be {article} {kind}, got {given}{hint}.")


_REAL = Interval(-np.inf, np.inf, infinite=True)
_FINITE = Interval(-np.inf, np.inf)
_POSITIVE = Interval(float(np.finfo(np.float32).tiny), np.inf)
_FROM_ONE, _FROM_ZERO = Interval(1.0, np.inf), Interval(0.0, np.inf)


def _steps(interval: Interval) -> Any:
    """A field for a number of updates."""
    return struct.field(metadata={"interval": interval})


class Schedule(struct.PyTreeNode):
    """A hyperparameter as a function of the number of updates so far.

    Its numbers are traced like hyperparameters: each may be swept and vmapped. To write your own
    schedule, subclass this class and declare its numbers as fields.

    Attributes:
        schedule_type: Class of the schedule (static), so that compiled programs distinguish schedules.
    """

    schedule_type: "type[Schedule] | None" = struct.field(
        pytree_node=False, default=None, kw_only=True, repr=False
    )

    def __post_init__(self) -> None:
        """Stores the class, which JAX ignores when it compares the structures of dataclasses."""
        object.__setattr__(self, "schedule_type", type(self))

    @abc.abstractmethod
    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value at an update.

        Args:
            update_step: Number of updates so far.

        Returns:
            The value.
        """
        raise NotImplementedError

    def check(self, name: str, interval: Interval | None, single: bool = False) -> None:
        """Raises if a concrete number is out of range.

        Args:
            name: Name of the hyperparameter.
            interval: The values that it may take; `None` allows all.
            single: Whether the schedule is for a single run, which takes no arrays.

        Raises:
            ValueError: A number is out of range, or an array for a single run.
        """
        for field in dataclasses.fields(self):
            if field.metadata.get("pytree_node", True):
                own = field.metadata.get("interval") or interval or _REAL
                leaves = jax.tree_util.tree_leaves_with_path(getattr(self, field.name))
                for path, value in leaves:
                    full_name = f"{name}.{field.name}{jax.tree_util.keystr(path)}"
                    check_value(full_name, value, own, single)


class _FromTo(Schedule):
    """A schedule that moves from one value to another and stays there."""

    initial: Traced
    final: Traced
    n_steps: Traced = _steps(_FROM_ONE)

    def _progress(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The fraction of `n_steps` that is done, from 0 to 1."""
        return jnp.clip(jnp.asarray(update_step, jnp.float32) / self.n_steps, 0.0, 1.0)

    def _between(self, share: Float[Array, ""]) -> Float[Array, ""]:
        """Interpolates between both values, exactly at the ends."""
        return self.initial * (1.0 - share) + self.final * share


class LinearSchedule(_FromTo):
    r"""Linear schedule, $x_t = x_0 + (x_N - x_0) \min(t / N, 1)$.

    Attributes:
        initial: Value in the first update, $x_0$.
        final: Value from update `n_steps` on, $x_N$.
        n_steps: Number of updates in between, $N$.
    """

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value at an update; see `Schedule`."""
        return self._between(self._progress(update_step))


class CosineSchedule(_FromTo):
    r"""Cosine schedule, $x_t = x_N + \frac{1}{2} (x_0 - x_N) (1 + \cos(\pi \min(t / N, 1)))$.

    Loshchilov and Hutter, 2017, "SGDR: stochastic gradient descent with warm restarts", equation 5.

    Attributes:
        initial: Value in the first update, $x_0$.
        final: Value from update `n_steps` on, $x_N$.
        n_steps: Number of updates in between, $N$.
    """

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value at an update; see `Schedule`."""
        return self._between(0.5 * (1.0 - jnp.cos(jnp.pi * self._progress(update_step))))


class ExponentialSchedule(_FromTo):
    r"""Exponential schedule, $x_t = x_0 (x_N / x_0)^{\min(t / N, 1)}$.

    Attributes:
        initial: Value in the first update, $x_0$, above 0.
        final: Value from update `n_steps` on, $x_N$, above 0.
        n_steps: Number of updates in between, $N$.
    """

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value at an update; see `Schedule`."""
        progress = self._progress(update_step)
        value = self.initial * (self.final / jnp.asarray(self.initial, jnp.float32)) ** progress
        return jnp.where(progress < 1.0, value, self.final)

    def check(self, name: str, interval: Interval | None, single: bool = False) -> None:
        """Raises if a concrete number is out of range, or not above 0; see `Schedule`."""
        super().check(name, interval, single)
        for end in ("initial", "final"):
            _POSITIVE.check(f"{name}.{end} of an ExponentialSchedule", getattr(self, end))


class PiecewiseSchedule(Schedule):
    """A schedule through given values, piecewise linear or piecewise constant.

    ```python
    warm_up_and_decay = PiecewiseSchedule(
        values=(0.0, 1e-3, 0.0), steps=(0, 100, 5_000)
    )
    ```

    Attributes:
        values: The values to pass through. The first also applies before its update, and the last after
            its update.
        steps: The update at which each value is reached, in increasing order.
        interpolate: Whether to interpolate linearly (static), or keep each value until the next.
    """

    values: tuple[Traced, ...]
    steps: tuple[Traced, ...] = _steps(_FROM_ZERO)
    interpolate: bool = struct.field(pytree_node=False, default=True)

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value at an update; see `Schedule`."""
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

    def check(self, name: str, interval: Interval | None, single: bool = False) -> None:
        """Raises if a concrete number is out of range, or steps are out of order; see `Schedule`."""
        sizes = [len(x) if isinstance(x, tuple | list) else 0 for x in (self.values, self.steps)]
        if sizes[0] != sizes[1] or not sizes[0]:
            raise ValueError(
                f"{name} is a PiecewiseSchedule, which takes as many values as steps, got "
                f"values={self.values} and steps={self.steps}."
            )
        super().check(name, interval, single)
        if any(map(is_traced, self.steps)):
            return
        for before, after in itertools.pairwise(self.steps):
            if np.any(np.asarray(before) >= np.asarray(after)):
                raise ValueError(f"{name}.steps must increase, got {self.steps}.")


class FunctionSchedule(Schedule):
    """A function of the update step, such as an optax schedule.

    A function passed as a hyperparameter is converted to this class. The function is static: programs
    are recompiled for a different one. Checkpoints do not store it, and only its first value is
    checked.

    Attributes:
        function: Maps the number of updates so far to the value.
    """

    function: Callable[[Any], ArrayLike] = struct.field(pytree_node=False)

    def __call__(self, update_step: ArrayLike) -> Float[Array, ""]:
        """The value at an update; see `Schedule`."""
        return jnp.asarray(self.function(update_step), jnp.float32)

    def check(self, name: str, interval: Interval | None, single: bool = False) -> None:
        """Raises if it is not a JAX function, or its first value is out of range; see `Schedule`."""
        if isinstance(self.function, type) or not callable(self.function):
            raise TypeError(
                f"{name} must be a number, a schedule such as LinearSchedule(1e-3, 0.0, n_steps=200), "
                f"or a function of the update step, got {self.function!r}."
            )
        with written_in_jax(f"The function for {name}"):
            jax.eval_shape(self.function, jnp.zeros((), jnp.int32))
        first = self.function(jnp.zeros((), jnp.int32))
        check_value(f"{name} of the first update", first, interval or _REAL, single=True)


def is_schedule(x: object) -> bool:
    """Whether an object is a schedule."""
    return isinstance(x, Schedule)


def has_schedules(tree: PyTree) -> bool:
    """Whether a pytree contains schedules."""
    return any(map(is_schedule, jax.tree.leaves(tree, is_leaf=is_schedule)))


def values_at(tree: PyTree, update_step: ArrayLike) -> PyTree:
    """Evaluates the schedules of a pytree.

    Args:
        tree: A pytree, such as hyperparameters.
        update_step: Number of updates so far.

    Returns:
        The pytree with numbers in place of schedules.
    """
    return jax.tree.map(
        lambda x: x(update_step) if is_schedule(x) else x, tree, is_leaf=is_schedule
    )


def with_values(hyperparams: Any, values: Mapping[str, Any]) -> Any:
    """Replaces hyperparameters; a dict becomes an optimizer's parameters or a linear schedule."""
    values = dict(values)
    for name, value in values.items():
        if isinstance(value, dict):
            before = getattr(hyperparams, name)
            is_nested = dataclasses.is_dataclass(before)
            values[name] = with_values(before, value) if is_nested else LinearSchedule(**value)
    return hyperparams.replace(**values)
