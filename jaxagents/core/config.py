"""Static configuration: what sets a shape, a loop bound or a branch."""

import dataclasses
import functools
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import jax

from jaxagents.core.arrays import is_traced
from jaxagents.core.attributes import missing_attribute
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.folders import folder
from jaxagents.core.nearest import nearest
from jaxagents.core.numbers import flag, positive
from jaxagents.core.other_names import advice

_HABITS = {"_replace": "call replace(...)", "_asdict": "call dataclasses.asdict(...)"}


def check_known_fields(owner: type, names: Iterable[str], known: Sequence[str]) -> None:
    """Refuses misspelt names, naming the nearest field.

    Args:
        owner: The class whose fields they ought to be.
        names: The names that were given.
        known: The names of its fields.

    Raises:
        TypeError: A name is unknown.
    """
    for name in names:
        if name not in known:
            near = nearest(name, known)
            guess = f"Did you mean '{near}'?" if near else ""
            parts = [
                f"{owner.__name__} has no field '{name}'.",
                advice(name, known) or guess,
                f"Its fields are: {', '.join(known)}.",
            ]
            raise TypeError(" ".join(filter(None, parts)))


def field_names(dataclass: Any) -> list[str]:
    """The names of the fields that a dataclass can be made with."""
    return [field.name for field in dataclasses.fields(dataclass) if field.init]


def check_defaults(cls: type) -> None:
    """Refuses attributes of a class in the place of defaults, which its constructor would pass over.

    Args:
        cls: The class, a dataclass or one that inherits from one.

    Raises:
        TypeError: There is one.
    """
    for field in dataclasses.fields(cls):
        value = getattr(cls, field.name, dataclasses.MISSING)
        has_default = field.default is not dataclasses.MISSING
        is_it = value is field.default or fingerprint(value) == fingerprint(field.default)
        if has_default and not is_it:
            raise TypeError(
                f"{cls.__name__}.{field.name} = {value!r} is no field, so that the default would stay "
                f"{field.default!r}: give it its type, as in '{field.name}: int = ...'. The class of a "
                "configuration also needs @dataclasses.dataclass(frozen=True, kw_only=True, eq=False)."
            )


class KnownFields:
    """Refuses misspelt keyword arguments, naming the nearest field."""

    def __new__(cls, *args: Any, **kwargs: Any):
        """Checks the names of the keyword arguments, and the defaults of the class."""
        check_defaults(cls)
        check_known_fields(cls, kwargs, field_names(cls))
        return super().__new__(cls)

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, _HABITS)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class StaticConfig(KnownFields):
    """The settings that a compiled program depends on. Compares and hashes by value."""

    outside: ClassVar[Collection[str]] = ()
    """Names of the fields that concern no computation, such as those of files."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keeps what compares by value, which a dataclass without `eq=False` would replace."""
        super().__init_subclass__(**kwargs)
        for name in ("__eq__", "__hash__"):
            if name not in vars(cls):
                setattr(cls, name, getattr(cls, name))

    def __new__(cls, *args: Any, **kwargs: Any):
        """Refuses arguments without names.

        Raises:
            TypeError: There is one, or a name is unknown.
        """
        if args:
            first = field_names(cls)[0]
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, such as {cls.__name__}({first}="
                f"{args[0]!r}), got {len(args)} without names."
            )
        return super().__new__(cls, **kwargs)

    def __post_init__(self) -> None:
        """Validates the fields.

        Raises:
            TypeError: A field holds a traced value, or a flag something else than a boolean.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                flag(f"{type(self).__name__}.{field.name}", value)
            if any(is_traced(leaf) for leaf in jax.tree.leaves(_value(self, field))):
                raise TypeError(
                    f"{type(self).__name__}.{field.name} is traced by a JAX transformation, but "
                    "the configuration is static. Only hyperparameters may be traced or vmapped."
                )

    def computation(self) -> dict[str, Any]:
        """The fields that concern the computation, by name."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name not in self.outside}

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def _check_positive(self, *names: str) -> None:
        given = [name for name in names if not self._is_left_out(name)]
        for name in given:
            number = positive(f"{type(self).__name__}.{name}", getattr(self, name))
            object.__setattr__(self, name, number)

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in choices and not self._is_left_out(name):
            or_none = "None or " if self._may_be_none(name) else ""
            raise ValueError(
                f"{type(self).__name__}.{name} must be {or_none}one of {choices}, got {value!r}."
            )

    def _is_left_out(self, name: str) -> bool:
        return getattr(self, name) is None and self._may_be_none(name)

    def _may_be_none(self, name: str) -> bool:
        """Whether a field may be, by its type, or a constant of the class in the place of one."""
        types = [x.type for x in dataclasses.fields(self) if x.name == name]
        return all(type(None) in get_args(x) or "None" in str(x) for x in types)

    def _check_names(self, name: str) -> None:
        value = getattr(self, name)
        given = () if isinstance(value, str) or not isinstance(value, Sequence) else tuple(value)
        if not all(isinstance(x, str) for x in given) or (value and not given):
            raise TypeError(
                f"{type(self).__name__}.{name} must be a tuple of names, such as ('won',), got "
                f"{value!r}."
            )
        object.__setattr__(self, name, given)

    def _check_folder(self, name: str) -> None:
        """Makes a folder absolute, so that it stays the same where a script changes its own."""
        given = getattr(self, name)
        if given is None:
            return
        path = folder(f"{type(self).__name__}.{name}", given, ", or None to save nothing")
        object.__setattr__(self, name, path)

    def _check_optimizer(self, optimizer: object) -> None:
        if not callable(optimizer):
            raise TypeError(
                f"{type(self).__name__}.optimizer must be a function that makes an optax optimizer, "
                f"such as optax.adam, got {optimizer!r}."
            )

    @functools.cached_property
    def _fingerprint(self) -> Hashable:
        return fingerprint(self)

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticConfig) and self._fingerprint == other._fingerprint


def _value(config: StaticConfig, field: dataclasses.Field) -> object:
    value = getattr(config, field.name)
    return value.keywords if hasattr(value, "keywords") else value
