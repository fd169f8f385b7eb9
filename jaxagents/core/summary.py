"""Short display of pytrees in consoles and notebooks, with arrays by shape."""

import dataclasses
import html
import math
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from jaxagents.core.arrays import is_key, is_traced
from jaxagents.core.names import refuse_assignment

_ARRAYS = jax.Array | np.ndarray | np.generic
_MOST_NUMBERS = 8


class Summarised:
    """Mixin for dataclasses that are shown with one line per non-empty field."""

    def __init_subclass__(cls, **options: Any) -> None:
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Summarised.__repr__  # dataclass keeps an own __repr__
        super().__init_subclass__(**options)
        if dataclasses.is_dataclass(cls):
            cls.__setattr__ = refuse_assignment

    def __repr__(self) -> str:
        return as_text(type(self).__name__, lines_of(self))

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, lines_of(self))


def as_text(title: str, lines: dict[str, str]) -> str:
    """A title and one line per entry, for a console."""
    width = max(map(len, lines), default=0)
    return title + "".join(f"\n  {name:<{width}}  {text}" for name, text in lines.items())


def as_html(title: str, lines: dict[str, str]) -> str:
    """A title and one row per entry, for a notebook."""
    rows = (
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
        for name, text in lines.items()
    )
    return f"<table><caption>{title}</caption>{''.join(rows)}</table>"


def lines_of(node: Any) -> dict[str, str]:
    """The non-empty fields of a dataclass or named tuple, each in a few words."""
    names = getattr(node, "_fields", None) or [x.name for x in dataclasses.fields(node) if x.repr]
    shown = {name: getattr(node, name) for name in names}
    return {name: in_a_line(value) for name, value in shown.items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | dict) and not value)


def in_a_line(x: Any) -> str:
    """A value in a few words: numbers as they are, arrays by shape, pytrees by size."""
    if isinstance(x, _ARRAYS):
        return _array(x)
    if isinstance(x, bool | int | float | str):
        return str(x)
    if isinstance(x, dict) and len(x) <= _MOST_NUMBERS and _are_numbers(x.values()):
        return ", ".join(f"{name} {in_a_line(value)}" for name, value in x.items())
    leaves, kind = jax.tree.leaves(x), type(x).__name__
    if not all(isinstance(leaf, _ARRAYS) for leaf in leaves):
        return kind
    n_numbers = sum(math.prod(leaf.shape) for leaf in leaves)
    plural = "" if len(leaves) == 1 else "s"
    return f"{kind} of {len(leaves):,} array{plural}, {n_numbers:,} numbers"


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(x, _ARRAYS | float) and np.ndim(x) == 0 for x in values)


def _array(x: Any) -> str:
    if x.ndim or is_key(x) or not is_known(x):
        return f"{x.dtype}[{', '.join(map(str, x.shape))}]"
    return f"{x.item():.4g}" if np.issubdtype(x.dtype, np.floating) else str(x.item())


def is_known(x: Any) -> bool:
    """Whether the numbers of an array can be read here."""
    if not isinstance(x, jax.Array):
        return True
    return not is_traced(x) and x.is_fully_addressable and not x.is_deleted()
