"""The benchmarks start, without other libraries, and write their reports where they are told to."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"
ALONE = "--libraries jaxagents --repeats 1 --seconds 0.01"
RUNS = {  # options of a small run, what it writes, and a row of its report
    "learners.py": (
        "--only pendulum --quick --libraries jaxagents --output new",
        ["new/report.md", "new/pendulum.png"],
        "| jaxagents",
    ),
    "memory.py": (
        "--tasks 'CartPole without velocities' --memories none gru --share 0.001 --markdown report.md",
        ["report.md"],
        "| CartPole without velocities | gru |",
    ),
    "normalisation.py": (
        "--environments CartPole-v1 --envs 4 --turns 1 --seconds 0.01 --markdown report.md",
        ["report.md"],
        "| CartPole-v1 | 4 | both |",
    ),
    "off_policy.py": (
        "--only cartpole pendulum_offline --agents DQN BC --quick --output .",
        ["off_policy.md", "off_policy_cartpole.png", "off_policy_pendulum_offline.png"],
        "| DQN |",
    ),
    "ppo_speed.py": (
        f"--only cartpole-4 learning-cartpole {ALONE} --output . "
        "--learning-seeds 1 --learning-share 0.001",
        ["ppo_speed.md", "ppo_cartpole.png"],
        "| jaxagents",
    ),
    "replay_speed.py": (
        f"--works 'DDQN, an update of 128 each ten steps' {ALONE} --markdown report.md",
        ["report.md"],
        "| DDQN, an update of 128 each ten steps | jaxagents",
    ),
    "sac_speed.py": (
        f"--envs Pendulum-v1 --steps 10 {ALONE} --markdown report.md",
        ["report.md"],
        "| Pendulum-v1 | jaxagents",
    ),
    "scaling.py": (
        "--devices 2 --envs 32 --repeats 1 --seconds 0.01 --markdown report.md",
        ["report.md"],
        "| 2 | 64 |",
    ),
}


def documentation():
    return {path: path.stat().st_mtime_ns for path in (REPOSITORY / "docs").rglob("*")}


def test_all_scripts_are_started_here():
    scripts = {path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert scripts == set(RUNS)


@pytest.mark.parametrize("script", RUNS)
def test_script(script, tmp_path):
    options, files, row = RUNS[script]
    before = documentation()
    path = os.pathsep.join(map(str, (REPOSITORY, REPOSITORY / "tests")))
    variables = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *shlex.split(options)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for file in files:
        assert (tmp_path / file).stat().st_size > 0, file
    report = (tmp_path / files[0]).read_text()
    assert report.startswith("# ")
    assert row in report
    assert "failed" not in report
    assert documentation() == before
