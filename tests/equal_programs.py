"""Programs that a process compiles once, however many functions they are the programs of.

JAX finds the program of a function again by the function itself, and equal programs of several functions
only on disk, where reading takes a while and small ones are not kept.
"""

from collections import OrderedDict
from typing import Any

from jax._src import compiler

_MOST = 400
_lately: OrderedDict[tuple[str, Any], Any] = OrderedDict()
_read, _compile = compiler._cache_read, compiler._compile_and_write_cache


def _find(name: str, key: str, options: Any, backend: Any, devices: Any, *rest: Any) -> Any:
    """A program that was used lately, or one on disk."""
    if (key, devices) not in _lately:
        return _read(name, key, options, backend, devices, *rest)
    _lately.move_to_end((key, devices))
    return _lately[key, devices], 0


def _make(
    backend: Any, module: Any, devices: Any, options: Any, callbacks: Any, name: str, key: str
) -> Any:
    """A new program, which is held unless it calls functions in Python that its key does not tell."""
    program = _compile(backend, module, devices, options, callbacks, name, key)
    if not callbacks:
        _lately[key, devices] = program
        if len(_lately) > _MOST:
            _lately.popitem(last=False)
    return program


def share() -> None:
    """Has programs that were used lately shared from now on."""
    compiler._cache_read, compiler._compile_and_write_cache = _find, _make


def release() -> None:
    """Holds none of them any longer."""
    _lately.clear()
