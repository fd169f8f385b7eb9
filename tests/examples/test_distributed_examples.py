"""The example of several processes, and how it is launched."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

SRUN = """#!/usr/bin/env bash
# Starts two tasks with the variables that Slurm would give them.
set -eu
[ "$1" = --kill-on-bad-exit=1 ]
shift
export SLURM_JOB_ID=$$ SLURM_STEP_NODELIST=localhost SLURM_NTASKS=2 SLURM_LOCALID=0
SLURM_PROCID=1 "$@" &
SLURM_PROCID=0 "$@"
wait $!
"""
TESTS = str(Path(__file__).parents[1])
SIZES = ["--n-envs", "32", "--replicated-updates"]


def test_goes_on_alone_after_slurm(examples, load, tmp_path, monkeypatch, capsys):
    shutil.copytree(examples, tmp_path / "examples")
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin" / "srun"
    srun.write_text(SRUN)
    srun.chmod(0o755)
    path = [tmp_path / "bin", Path(sys.executable).parent, os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "launch/slurm.sh", *SIZES, "--n-steps", "2"],
        cwd=tmp_path / "examples",
        env={**os.environ, "PATH": os.pathsep.join(map(str, path)), "PYTHONPATH": TESTS},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert "2 processes, 2 devices, 2 updates: mean return" in done.stdout

    folder = ["--checkpoint-dir", str(tmp_path / "examples" / "runs" / "shared")]
    script = load("distributed_ppo")
    agent = script.main([*folder, *SIZES, "--n-steps", "3"])
    assert agent.previous_training_max_step == 3
    assert "1 processes, 8 devices, 3 updates: mean return" in capsys.readouterr().out


def test_other_launchers_give_the_script_its_arguments(examples, load):
    jobs = yaml.safe_load((examples / "launch" / "kubernetes.yaml").read_text())["spec"]
    job = jobs["replicatedJobs"][0]["template"]["spec"]
    container = job["template"]["spec"]["containers"][0]
    given = [argument.replace("$(JOB_COMPLETION_INDEX)", "1") for argument in container["args"]]
    args = load("distributed_ppo").parse_args(given)
    assert args.n_processes == job["completions"] == job["parallelism"]
    assert args.process_id == 1
    assert args.coordinator.endswith(f":{container['ports'][0]['containerPort']}")

    ray = ast.parse((examples / "launch" / "ray_cluster.py").read_text())
    options = next(n for n in ast.walk(ray) if isinstance(n, ast.Dict))
    names = [key.value for key in options.keys]
    assert names == ["coordinator", "n-processes", "process-id"]
