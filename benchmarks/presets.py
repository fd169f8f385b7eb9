"""Runs `jaxagents train` with the preset of each agent, with several seeds, one after the other.

Each seed is a command of its own, as a user types it, and the first of a preset compiles everything.
The file of results keeps the learning curve of each preset; a run replaces its own. The table is made of
all that is there. Presets for MinAtar take longer: they run if they are named.
"""

import argparse
import datetime
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import reports
from off_policy_tasks import mixed_data

from jaxagents.catalogue import CATALOGUE, PRESETS, preset_of
from jaxagents.cli.runs import Run
from jaxagents.data import Dataset

QUICK = [name for name, settings in PRESETS.items() if "MinAtar" not in settings.env]


def main() -> None:
    """Trains, and prints the table."""
    args = parse_args()
    for name in args.only if not args.report else ():
        reports.keep(args.output, name, result=run(name, args.seeds))
    found = reports.kept(args.output)
    rows = [row(name, found[name]) for name in PRESETS if name in found]
    table = reports.table(["Preset", "Steps", "CPU seconds", "Return of each seed"], rows)
    reports.write(f"# What presets learn\n\n{table}", args.markdown)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=PRESETS, default=QUICK, metavar="PRESET")
    add("--seeds", type=int, default=3, help="seeds of each preset")
    add("--report", action="store_true", help="only print the table")
    add("--output", type=Path, default=Path("runs/presets.json"), help="file of the results")
    add("--markdown", type=Path, help="file for the table")
    return parser.parse_args()


def run(name: str, n_seeds: int) -> dict[str, Any]:
    """Trains an agent with several seeds, and gives what describes the runs."""
    words = ["jaxagents", "train", PRESETS[name].agent, PRESETS[name].env]
    if preset_of(*words[2:]) != name:
        words += ["--preset", name]
    with tempfile.TemporaryDirectory() as folder:
        if CATALOGUE[words[2]].learns_from_data:
            data = _demonstrations() if words[2] == "bc" else _data()
            data.save(Path(folder, "pendulum.npz"))
            words += ["--dataset", "pendulum.npz"]
        results = [train(words, seed, Path(folder)) for seed in range(n_seeds)]
    return {
        "command": shlex.join(words),
        "seeds": n_seeds,
        "x_label": results[0]["x_label"],
        "env_steps": results[0]["steps"],
        "returns": [result["returns"] for result in results],
        "final": [result["final"] for result in results],
        "seconds": results[0]["seconds"],
        "cpu_seconds": results[0]["cpu_seconds"],
        "cpu": f"{reports.processor()}, {reports.n_cores()} cores",
        "date": f"{datetime.date.today():%Y-%m-%d}",
    }


_data = functools.cache(lambda: mixed_data(10_000))


def _demonstrations() -> Dataset:
    """The episodes of the trained agent, which are the first half of the data."""
    return _data().get_subset(slice(len(_data()) // 2))


def train(words: list[str], seed: int, folder: Path) -> dict[str, Any]:
    """Runs a command of training, and gives its times, its learning curve and its last returns."""
    env = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    env |= {"PYTHONPATH": str(Path(__file__).parents[1]), "XDG_CACHE_HOME": str(folder / "cache")}
    run_dir, began = folder / str(seed), time.perf_counter()
    command = [sys.executable, "-m", *words, "--seed", str(seed), "--run-dir", str(run_dir)]
    print(shlex.join(command), file=sys.stderr)
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{shlex.join(words)} ended with status {process.returncode}.")
    lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    points = [json.loads(line) for line in lines]
    per_update = Run.read(run_dir).steps_per_update
    (last,) = re.findall(r"greedy episodes return (\S+)", printed)
    return {
        "x_label": "environment steps" if per_update else "updates",
        "steps": [point["update_step"] * (per_update or 1) for point in points],
        "returns": [round(point["returns"], 2) for point in points],
        "final": float(last),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
    }


def row(name: str, result: dict[str, Any]) -> list[str]:
    """A row of the table."""
    finals = ", ".join(f"{x:,.1f}" for x in result["final"])
    steps = f"{result['env_steps'][-1]:,}"
    if result["x_label"] == "updates":
        steps += " updates"
    return [f"`{name}`", steps, f"{result['cpu_seconds']:.0f}", finals]


if __name__ == "__main__":
    main()
