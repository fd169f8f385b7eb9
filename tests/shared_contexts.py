"""MLIR contexts that programs of tests are lowered in together.

JAX 0.10 makes one for each program, and JAX 0.11.2 for every ten. To load all dialects into it takes as
long as lowering a small program does, and it is in memory as long as what was lowered in it.
"""

import threading

from jax._src.interpreters import mlir

_make = mlir.make_ir_context
_shared = threading.local()


def _find() -> mlir.ir.Context:
    """The context of this thread."""
    if not hasattr(_shared, "context"):
        _shared.context = _make()
    return _shared.context


def share() -> None:
    """Has a thread's programs lowered in one context from now on."""
    mlir.make_ir_context = _find


def release() -> None:
    """Has this thread's next programs lowered in a new one."""
    vars(_shared).clear()
