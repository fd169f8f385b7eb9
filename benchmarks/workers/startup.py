"""How startup time is measured: in fresh processes, without and with cached programs.

A worker passes a generator that yields the name of each stage when it is done; it runs in its own
process. This module only needs the standard library.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import worker

CHILD = "--child"


def main(library: str, start: Callable[[], Iterator[str]]) -> None:
    """Times the stages of a start, cold and warm, and prints one line of JSON.

    Args:
        library: Name of the package.
        start: Yields the name of each stage when it is done.
    """
    if CHILD in sys.argv:
        print(json.dumps({stage: time.time() for stage in start()}))
        return
    found = {f"{which} {name}": t for which in ("cold", "warm") for name, t in stages().items()}
    worker.report(library, found, "gymnax")


def stages() -> dict[str, float]:
    """The seconds from the start of a process to the end of each of its stages."""
    began = time.time()
    command = [sys.executable, sys.argv[0], CHILD]
    done = subprocess.run(command, env=with_cache(), stdout=subprocess.PIPE, check=True)
    return {name: at - began for name, at in json.loads(done.stdout.splitlines()[-1]).items()}


def with_cache() -> dict[str, str]:
    """Environment variables for caching programs in the current folder."""
    return {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_COMPILATION_CACHE_DIR": str(Path("programs").absolute()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }
