"""Reports of workers, one line of JSON each. Some workers run without JAX."""

import json
import platform
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def report(library: str, measured: dict[str, Any], *others: str) -> None:
    """Prints the results.

    Args:
        library: Name of the measured package.
        measured: Results.
        *others: Further packages whose versions to report.
    """
    versions = {}
    for name in (library, "jax", "jaxlib", "flax", "optax", *others):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    if "jax" in versions:
        import jax

        device = jax.devices()[0]
        kind = "" if device.device_kind == device.platform else f": {device.device_kind}"
        versions["backend"] = device.platform + kind
    print(json.dumps({"library": library, "versions": versions, **measured}), flush=True)


def seconds(function: Callable[..., Any], *args: Any, **options: Any) -> float:
    """The duration in seconds of a call that returns when its work is done."""
    began = time.perf_counter()
    function(*args, **options)
    return time.perf_counter() - began


def take_turns(train: Callable[[], Any]) -> None:
    """Calls `train` for every line of standard input, and prints the seconds of each call."""
    for _ in sys.stdin:
        print(seconds(train), flush=True)


def peak_memory_mib() -> float:
    """Peak resident memory so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if platform.system() == "Darwin" else 1024
    return peak * unit / 2**20
