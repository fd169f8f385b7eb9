"""Agreement between the processes of one training."""

import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree


def leads() -> bool:
    """Whether this is the first of the processes."""
    return jax.process_index() == 0


def agreed(number: int) -> int:
    """The number that the first process gives.

    Args:
        number: The number of this process.

    Returns:
        The same number in all processes.
    """
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def gathered(tree: PyTree) -> PyTree:
    """The arrays that all processes give.

    Args:
        tree: The arrays of this process, of the same shapes in all.

    Returns:
        Those of all along a first axis of processes, the same in each.
    """
    return multihost_utils.process_allgather(tree)


def those_without(flag: bool) -> list[int]:
    """The processes that do not set a flag.

    Args:
        flag: Whether this process sets it.

    Returns:
        Their numbers, the same in all processes.
    """
    flags = np.atleast_1d(multihost_utils.process_allgather(np.asarray(flag)))
    return np.flatnonzero(~flags).tolist()


def in_any(flag: bool) -> bool:
    """Whether any process sets a flag.

    Args:
        flag: Whether this process sets it.

    Returns:
        The same in all processes.
    """
    return len(those_without(flag)) < jax.process_count()
