"""The records of a sweep: its members' runners together in one checkpoint, so that none is ahead."""

from collections.abc import Callable
from pathlib import Path

import jax
from jaxtyping import PyTree

from jaxagents.checkpoints.recorded import RecordedAgent, RecordedConfig
from jaxagents.checkpoints.records import (
    Records,
    Snapshot,
    description_of,
    identity_of,
    with_saved_info,
)
from jaxagents.checkpoints.store import Restored, Store
from jaxagents.checkpoints.writer import Writer
from jaxagents.core.grid import Grid
from jaxagents.core.metrics import Metrics

SWEEP = "sweep"
"""Name of the folder of a sweep, within that of the configuration."""

_GRID = "grid"


class SweepStore(Store):
    """The checkpoints of a sweep."""

    @classmethod
    def of(cls, config: RecordedConfig) -> "SweepStore | None":
        """That of a configuration: in a folder of its own, beside the records of a training.

        Args:
            config: The configuration.

        Returns:
            The store; `None` if nothing is saved.
        """
        return None if config.checkpoint_dir is None else cls(Path(config.checkpoint_dir) / SWEEP)

    item = "members"
    owner = "sweep"
    unit = "update"
    step_name = "update_step"
    if_filled = "Set restore_agent=True in the configuration to go on from them"
    if_behind = "Set restore_agent=True in the configuration to go on from the last checkpoint"
    if_unsaved = "What is not saved is in the runners that are returned, and nowhere else"


def restore_members(agent: RecordedAgent, grid: Grid) -> Restored | None:
    """Reads the last checkpoint of a sweep, if there is one.

    Args:
        agent: The agent, whose configuration names the folder.
        grid: The members.

    Returns:
        The stack of their runners, and the history of metrics; `None` if there is no checkpoint.

    Raises:
        FileExistsError: There are checkpoints, and `restore_agent` is not set.
        ValueError: They are of another agent, or of other members; the first difference is named.
        CorruptCheckpointError: None can be read.
    """
    store = SweepStore.of(agent.config)
    if store is None:
        return None
    store.check(agent.config.restore_agent)
    if not store.steps():
        return None

    def read(step: int) -> Restored:
        notes = store.notes(step)
        store.check_identity(step, notes, identity_of(agent))
        difference = grid.difference(notes[_GRID])
        if difference is not None:
            raise ValueError(
                f"{store.place(step)} is of another sweep: {difference}. Give what it began with, or "
                "choose another checkpoint_dir. Nothing was changed."
            )
        template = with_saved_info(_stack_as_shapes(agent, grid), notes)
        return store.read(step, identity_of(agent), template)

    return store.first_readable("last", None, read)


def records_of_sweep(
    agent: RecordedAgent,
    grid: Grid,
    gather: Callable[[PyTree], PyTree],
    first: int,
    earlier: Metrics | None,
) -> Records:
    """The records of a sweep: also `hyperparameters.json`, with all sets.

    Args:
        agent: The agent, whose configuration names the folder.
        grid: The members.
        gather: Makes one stack of their runners.
        first: Number of updates made earlier.
        earlier: Metrics up to there.

    Returns:
        The records.
    """

    def snapshot(runners: PyTree) -> Snapshot:
        stack = agent.checkpointed(gather(runners))
        return Snapshot(int(stack.update_step[0]), stack, {_GRID: grid.notes()})

    store = SweepStore.of(agent.config)
    assert store is not None
    writer = Writer(
        store,
        identity_of(agent),
        keep=agent.config.keep_checkpoints,
        start=first,
        descriptions={"config": description_of(agent), "hyperparameters": grid.sets},
    )
    return Records(store, writer, snapshot, earlier)


def _stack_as_shapes(agent: RecordedAgent, grid: Grid) -> PyTree:
    hyperparams = jax.tree.map(lambda x: x[0], grid.sets)
    one = jax.eval_shape(
        lambda *args: agent.checkpointed(agent.start(*args)), grid.seeds[0], hyperparams
    )
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((grid.n_members, *x.shape), x.dtype), one)
