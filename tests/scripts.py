"""Runs Python in a separate process."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run_script(script: str, *arguments: object, **environment: str) -> str:
    """Runs a script, and gives what it prints.

    Args:
        script: The program, which may be indented.
        *arguments: Its `sys.argv[1:]`.
        **environment: Further environment variables.
    """
    tests = str(Path(__file__).resolve().parent)
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": tests, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout
