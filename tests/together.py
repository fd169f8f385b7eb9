"""Starts several processes that train together on this machine."""

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

TESTS = str(Path(__file__).resolve().parent)
BEGINNING = """
import sys
import jax

port, n_processes, process, n_devices, *arguments = sys.argv[1:]
n_processes, process = int(n_processes), int(process)
jax.config.update("jax_num_cpu_devices", int(n_devices))

from jaxagents import sharding

sharding.initialize(f"localhost:{port}", n_processes, process, heartbeat_timeout_seconds=5)
"""


def start(script: str, n_processes: int, n_devices: int, *arguments: object) -> list:
    """Starts a script in processes of `n_devices` each, all of which know `process` and `arguments`.

    They compile as this one does.
    """
    source = BEGINNING + textwrap.dedent(script)
    numbers = (free_port(), n_processes)
    return [
        subprocess.Popen(
            [sys.executable, "-c", source, *map(str, (*numbers, i, n_devices, *arguments))],
            env={**os.environ, "PYTHONPATH": TESTS},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(n_processes)
    ]


def run(script: str, n_processes: int, n_devices: int, *arguments: object) -> list[str]:
    """Runs a script in several processes, and returns the output of each."""
    started = start(script, n_processes, n_devices, *arguments)
    outputs = [process.communicate(timeout=400) for process in started]
    assert not any(process.returncode for process in started), outputs
    return [output for output, _ in outputs]


def free_port() -> int:
    """A free port."""
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]
