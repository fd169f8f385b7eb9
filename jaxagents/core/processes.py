"""Communication between the processes of one run."""

import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree


def leads() -> bool:
    """Whether this is the first process."""
    return jax.process_index() == 0


def agreed(number: int) -> int:
    """Broadcasts a number from the first process.

    Args:
        number: The number of this process.

    Returns:
        The same number in all processes.
    """
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def gathered(tree: PyTree) -> PyTree:
    """Gathers arrays from all processes.

    Args:
        tree: The arrays of this process, with the same shapes in all.

    Returns:
        The arrays of all processes, stacked along a first axis; the same in each process.
    """
    return multihost_utils.process_allgather(tree)


def processes_without(flag: bool) -> list[int]:
    """The processes that do not set a flag.

    Args:
        flag: Whether this process sets it.

    Returns:
        Their indices, the same in all processes.
    """
    flags = np.atleast_1d(multihost_utils.process_allgather(np.asarray(flag)))
    return np.flatnonzero(~flags).tolist()


def any_process(flag: bool) -> bool:
    """Whether any process sets a flag.

    Args:
        flag: Whether this process sets it.

    Returns:
        Whether any does, the same in all processes.
    """
    return len(processes_without(flag)) < jax.process_count()
