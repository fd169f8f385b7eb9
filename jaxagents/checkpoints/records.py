"""Checkpoints of an agent's training in a folder of its own."""

import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxagents.checkpoints.shared_writer import SharedWriter
from jaxagents.checkpoints.store import CorruptCheckpointError, Store
from jaxagents.checkpoints.writer import Writer, write_description
from jaxagents.core.metrics import Metrics, join
from jaxagents.loggers import JSONLLogger

__all__ = [
    "CorruptCheckpointError",
    "Records",
    "check_folder",
    "restore",
    "saved_steps",
    "write_description",
]


class AgentStore(Store):
    """The checkpoints of an agent's training."""

    item = "runner"
    owner = "agent"
    unit = "update"
    step_name = "update_step"
    if_filled = "Set restore_agent=True in the configuration to restore from them"
    if_behind = (
        "Go on from the last checkpoint (runner, _ = agent.restore('last') and "
        "agent.train(None, hyperparams, runner))"
    )


def check_folder(directory: str | os.PathLike, may_be_filled: bool) -> None:
    """Raises if a folder cannot take the checkpoints of an agent.

    Args:
        directory: The folder, which need not exist.
        may_be_filled: Whether it may hold checkpoints already.

    Raises:
        NotADirectoryError: It is a file.
        FileExistsError: It holds checkpoints and may not.
    """
    AgentStore(directory).check(may_be_filled)


def saved_steps(directory: str | os.PathLike) -> list[int]:
    """Update steps of the finished checkpoints in a folder, in order."""
    return AgentStore(directory).steps()


def restore(
    agent: Any, mode: str | int, best_fn: Callable[[Metrics], Any] | None, hyperparams: Any
) -> tuple[Any, Metrics]:
    """Reads a checkpoint of an agent.

    Args:
        agent: The agent, whose configuration names the folder.
        mode: `"best"`, `"last"`, or the number of an update step.
        best_fn: Maps the metrics at the kept checkpoints to the index of the best.
        hyperparams: Hyperparameters structured as those that were saved.

    Returns:
        The runner, and the history of metrics up to it.
    """
    if agent.config.checkpoint_dir is None:
        raise FileNotFoundError(
            "This agent has no checkpoint_dir to restore from: set it in the configuration."
        )
    store = AgentStore(agent.config.checkpoint_dir)

    def fresh(rng: Any, hyperparams: Any) -> Any:
        return agent.checkpointed(agent.start(rng, hyperparams))

    template = jax.eval_shape(fresh, jax.random.key(0), hyperparams)
    runner, history, _ = store.first_readable(
        mode, best_fn, lambda step: store.read(step, _identity(agent), template)
    )
    return runner, history


class Records:
    """Keeps the records of one training in the agent's checkpoint folder, which it locks.

    The folder holds `config.json`, `hyperparameters.json`, `metrics.jsonl` and `checkpoints/`.
    """

    def __init__(
        self, agent: Any, runner: Any, earlier: Metrics | None, together: bool = False
    ) -> None:
        """Prepares the records; nothing is written before the context is entered.

        Args:
            agent: The agent.
            runner: Where the training starts.
            earlier: Metrics of the trainings that it goes on from.
            together: Whether all processes make the training, and these records.
        """
        writer = SharedWriter if together else Writer
        store = AgentStore(agent.config.checkpoint_dir)
        self._checkpointed = agent.checkpointed
        self._earlier = earlier
        self._writer = writer(
            store,
            _identity(agent),
            keep=agent.config.keep_checkpoints,
            start=int(runner.update_step),
            descriptions={"config": _description(agent), "hyperparameters": runner.hyperparams},
        )
        self.logger = JSONLLogger(store.directory / "metrics.jsonl")

    def __enter__(self) -> "Records":
        """Locks the folder and describes the training in it.

        Raises:
            FileExistsError: Another training writes to the folder, or it holds later checkpoints.
        """
        self._writer.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for the last checkpoint and unlocks the folder."""
        self._writer.__exit__(*exception)

    def on_chunk(self, n_updates: int) -> None:
        """Does nothing."""

    def on_point(self, runner: Any, history: Metrics) -> None:
        """Saves a checkpoint, known by its mean return."""
        mean_return = float(np.mean(history["returns"][-1])) if "returns" in history else None
        self._save(runner, history, mean_return)

    def on_interruption(self, runner: Any, history: Metrics) -> None:
        """Saves a checkpoint, which has no return to compete with the best."""
        self._save(runner, history, None)

    def _save(self, runner: Any, history: Metrics, mean_return: float | None) -> None:
        step = int(runner.update_step)
        tree = self._checkpointed(runner)
        self._writer.save(step, tree, join(self._earlier, history), mean_return)


def _description(agent: Any) -> dict[str, Any]:
    return {
        **_identity(agent),
        "env_params": agent.env_params,
        "config": agent.config.computation(),
    }


def _identity(agent: Any) -> dict[str, str]:
    return {"agent": type(agent).__qualname__, "environment": agent.episodes.env.name}
