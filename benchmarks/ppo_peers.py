"""The libraries that have PPO: where each lives, and what it can learn."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import peers
from peers import Result
from workers.tasks import BREAKOUT, CARTPOLE, PENDULUM, SPREAD, Task

OURS = "jaxagents"
OLD = "jaxagents-0.2.5"
REPOSITORY = Path(__file__).parent.parent
JAXMARL_REPOSITORY = "https://github.com/FLAIROx/JaxMARL"
JAXMARL_COMMIT = "c793d095618c6d3edfb5632802348f57b70a4b94"
PYTORCH_FOR_CPU = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")


class Environment(NamedTuple):
    """A virtual environment.

    Attributes:
        packages: What pip is to install.
        shares_jax: Whether it has the versions of JAX, Flax and Optax that are installed here.
        alone: What pip is to install without its dependencies.
    """

    packages: tuple[str, ...]
    shares_jax: bool = True
    alone: tuple[str, ...] = ()


class Worker(NamedTuple):
    """What runs in a process.

    Attributes:
        file: Its program, in the folder of workers.
        environment: The virtual environment that it needs, `OURS` for the one that runs this.
    """

    file: str
    environment: str


ENVIRONMENTS = {
    "rejax": Environment(("rejax==0.1.3", "gymnax==0.0.9")),
    "jaxnasium": Environment(("jaxnasium[algs]==0.1.1", "gymnax==0.0.9")),
    "sbx": Environment(
        ("sbx-rl==0.28.0", "stable-baselines3==2.9.2", "minatar==1.0.15", *PYTORCH_FOR_CPU)
    ),
    "sb3": Environment(
        ("stable-baselines3==2.9.2", "minatar==1.0.15", *PYTORCH_FOR_CPU), shares_jax=False
    ),
    OLD: Environment(
        (
            "jax==0.4.30",
            "jaxlib==0.4.30",
            "flax==0.8.5",
            "optax==0.2.3",
            "chex==0.1.86",
            "distrax==0.1.5",
            "gymnax==0.0.6",
            "flashbax==0.1.2",
            "jax-tqdm==0.2.1",
            "jaxtyping==0.2.34",
            "orbax==0.1.9",
            "numpy==2.0.2",
            "scipy==1.13.1",
            "setuptools<81",
        ),
        shares_jax=False,
        alone=("jaxagents==0.2.5",),  # it depends on a JAX for CUDA
    ),
    "jaxmarl": Environment(
        (
            "jaxmarl==0.2.0",
            "distrax",
            "hydra-core",
            "omegaconf",
            "wandb",
            "--editable",
            str(REPOSITORY),
        )
    ),
}

LIBRARIES: dict[str, dict[Task, Worker]] = {
    OURS: dict.fromkeys((CARTPOLE, BREAKOUT, PENDULUM), Worker("jaxagents_ppo.py", OURS))
    | {SPREAD: Worker("jaxagents_ippo.py", "jaxmarl")},
    "rejax": dict.fromkeys((CARTPOLE, BREAKOUT, PENDULUM), Worker("rejax_ppo.py", "rejax")),
    "jaxnasium": dict.fromkeys(
        (CARTPOLE, BREAKOUT, PENDULUM), Worker("jaxnasium_ppo.py", "jaxnasium")
    ),
    "sbx": dict.fromkeys((CARTPOLE, BREAKOUT, PENDULUM), Worker("sbx_ppo.py", "sbx")),
    "sb3": dict.fromkeys((CARTPOLE, BREAKOUT, PENDULUM), Worker("sb3_ppo.py", "sb3")),
    OLD: dict.fromkeys((CARTPOLE, BREAKOUT, PENDULUM), Worker("jaxagents_old_ppo.py", OLD)),
    "jaxmarl": {SPREAD: Worker("jaxmarl_ippo.py", "jaxmarl")},
}


class Processes:
    """Starts workers, each in its virtual environment, which is made when it is first needed."""

    def __init__(self, pythons: dict[str, Path], jaxmarl_source: Path | None, timeout: float):
        """Makes nothing yet.

        Args:
            pythons: Pythons of environments that are there already.
            jaxmarl_source: A checkout of JaxMARL; one is made if it is `None`.
            timeout: Seconds after which a process is ended.
        """
        self.pythons = {OURS: Path(sys.executable), **pythons}
        self.jaxmarl_source = jaxmarl_source
        self.timeout = timeout
        self.failures: dict[Worker, str] = {}

    def run(self, library: str, task: Task, options: Iterable[str]) -> Result:
        """What a library measures, or only `failure`, also where it could not be set up."""
        worker = LIBRARIES[library][task]
        if worker in self.failures:
            return {"failure": self.failures[worker]}
        try:
            python = self._python(worker.environment)
            variables = {"JAXMARL_SOURCE": str(self._source())} if library == "jaxmarl" else {}
        except (OSError, subprocess.SubprocessError) as error:
            self.failures[worker] = f"could not be set up: {type(error).__name__}"
            return {"failure": self.failures[worker]}
        command = [str(python), str(peers.WORKERS / worker.file)]
        command += [f"--environment={task.environment}", *options]
        return peers.run_worker(command, self.timeout, **variables)

    def _python(self, name: str) -> Path:
        if name not in self.pythons:
            self.pythons[name] = peers.make_environment(name, *ENVIRONMENTS[name])
        return self.pythons[name]

    def _source(self) -> Path:
        """A checkout of JaxMARL, whose IPPO is not in its wheel."""
        if self.jaxmarl_source is None:
            folder = peers.VENVS / "jaxmarl-source"
            git = ["git", "-C", str(folder)]
            folder.mkdir(parents=True, exist_ok=True)
            for command in (
                [*git, "init", "--quiet"],
                [*git, "fetch", "--depth=1", JAXMARL_REPOSITORY, JAXMARL_COMMIT],
                [*git, "checkout", "--quiet", JAXMARL_COMMIT],
            ):
                subprocess.run(command, check=True, timeout=600)
            self.jaxmarl_source = folder
        return self.jaxmarl_source
