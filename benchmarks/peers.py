"""Runs workers in fresh processes, and sets up virtual environments for other libraries."""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).parent / "workers"
VENVS = Path(__file__).parent / ".venvs"
OURS = "jaxagents"
N_TURNS = 5
STEPS_OF_A_TURN = "steps_of_a_turn"
SHARED_PACKAGES = ("jax", "jaxlib", "flax", "optax")
PYTORCH_FOR_CPU = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")
SB3 = ("stable-baselines3==2.9.2", "minatar==1.0.15", *PYTORCH_FOR_CPU)
ENVIRONMENTS = {  # the packages to install
    "rejax": ("rejax==0.1.3", "gymnax==0.0.9"),
    "sbx": ("sbx-rl==0.28.0", "gymnasium[mujoco]", *SB3),
    "sb3": SB3,
    "purejaxrl": ("gymnax==0.0.9", "distrax==0.1.9"),
    "jaxmarl": ("jaxmarl==0.2.0", "distrax==0.1.9", "omegaconf==2.3.0", "hydra-core==1.3.2"),
    "sb3-atari": (*SB3, "ale-py", "opencv-python-headless"),
}

Result = dict[str, Any]
Round = dict[str, Result]
"""The result of each library in one round, by library name."""


def python_of(name: str) -> Path:
    """Sets up a library's virtual environment from PyPI if needed, and returns its Python.

    Except for Stable-Baselines3, it gets the versions of JAX, Flax and Optax that are installed here.
    """
    shared = () if name.startswith("sb3") else SHARED_PACKAGES
    folder = VENVS / (f"{name}-jax-{version('jax')}" if shared else name)
    python = folder / "bin" / "python"
    packages = [*ENVIRONMENTS[name], *(f"{package}=={version(package)}" for package in shared)]
    print(f"Setting up {folder}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    (VENVS / ".gitignore").write_text("*\n")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=600)
    install = [python, "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(install, check=True, timeout=1800)
    return python


def run_worker(command: Sequence[object], timeout: float, **variables: str) -> Result:
    """Runs one worker on its own; see `take_turns`."""
    return take_turns({OURS: command}, N_TURNS, timeout, **variables)[OURS]


def take_turns(
    commands: dict[str, Sequence[object]], n_turns: int, timeout: float, **variables: str
) -> Round:
    """Runs workers that train in turns, in alternating order, each while the others wait.

    A slow phase of the machine then affects all of them alike, so the ratios of each turn are exact to a
    few percent. Workers that do not take turns run one after the other.

    Args:
        commands: The command line of each library.
        n_turns: Number of timed runs of each worker, after compilation.
        timeout: Seconds before a worker is killed.
        **variables: Environment variables.

    Returns:
        The report of each worker with its speed in each turn (`turns`) and their median; only `failure`
        if it failed.
    """
    with contextlib.ExitStack() as stack:
        players = {
            library: stack.enter_context(Player(command, timeout, variables))
            for library, command in commands.items()
        }
        for turn in range(n_turns):
            for player in list(players.values())[:: -1 if turn % 2 else 1]:
                player.take_turn()
        return {library: player.result for library, player in players.items()}


def add_turn(result: Result, seconds: float) -> None:
    """Adds the speed of one turn, given its duration in seconds, and updates the median."""
    turns = result.setdefault("turns", [])
    turns.append(result[STEPS_OF_A_TURN] / seconds)
    result["steps_per_second"] = statistics.median(turns)


class Player:
    """A worker in a fresh process, with a temporary working directory.

    Attributes:
        result: Its measurements so far; only `failure` if it failed.
    """

    def __init__(
        self, command: Sequence[object], timeout: float, variables: dict[str, str]
    ) -> None:
        """Starts the process and waits for its report."""
        self._left = contextlib.ExitStack()
        folder = self._left.enter_context(tempfile.TemporaryDirectory())
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._errors = self._left.enter_context(errors)
        environment = {"JAX_PLATFORMS": "cpu", **os.environ, "TMPDIR": folder}
        environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false"} | variables
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=folder,
            env=environment,
        )
        self._timer = threading.Timer(timeout, self._process.kill)
        self._timer.start()
        self.result: Result = {}
        report = self._next_line()
        self.result = self.result or json.loads(report)
        self._takes_turns = STEPS_OF_A_TURN in self.result

    def take_turn(self) -> None:
        """Times one more run, if the worker takes turns."""
        if not self._takes_turns or "failure" in self.result:
            return
        print(file=self._process.stdin, flush=True)
        seconds = self._next_line()
        if seconds:
            add_turn(self.result, float(seconds))

    def _next_line(self) -> str:
        """The next line of output; if there is none, stores the `failure` as the result."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{") or self.result:
                return line
        self._errors.seek(0)
        print(self._errors.read(), file=sys.stderr)
        code = self._process.wait()
        timed_out = not self._timer.is_alive()
        self.result = {"failure": "timed out" if timed_out else f"failed with exit code {code}"}
        return ""

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.communicate()
        self._left.close()


def exit_if_any_failed(results: Iterable[Result]) -> None:
    """Exits with an error if a run failed. Call it after writing the report."""
    if any("failure" in result for result in results):
        sys.exit("Some runs failed.")


def parser(description: str, timeout: float) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark that starts processes."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    about = "seconds before a process is killed"
    made.add_argument("--timeout", type=float, default=timeout, help=about)
    return made


def parser_of_two(
    description: str, libraries: Iterable[str], timeout: float
) -> argparse.ArgumentParser:
    """A parser with the options of a benchmark that compares this library with another."""
    made = parser(description, timeout)
    add = made.add_argument
    names = list(libraries)
    add("--libraries", nargs="+", choices=names, default=names, help="libraries to run")
    add("--peer-python", type=Path, help="Python with the other library (default: set one up)")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return made


def positive(text: str) -> int:
    """Parses a positive integer."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be positive")
    return number


def named_path(text: str) -> tuple[str, Path]:
    """Parses `NAME=PATH`."""
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
    """Runs the libraries in turns, in fresh processes.

    Args:
        workers: Virtual environment and file of each library's worker, ours first.
        works: Options of the workers for each piece of work.
        n_rounds: Number of processes per library and piece of work, each with another seed.
        args: Command-line options.
    """
    commands = {}
    for library in sorted(args.libraries, key=list(workers).index):
        name, file = workers[library]
        python = sys.executable if name == OURS else args.peer_python or python_of(name)
        commands[library] = [python, WORKERS / file]
    rounds: dict[str, list[Round]] = {work: [] for work in works}
    for seed, (work, options) in itertools.product(range(n_rounds), works.items()):
        seeded = {who: [*line, *options, f"--seed={seed}"] for who, line in commands.items()}
        results = take_turns(seeded, N_TURNS, args.timeout)
        print(f"{work}, round {seed}: {results}", file=sys.stderr)
        rounds[work].append(results)
    return rounds
