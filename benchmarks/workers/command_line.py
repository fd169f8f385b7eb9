"""Measures the time until the progress bar of `jaxagents train` shows the first update."""

import re
import subprocess
import sys
import time
from typing import Any

import startup
import worker

N_UPDATES = 10_000


def seconds(run: str) -> float:
    """Starts a run, and returns the seconds until its first update; then kills it."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "jaxagents", "train", "ppo", "CartPole-v1"]
    options: Any = {"env": startup.with_cache(), "stdout": subprocess.DEVNULL}
    command += [f"--run-dir={run}", f"--n-steps={N_UPDATES}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, bufsize=0, **options) as process:
        assert process.stderr is not None
        shown = b""
        while not re.search(rb" [1-9]\d*/%d " % N_UPDATES, shown):
            more = process.stderr.read(1000)
            if not more:
                sys.exit(shown.decode())
            shown += more
        found = time.perf_counter() - began
        process.kill()
    return found


if __name__ == "__main__":
    worker.report("jaxagents", {"cold": seconds("cold"), "warm": seconds("warm")}, "gymnax")
