"""Reports of workers, each one line of JSON; some run where there is no JAX."""

import json
import platform
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def report(library: str, measured: dict[str, Any], *others: str) -> None:
    """Prints what was measured.

    Args:
        library: Name of the distribution that was measured.
        measured: What was found.
        *others: Distributions whose versions are told, besides JAX and what all libraries use.
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
    """The seconds that a call takes, which returns when its work is done."""
    began = time.perf_counter()
    function(*args, **options)
    return time.perf_counter() - began


def take_turns(train: Callable[[], Any]) -> None:
    """Makes a call for every line of standard input, and answers with the seconds that it took."""
    for _ in sys.stdin:
        print(seconds(train), flush=True)


def peak_memory_mib() -> float:
    """Largest resident memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if platform.system() == "Darwin" else 1024
    return peak * unit / 2**20
