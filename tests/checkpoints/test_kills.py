"""Trainings that are killed while they write, and go on."""

import subprocess
import sys

import pytest
from faults import kill


@pytest.mark.slow
def test_ten_kills_lose_nothing():
    command = [sys.executable, kill.__file__, "--number", "10", "--subjects", "host", "PPO"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("killed 5 times") == 2
