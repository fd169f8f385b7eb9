"""Moments of the observations of a dataset, by which networks normalise them."""

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents import ops
from jaxagents.data import rows
from jaxagents.data.normalisation import Normalisation

_MOST_AXES = 3
"""Axes of rows of tables; arrays with more hold images, which are left alone."""


def moments_of_rows(arrays: PyTree) -> PyTree:
    """Moments of arrays over their rows, computed on the host in double precision.

    A number that is the same in all rows has a variance of 1, so that other values of it stay moderate.

    Args:
        arrays: An array with a first axis of rows, or a pytree of them.

    Returns:
        [`Moments`][jaxagents.ops.Moments] for each array, of whatever type; those of no samples for
        images.
    """
    return jax.tree.map(lambda array: _moments_of_array(rows.whole(array)), arrays)


def _moments_of_array(array: np.ndarray) -> ops.Moments:
    if array.ndim > _MOST_AXES:
        return ops.no_moments()
    mean, std = (x.astype(np.float32) for x in Normalisation.of(array))
    count = np.asarray(min(len(array), ops.MOST_SAMPLES), np.int32)
    return ops.Moments(mean, np.square(std), count)
