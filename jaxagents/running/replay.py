"""Making a stretch of a training once more, update by update."""

import contextlib
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.checkpoints import records as checkpoint
from jaxagents.checkpoints.notes import CorruptCheckpointError
from jaxagents.core.finite import not_finite
from jaxagents.core.metrics import Metrics, stack_metrics
from jaxagents.running.trainable import Trainable
from jaxagents.running.where import program_of


class Replay(NamedTuple):
    """A stretch of a training that was made once more.

    Attributes:
        runner: The runner after its last update, bit for bit that of the training.
        metrics: `update_step` and all that each update reports, such as losses and gradient norms, with
            a leading axis of updates.
        not_finite_since: The first update after which a number was not finite, if there was one.
        not_finite: Names of the arrays that were not finite then.
        minibatches: The losses, gradient norms and whatever else each minibatch reported, by name,
            shaped `(n_updates, minibatches)`. Those of all epochs of an on-policy agent come one after
            the other; `actor_kept` is false for those of epochs that early stopping undid. Empty for
            families of agents that report none.
        not_finite_minibatch: The update, and the index of its minibatch, of the first one with a number
            that is not finite, if there was one.
    """

    runner: PyTree
    metrics: Metrics
    not_finite_since: int | None
    not_finite: list[str]
    minibatches: Metrics
    not_finite_minibatch: tuple[int, int] | None


def replay(agent: Trainable, first: int, n_updates: int, hyperparams: PyTree) -> Replay:
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
    program = program_of(agent)
    reports, of_minibatches = [], []
    found = not_finite(agent.vital_arrays(runner))
    since = first if found else None
    for step in range(first + 1, first + n_updates + 1):
        if step - 1 > first and step - 1 in steps:
            with contextlib.suppress(CorruptCheckpointError):
                runner, _ = checkpoint.restore(agent, step - 1, None, hyperparams)
        of_minibatches.append(jax.device_get(program.reports_of_minibatches(runner)))
        runner = agent.advance(runner, np.int32(1))
        reports.append({"update_step": np.int32(step), **jax.device_get(runner.info)})
        if not found and (found := not_finite(agent.vital_arrays(runner))):
            since = step
    minibatches = stack_metrics(of_minibatches)
    at = _first_not_finite(minibatches)
    where = None if at is None else (first + 1 + at[0], at[1])
    return Replay(runner, stack_metrics(reports), since, found, minibatches, where)


def _first_not_finite(minibatches: Metrics) -> tuple[int, int] | None:
    """The indices of the first update and minibatch with a number that is not finite."""
    each = [np.argwhere(~np.isfinite(numbers)).tolist() for numbers in minibatches.values()]
    firsts = [(indices[0][0], indices[0][1]) for indices in each if indices]
    return min(firsts, default=None)
