"""What a process says of itself; it may be one without JAX."""

import platform
import resource
from importlib.metadata import PackageNotFoundError, version

_COMPILATION = "/jax/core/compile/backend_compile_duration"


def versions(library: str, *others: str) -> dict[str, str]:
    """Versions of a library and of what it stands on.

    Args:
        library: Name of its distribution.
        *others: Names of further ones, besides JAX and what all libraries use.

    Returns:
        The versions of those that are installed, and the backend of JAX.
    """
    found = {}
    for name in (library, "jax", "jaxlib", "flax", "optax", *others):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | _backend() if "jax" in found else found


def _backend() -> dict[str, str]:
    import jax

    return {"backend": jax.default_backend()}


def peak_memory_mib() -> float:
    """Largest resident memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if platform.system() == "Darwin" else 1024
    return peak * unit / 2**20


class Compilations:
    """Counts the programs that are compiled from now on."""

    def __init__(self) -> None:
        import jax

        self._n = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def take(self) -> int:
        """Number of programs since the last call."""
        n, self._n = self._n, 0
        return n

    def _listen(self, event: str, duration: float, **_: object) -> None:
        self._n += event == _COMPILATION
