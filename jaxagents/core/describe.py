"""Descriptions of agents, configurations and hyperparameters, as text and as JSON."""

import dataclasses
import functools
import math
import os
from typing import Any

import jax
import numpy as np

from jaxagents.core.arrays import is_key
from jaxagents.core.hyperparameters import Schedule


def to_json(x: Any) -> Any:
    """Converts an object to JSON values; anything but numbers, lists and dicts becomes its name.

    Single-precision floats keep their short decimal form. NaN becomes null, infinity `"inf"`.
    """
    if x is None or isinstance(x, bool | int | str):
        return x
    if isinstance(x, float):
        return None if math.isnan(x) else str(x) if math.isinf(x) else x
    if isinstance(x, os.PathLike):
        return os.fspath(x)
    if isinstance(x, jax.Array) and is_key(x):
        return to_json(jax.random.key_data(x))
    if isinstance(x, np.floating):
        return to_json(float(str(x)))
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        array = np.asarray(x)
        return to_json(
            list(array) if array.ndim else array[()] if array.dtype.kind == "f" else array.item()
        )
    if isinstance(x, dict):
        return {str(key): to_json(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [to_json(item) for item in x]
    if dataclasses.is_dataclass(x) and not isinstance(x, type) and not hasattr(x, "apply"):
        kind = {"schedule": type(x).__name__} if isinstance(x, Schedule) else {}
        shown = [field.name for field in dataclasses.fields(x) if field.repr]
        return kind | {name: to_json(getattr(x, name)) for name in shown}
    return name_of(x)


def name_of(x: Any) -> str:
    """A readable name of a function, class, network or other object."""
    if isinstance(x, functools.partial):
        arguments = [repr(a) for a in x.args] + [f"{k}={name_of(v)}" for k, v in x.keywords.items()]
        return f"{name_of(x.func)}({', '.join(arguments)})"
    if hasattr(x, "__qualname__"):
        public_module = x.__module__.split("._")[0]
        return f"{public_module}.{x.__qualname__}"
    return " ".join(repr(x).split())


def describe(title: str, x: Any) -> str:
    """A title and one line per field of a dataclass, with nested fields indented."""
    return "\n".join([f"{title}:", *_lines(to_json(x), indent=2)])


def _lines(fields: dict[str, Any], indent: int) -> list[str]:
    lines = []
    for name, value in fields.items():
        if isinstance(value, dict):
            lines += [f"{'':{indent}}{name}:", *_lines(value, indent + 2)]
        else:
            lines.append(f"{'':{indent}}{name}: {value}")
    return lines
