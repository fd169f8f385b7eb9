"""Making a stretch of a training once more, update by update."""

import contextlib
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.checkpoints import records as checkpoint
from jaxagents.checkpoints.notes import CorruptCheckpointError
from jaxagents.core.metrics import Metrics, stack_metrics
from jaxagents.core.report import not_finite


class Replay(NamedTuple):
    """A stretch of a training that was made once more.

    Attributes:
        runner: The runner after its last update, bit for bit that of the training.
        metrics: `update_step` and all that each update reports, such as losses and gradient norms, with
            a leading axis of updates.
        not_finite_since: The first update after which a number was not finite, if there was one.
        not_finite: Names of the arrays that were not finite then.
    """

    runner: PyTree
    metrics: Metrics
    not_finite_since: int | None
    not_finite: list[str]


def replay(agent: Any, first: int, n_updates: int, hyperparams: PyTree) -> Replay:
    """Goes from the nearest checkpoint to some update without a word, and looks at each after it.

    It goes on from each checkpoint that it comes by, which knows the hyperparameters from there on.

    Args:
        agent: The agent, whose configuration names the folder.
        first: Number of updates made before the stretch.
        n_updates: Number of updates in it.
        hyperparams: Hyperparameters structured as those of the checkpoint.

    Returns:
        The stretch.

    Raises:
        FileNotFoundError: There is no checkpoint from which it can be reached.
        ValueError: The checkpoint was made without its replay buffer.
    """
    directory = agent.config.checkpoint_dir
    if directory is None:
        raise FileNotFoundError(
            "This agent has no checkpoint_dir, from which a stretch of a training could be made once "
            "more: set it in the configuration."
        )
    steps = checkpoint.saved_steps(directory)
    reachable = [step for step in steps if step <= first]
    if not reachable:
        raise FileNotFoundError(
            f"Update {first} cannot be reached from any checkpoint in {directory}, which holds {steps}."
        )
    runner, _ = checkpoint.restore(agent, reachable[-1], None, hyperparams)
    if getattr(runner, "buffer", runner) is None:
        raise ValueError(
            "The checkpoints were made without their replay buffers (checkpoint_buffer=False), and "
            "without those no training can be made once more."
        )
    runner = agent.advance(runner, np.int32(first - reachable[-1]))
    reports = []
    found = not_finite(agent.vital_arrays(runner))
    since = first if found else None
    for step in range(first + 1, first + n_updates + 1):
        if step - 1 > first and step - 1 in steps:
            with contextlib.suppress(CorruptCheckpointError):
                runner, _ = checkpoint.restore(agent, step - 1, None, hyperparams)
        runner = agent.advance(runner, np.int32(1))
        reports.append({"update_step": np.int32(step), **jax.device_get(runner.info)})
        if not found and (found := not_finite(agent.vital_arrays(runner))):
            since = step
    return Replay(runner, stack_metrics(reports), since, found)
