"""The benchmarks start, without other libraries, and write their reports where they are told to."""

import contextlib
import importlib
import io
import json
import os
import runpy
import shlex
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"
ALONE = "--libraries jaxagents --repeats 1 --seconds 0.01"
RUNS = {  # options of a small run, and a row of its report
    "accelerator.py": ("--works 'a trial'", "| a trial | jaxagents"),
    "atari.py": ("--libraries jaxagents --updates 1 --parts 2", "| jaxagents |"),
    "brax_ppo.py": (
        "--envs halfcheetah --only learning --libraries jaxagents --seeds 0 --episodes 1 --updates 1",
        "| jaxagents",
    ),
    "craftax_classic.py": (
        "--steps 1 --seeds 1 --points 1 --episodes 1 --folder run",
        "| collect wood |",
    ),
    "environments.py": ("--only gymnax --n-envs 4 --n-steps 2", "| `gymnax:CartPole-v1` |"),
    "exploration.py": ("--agents RND --sizes 4 --updates 1 --seeds 1", "| DeepSea, 4 | RND |"),
    "games.py": (
        "--games takeaway --seeds 1 --share 0.01 --matches 8",
        "| perfect | trained |",
    ),
    "kernels.py": ("--works 'CartPole-v1, 64 environments'", "| values | 4 x "),
    "learners.py": ("--only pendulum --quick --libraries jaxagents", "| jaxagents"),
    "memory.py": (
        "--tasks 'CartPole without velocities' --memories gru --share 0.001 --seeds 1",
        "| CartPole without velocities | gru |",
    ),
    "multi_agent.py": (
        "--tasks meeting --algorithms MAPPO --seeds 1 --libraries jaxagents",
        "| meeting, MAPPO | jaxagents",
    ),
    "normalisation.py": (
        "--environments CartPole-v1 --envs 4 --normalised both --turns 1 --seconds 0.01",
        "| CartPole-v1 | 4 | both |",
    ),
    "off_policy.py": ("--only cartpole pendulum_offline --agents DQN BC --quick", "| DQN |"),
    "ppo_mujoco.py": (
        "--envs CartPole-v1 --steps 256 --seeds 1 --episodes 1 --libraries jaxagents",
        "| CartPole-v1 | jaxagents |",
    ),
    "ppo_speed.py": (
        f"--only cartpole-4 learning-cartpole {ALONE} --learning-seeds 1 --learning-share 0.001",
        "| jaxagents",
    ),
    "recurrent_speed.py": (
        "--updates 1 --repeats 1 --environments MemoryChain-bsuite --libraries jaxagents",
        "| MemoryChain-bsuite | jaxagents",
    ),
    "replay_speed.py": (
        f"--works 'DDQN, an update of 128 each ten steps' {ALONE}",
        "| DDQN, an update of 128 each ten steps | jaxagents",
    ),
    "sac_speed.py": (f"--envs Pendulum-v1 --steps 10 {ALONE}", "| Pendulum-v1 | jaxagents"),
    "scaling.py": ("--devices 1 --envs 32 --repeats 1 --seconds 0.01", "| 1 | 32 |"),
    "startup.py": ("--libraries jaxagents --repeats 1", "| cold | jaxagents"),
    "suites.py": (
        "--tasks gymnax:CartPole-v1 --seeds 1 --share 0.01",
        "| `gymnax:CartPole-v1` | PPO |",
    ),
    "watch_speed.py": ("--only PPO --rounds 1", "| PPO |"),
}
WRITTEN = {  # by scripts that write a folder; the others write one file
    "brax_ppo.py": ["brax_ppo.md", "brax_halfcheetah.png"],
    "environments.py": ["environments.md"],
    "learners.py": ["new/report.md", "new/pendulum.png"],
    "off_policy.py": [
        "off_policy.md",
        "off_policy_cartpole.png",
        "off_policy_pendulum_offline.png",
    ],
    "ppo_speed.py": ["ppo_speed.md", "ppo_cartpole.png"],
}
SMALL = {  # of the modules that workers share
    "sac": {"N_RANDOM_STEPS": 300, "BATCH_SIZE": 16, "HIDDEN_LAYERS": (8, 8), "START_STEPS": 50},
    "measure": {"N_PROBE_STEPS": 512},
    "arcade": {"N_ENVS": 2, "ROLLOUT_LENGTH": 8, "STEPS_OF_AN_UPDATE": 16},
    "host_ppo": {"ROLLOUT_LENGTH": 8, "STEPS_OF_AN_UPDATE": 64, "N_MINIBATCHES": 4, "N_EPOCHS": 1},
    "recurrent": {"ROLLOUT_LENGTH": 8, "WIDTH": 8, "N_CALLS": 1},
    "replay": {"N_FIRST_UPDATES": 200, "HIDDEN_LAYERS": (8, 8)},
}
NEEDS = {
    "atari.py": ("ale_py", "cv2", "tyro"),
    "brax_ppo.py": ("brax",),
    "craftax_classic.py": ("craftax",),
    "kernels.py": ("jax_plugins.xla_cuda13",),
}
"""Packages that scripts need and the tests do without."""
IN_PROCESSES = {"learners.py", "scaling.py"}
"""Scripts whose workers are processes, as they are for users. The others' take the same way there."""


def run_here(command, timeout, **variables):
    """Runs a worker in this process, and gives what it measured."""
    _, worker, *options = map(str, command)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [worker, *options])
        runpy.run_path(worker, run_name="__main__")
    return json.loads(printed.getvalue().splitlines()[-1])


def documentation():
    return {path: path.stat().st_mtime_ns for path in (REPOSITORY / "docs").rglob("*")}


def test_all_scripts_are_started_here():
    scripts = {path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert scripts == set(RUNS)


@pytest.mark.parametrize("script", RUNS)
def test_script(script, tmp_path, monkeypatch):
    for package in NEEDS.get(script, ()):
        pytest.importorskip(package)
    options, row = RUNS[script]
    files = WRITTEN.get(script, ["report.md"])
    folder = Path(files[0]).parent
    options += f" --output {folder}" if script in WRITTEN else " --markdown report.md"
    before = documentation()
    path = os.pathsep.join(map(str, (REPOSITORY, REPOSITORY / "tests")))
    monkeypatch.setenv("PYTHONPATH", path)  # of the workers that it starts
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(BENCHMARKS)
    if script not in IN_PROCESSES:
        monkeypatch.syspath_prepend(BENCHMARKS / "workers")
        monkeypatch.setattr(importlib.import_module("peers"), "run_worker", run_here)
        for module, sizes in SMALL.items():
            for name, size in sizes.items():
                monkeypatch.setattr(importlib.import_module(module), name, size)
    monkeypatch.setattr(sys, "argv", [script, *shlex.split(options)])
    runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    for file in files:
        assert (tmp_path / file).stat().st_size > 0, file
    report = (tmp_path / files[0]).read_text()
    assert report.startswith("# ")
    assert row in report
    assert "failed" not in report
    assert documentation() == before
