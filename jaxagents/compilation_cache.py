"""A disk cache of compiled programs, so that restarting a script does not recompile."""

import hashlib
import os
import platform
from pathlib import Path

import jax
import platformdirs

from jaxagents.core.files import folder

_SHORTEST = 0.1
"""Seconds. Programs that compile faster are not cached."""
_LARGEST = 2**31
"""Bytes in total. Beyond it, the least recently used programs are removed."""


def cache_programs(directory: str | os.PathLike | None = None) -> Path:
    """Turns on JAX's disk cache of compiled programs.

    Call it before anything is compiled. The second start of a script then gives the same results without
    compiling. Programs from a different version of JAX or a different kind of machine are not reused. A
    cache that is already set up, for example with `JAX_COMPILATION_CACHE_DIR`, stays in use.

    ```python
    import jaxagents

    jaxagents.cache_programs()
    ```

    Args:
        directory: A folder; by default the user's cache, such as `~/.cache/jaxagents` on Linux.

    Returns:
        The folder with the programs for this kind of machine.
    """
    known = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if known is not None:
        return Path(known)
    place = platformdirs.user_cache_path("jaxagents") if directory is None else directory
    programs = folder("directory", place) / "programs" / _kind_of_machine()
    jax.config.update("jax_compilation_cache_dir", str(programs))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SHORTEST)
    jax.config.update("jax_compilation_cache_max_size", _LARGEST)
    return programs


def _kind_of_machine() -> str:
    """A name for machines whose processors can run the same programs."""
    description = platform.machine() + platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        description += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()}-{hashlib.sha256(description.encode()).hexdigest()[:12]}"
