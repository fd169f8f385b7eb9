"""Static configuration: settings that determine shapes, loop bounds or branches."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import jax

from jaxagents.core.arrays import is_traced
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.hyperparameters import check_arguments, field_names
from jaxagents.core.names import missing_attribute, refuse_assignment
from jaxagents.core.numbers import flag

Check = Callable[[str, Any], Any]
"""Takes the name of a field and a value; returns the value to keep, or raises."""


def checked(default: Any, check: Check) -> Any:
    """A configuration field with a check of its values.

    ```python
    n_steps: int = checked(200, numbers.positive)
    memory: Memory | None = checked(None, one_of(Memory))
    ```

    A subclass that redeclares the field with a different default keeps the check. `None` is not checked
    if the field's type allows it.

    Args:
        default: The default.
        check: Takes the name of the field and a value, and returns the value to keep.

    Returns:
        The field.
    """
    return dataclasses.field(default=default, metadata={"check": check})


def one_of(choices: Any, or_none: bool = False) -> Check:
    """A check that a value is in a `Literal`.

    Args:
        choices: The `Literal`.
        or_none: Whether the message lists `None` too.

    Returns:
        The check, which raises a `ValueError`.
    """

    def check(name: str, value: object) -> object:
        if value not in get_args(choices):
            or_ = "None or " if or_none else ""
            raise ValueError(f"{name} must be {or_}one of {get_args(choices)}, got {value!r}.")
        return value

    return check


def names(name: str, value: Any) -> tuple[str, ...]:
    """Checks a tuple of names.

    Raises:
        TypeError: The value is not a tuple of names, but for example a string.
    """
    given = () if isinstance(value, str) or not isinstance(value, Sequence) else tuple(value)
    if not all(isinstance(x, str) for x in given) or (value and not given):
        raise TypeError(f"{name} must be a tuple of names, such as ('won',), got {value!r}.")
    return given


def optimizer_function(name: str, value: Any) -> Callable[..., Any]:
    """Checks a function that creates an optimizer.

    Raises:
        TypeError: The value is not such a function, but for example an optimizer.
    """
    if not callable(value):
        raise TypeError(
            f"{name} must be a function that makes an optax optimizer, such as optax.adam, got "
            f"{value!r}."
        )
    return value


@functools.cache
def _checks_of(cls: type) -> dict[str, Check]:
    """The checks of a configuration's fields, by name, including inherited ones."""
    checks = {}
    for base in reversed(cls.__mro__):
        for name, field in vars(base).get("__dataclass_fields__", {}).items():
            checks[name] = field.metadata.get("check", checks.get(name))
    return {name: check for name, check in checks.items() if check is not None}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class StaticConfig:
    """The settings that a compiled program depends on. Compares and hashes by value."""

    outside: ClassVar[Collection[str]] = ()
    """Names of fields that do not affect the computation, such as folders."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keeps comparison by value, which a dataclass without `eq=False` would replace."""
        super().__init_subclass__(**kwargs)
        for name in ("__eq__", "__hash__"):
            if name not in vars(cls):
                setattr(cls, name, getattr(cls, name))

    def __new__(cls, *args: Any, **kwargs: Any):
        """Rejects positional and misspelt arguments.

        Raises:
            TypeError: There is one.
        """
        if args:
            first = field_names(cls)[0]
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, such as "
                f"{cls.__name__}({first}={args[0]!r}), got {len(args)} positional."
            )
        check_arguments(cls, kwargs)
        cls.__setattr__ = refuse_assignment  # in place of the one that a frozen dataclass sets
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Validates the fields.

        Raises:
            TypeError: A field holds a traced value, or a value of the wrong type.
            ValueError: A value is out of range.
        """
        checks = _checks_of(type(self))
        for field in dataclasses.fields(self):
            name, value = f"{type(self).__name__}.{field.name}", getattr(self, field.name)
            if any(is_traced(leaf) for leaf in jax.tree.leaves(getattr(value, "keywords", value))):
                raise TypeError(
                    f"{name} is traced by a JAX transformation, but the configuration is static. Only "
                    "hyperparameters may be traced or vmapped."
                )
            if isinstance(field.default, bool):
                flag(name, value)
            may_be_none = type(None) in get_args(field.type) or "None" in str(field.type)
            if field.name in checks and not (value is None and may_be_none):
                object.__setattr__(self, field.name, checks[field.name](name, value))

    def computation(self) -> dict[str, Any]:
        """The fields that affect the computation, by name."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name not in self.outside}

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @functools.cached_property
    def _fingerprint(self) -> Hashable:
        return fingerprint(self)

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticConfig) and self._fingerprint == other._fingerprint

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name)
