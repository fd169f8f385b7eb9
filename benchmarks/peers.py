"""Fresh processes for what is measured, and virtual environments of other libraries."""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).parent / "workers"
VENVS = Path(__file__).parent / ".venvs"
OURS = "jaxagents"
SHARED_PACKAGES = ("jax", "jaxlib", "flax", "optax")
PYTORCH_FOR_CPU = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")
SB3 = ("stable-baselines3==2.9.2", "minatar==1.0.15", *PYTORCH_FOR_CPU)
ENVIRONMENTS = {  # what pip is to install
    "rejax": ("rejax==0.1.3", "gymnax==0.0.9"),
    "sbx": ("sbx-rl==0.28.0", "gymnasium[mujoco]", *SB3),
    "sb3": SB3,
    "purejaxrl": ("gymnax==0.0.9", "distrax==0.1.9"),
    "jaxmarl": ("jaxmarl==0.2.0", "distrax==0.1.9", "omegaconf==2.3.0", "hydra-core==1.3.2"),
    "sb3-atari": (*SB3, "ale-py", "opencv-python-headless"),
}

Result = dict[str, Any]
Round = dict[str, Result]
"""The results of libraries that were measured one after the other, by their names."""


def python_of(name: str) -> Path:
    """The Python of a library's environment, which is made from PyPI, or completed if it is there.

    All but those of Stable-Baselines3 have the versions of JAX, Flax and Optax that are installed here.
    """
    folder = VENVS / name
    python = folder / "bin" / "python"
    shared = () if name.startswith("sb3") else SHARED_PACKAGES
    packages = [*ENVIRONMENTS[name], *(f"{package}=={version(package)}" for package in shared)]
    print(f"Setting up {folder}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    (VENVS / ".gitignore").write_text("*\n")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=600)
    install = [python, "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(install, check=True, timeout=1800)
    return python


def run_worker(command: Sequence[object], timeout: float, **variables: str) -> Result:
    """Runs a worker in a fresh process, and in a folder of its own, which goes with what it leaves.

    Args:
        command: Its command line.
        timeout: Seconds after which it is ended.
        **variables: Environment variables.

    Returns:
        What it measured, or only `failure`.
    """
    environment = {"JAX_PLATFORMS": "cpu", **os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment |= variables
    with tempfile.TemporaryDirectory() as folder:
        environment["TMPDIR"] = folder
        how = {"capture_output": True, "text": True, "env": environment, "cwd": folder}
        try:
            done = subprocess.run([str(word) for word in command], timeout=timeout, **how)
        except subprocess.TimeoutExpired:
            return {"failure": f"timed out after {timeout:g} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return {"failure": f"failed with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def exit_if_any_failed(results: Iterable[Result]) -> None:
    """Ends with an error if a run failed; the report is written by then."""
    if any("failure" in result for result in results):
        sys.exit("Some runs failed.")


def parser(description: str, timeout: float) -> argparse.ArgumentParser:
    """The options of all benchmarks that start processes."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    about = "seconds after which a process is ended"
    made.add_argument("--timeout", type=float, default=timeout, help=about)
    return made


def parser_of_two(
    description: str, libraries: Iterable[str], timeout: float
) -> argparse.ArgumentParser:
    """The options of a benchmark of this library and another."""
    made = parser(description, timeout)
    add = made.add_argument
    names = list(libraries)
    add("--libraries", nargs="+", choices=names, default=names, help="who")
    add("--peer-python", type=Path, help="Python that has the other; by default one is set up")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return made


def positive(text: str) -> int:
    """Reads a positive number."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be positive")
    return number


def named_path(text: str) -> tuple[str, Path]:
    """Reads `NAME=PATH`."""
    name, _, path = text.partition("=")
    if name not in ENVIRONMENTS or not path:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=PATH")
    return name, Path(path).absolute()


def in_turns(
    workers: dict[str, tuple[str, str]],
    works: dict[str, list[str]],
    n_rounds: int,
    args: argparse.Namespace,
) -> dict[str, list[Round]]:
    """Runs libraries in turns, in fresh processes.

    Args:
        workers: Environment and file of each library, ours first.
        works: Options of the workers, by what is measured.
        n_rounds: Number of processes for each library and work, which differ in their seeds.
        args: Options of the command line.
    """
    commands = {}
    for library in sorted(args.libraries, key=list(workers).index):
        name, file = workers[library]
        python = sys.executable if name == OURS else args.peer_python or python_of(name)
        commands[library] = [python, WORKERS / file]
    rounds: dict[str, list[Round]] = {work: [] for work in works}
    for seed, (work, options) in itertools.product(range(n_rounds), works.items()):
        results = {}
        for library, command in commands.items():
            results[library] = run_worker([*command, *options, f"--seed={seed}"], args.timeout)
            print(f"{library}, {work}, round {seed}: {results[library]}", file=sys.stderr)
        rounds[work].append(results)
    return rounds
