"""The benchmarks run without other libraries, and write their reports to the given paths."""

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
    "ablation.py": (
        "--only memory --repeats 1 --turns 1",
        "| GRU gates of all steps in one product |",
    ),
    "accelerator.py": ("--works 'a trial'", "| a trial | jaxagents"),
    "atari.py": ("--libraries jaxagents --updates 1 --parts 2", "| jaxagents |"),
    "brax_ppo.py": (
        "--envs halfcheetah --only learning --libraries jaxagents --seeds 0 --episodes 1 --updates 1",
        "| jaxagents",
    ),
    "costs.py": ("--only normalise_rewards --turns 1 --seconds 0.01", "| normalise_rewards |"),
    "craftax_classic.py": (
        "--steps 1 --seeds 1 --points 1 --episodes 1 --folder run",
        "| collect wood |",
    ),
    "environments.py": ("--only gymnax --n-envs 4 --n-steps 2", "| `gymnax:CartPole-v1` |"),
    "exploration.py": ("--agents RND --sizes 4 --updates 1 --seeds 1", "| DeepSea, 4 | RND |"),
    "games.py": (
        "--games takeaway --seeds 1 --share 0.01 --matches 8",
        "| perfect play | trained |",
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
    "off_policy.py": ("--only cartpole pendulum_offline --agents DQN BC --quick", "| DQN |"),
    "overview.py": ("", "as fast as rejax: PPO, 64 environments"),
    "ppo_mujoco.py": (
        "--envs CartPole-v1 --steps 256 --seeds 1 --episodes 1 --libraries jaxagents",
        "| CartPole-v1 | jaxagents |",
    ),
    "ppo_speed.py": (
        f"--only cartpole-4 learning-cartpole {ALONE} --learning-seeds 1 --learning-share 0.001",
        "| jaxagents",
    ),
    "presets.py": ("--only rnd-deepsea --seeds 1 --output new.json", "| `rnd-deepsea` | 51,200 |"),
    "quick.py": (
        "--works 'PPO, CartPole-v1, 4 environments' --libraries jaxagents --seconds 0.01",
        "| PPO, CartPole-v1, 4 environments |",
    ),
    "recurrent_speed.py": (
        "--updates 1 --repeats 1 --environments MemoryChain-bsuite --libraries jaxagents",
        "| MemoryChain-bsuite | jaxagents",
    ),
    "replay_speed.py": (
        f"--works 'DDQN, 10 environments, batch 128' {ALONE}",
        "| DDQN, 10 environments, batch 128 | jaxagents",
    ),
    "sac_speed.py": (f"--envs Pendulum-v1 --steps 10 {ALONE}", "| Pendulum-v1 | jaxagents"),
    "scaling.py": ("--devices 1 --envs 32 --repeats 1 --seconds 0.01", "| 1 | 32 |"),
    "startup.py": ("--libraries jaxagents --repeats 1", "| cold | jaxagents"),
    "suites.py": (
        "--tasks gymnax:CartPole-v1 --seeds 1 --share 0.01",
        "| `gymnax:CartPole-v1` | PPO |",
    ),
}
WRITTEN = {  # by scripts that write a folder; the others write one file
    "ablation.py": ["ablation.md", "ablation.json", "ablation.svg"],
    "brax_ppo.py": ["brax_ppo.md", "brax_halfcheetah.png"],
    "environments.py": ["environments.md", "environments.svg"],
    "learners.py": ["new/report.md", "new/pendulum.png"],
    "off_policy.py": [
        "off_policy.md",
        "off_policy.svg",
        "off_policy_cartpole.png",
        "off_policy_pendulum_offline.png",
    ],
    "overview.py": ["performance.md", "performance.svg", "benchmarks/games.svg"],
    "ppo_speed.py": ["ppo_speed.md", "ppo_cartpole.png"],
}
SMALL = {  # of the modules that workers share
    "sac": {"N_RANDOM_STEPS": 300, "BATCH_SIZE": 16, "HIDDEN_LAYERS": (8, 8), "START_STEPS": 50},
    "measure": {"N_PROBE_STEPS": 512},
    "arcade": {"N_ENVS": 2, "ROLLOUT_LENGTH": 8, "STEPS_OF_AN_UPDATE": 16},
    "host_ppo": {"ROLLOUT_LENGTH": 8, "STEPS_OF_AN_UPDATE": 64, "N_MINIBATCHES": 4, "N_EPOCHS": 1},
    "recurrent": {"ROLLOUT_LENGTH": 8, "WIDTH": 8},
    "replay": {"N_FIRST_UPDATES": 200, "HIDDEN_LAYERS": (8, 8)},
}
NEEDS = {
    "atari.py": ("ale_py", "cv2", "tyro"),
    "brax_ppo.py": ("brax",),
    "craftax_classic.py": ("craftax",),
    "kernels.py": ("jax_plugins.xla_cuda13",),
}
"""Packages that only these scripts need."""
IN_PROCESSES = {"ablation.py", "learners.py", "scaling.py"}
"""Scripts whose workers run as processes, as for users. The others start theirs the same way."""


