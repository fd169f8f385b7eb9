"""Object-oriented reinforcement-learning agents on JAX."""

import importlib
import importlib.util
from importlib.metadata import version
from typing import Any

import lazy_loader

from jaxagents.core.names import former_names

_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_former = former_names(__name__)
_MODULES = "networks", "envs", "data", "loggers", "callbacks"
"""Modules whose names are not names of the package."""

__version__ = version("jaxagents")


def __getattr__(name: str) -> Any:
    """Imports a name in `__init__.pyi`, or a module, on first use."""
    if name in __all__:
        return _import(name)
    if importlib.util.find_spec(f"{__name__}.{name}"):
        return importlib.import_module(f"{__name__}.{name}")
    for module in _MODULES if name[:1].isupper() else ():
        if hasattr(importlib.import_module(f"{__name__}.{module}"), name):
            raise ImportError(f"jaxagents has no {name}: import it from jaxagents.{module}.")
    return _former(name)