def take_turns_here(commands, n_turns, timeout, **variables):
    """Runs workers in this process, one after the other, and returns their results."""
    results = {}
    for library, command in commands.items():
        _, worker, *options = map(str, command)
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.setattr(sys, "argv", [worker, *options])
            patch.setattr(sys, "stdin", io.StringIO("\n" * min(n_turns, 2)))
            runpy.run_path(worker, run_name="__main__")
        lines = printed.getvalue().splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("{"))
        results[library] = json.loads(lines[start])
        for seconds in lines[start + 1 :]:
            importlib.import_module("peers").add_turn(results[library], float(seconds))
    return results


def documentation():
    return {path: path.stat().st_mtime_ns for path in (REPOSITORY / "docs").rglob("*")}


TURNS = """
import json, sys
print("not a report")
print(json.dumps({"library": sys.argv[1], "steps_of_a_turn": 10}), flush=True)
for i, _ in enumerate(sys.stdin):
    if i == int(sys.argv[2]):
        raise SystemExit(3)
    print(2.0 if sys.argv[1] == "slow" else 1.0, flush=True)
"""


def test_libraries_train_in_turns(tmp_path, monkeypatch, capfd):
    monkeypatch.syspath_prepend(BENCHMARKS)
    peers, reports = map(importlib.import_module, ("peers", "reports"))
    (tmp_path / "worker.py").write_text(TURNS)
    ends = {"fast": "9", "slow": "9", "fails": "1"}
    worker = [sys.executable, tmp_path / "worker.py"]
    found = peers.take_turns({who: [*worker, who, at] for who, at in ends.items()}, 3, timeout=60.0)
    assert found["fast"]["turns"] == [10.0] * 3
    assert found["slow"]["steps_per_second"] == 5.0
    assert found["fails"] == {"failure": "failed with exit code 3"}
    assert reports.ratios_of([(found["fast"], found["slow"])], "steps_per_second") == [2.0] * 3
    assert reports.ratios_of([(found["fast"], found["fails"])], "steps_per_second") == []


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
        monkeypatch.setattr(importlib.import_module("peers"), "take_turns", take_turns_here)
        for module, sizes in SMALL.items():
            for name, size in sizes.items():
                monkeypatch.setattr(importlib.import_module(module), name, size)
    monkeypatch.setattr(sys, "argv", [script, *shlex.split(options)])
    runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    for file in files:
        assert (tmp_path / file).stat().st_size > 0, file
    report = (tmp_path / files[0]).read_text()
    assert report.removeprefix("---\nsearch:\n  boost: 0.5\n---\n\n").startswith("# ")
    assert row in report
    assert "failed" not in report
    assert documentation() == before
