"""Checks of the numbers in a dataset, from which nothing could be learned if they were wrong."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.observed import action_mask
from jaxagents.data import rows

_KINDS = "biufV"
"""Kinds of the types that JAX takes, of which it has some of its own, such as `bfloat16`."""
_ROWS_AT_ONCE = 2**16
_WRONG_MASK = (
    "must be 0 where the environment ended the episode and 1 elsewhere, got {value:g} or the like"
)


def check_are_numbers(arrays: Mapping[str, Any]) -> None:
    """Raises if an array holds something else than real numbers, such as objects.

    Args:
        arrays: Arrays by key, with a first axis of rows; dicts of them may be nested.

    Raises:
        TypeError: There is such an array; the error names it.
    """
    for name, array in rows.flatten(arrays).items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(
                f"{name!r} must hold real numbers, got an array of type {array.dtype}: cast it, as "
                "astype(np.float32) does."
            )


def check_values(arrays: Mapping[str, Any]) -> None:
    """Raises if a number that a learner would learn from is none, or if a mask is neither 0 nor 1.

    Args:
        arrays: Arrays by key, with a first axis of rows; dicts of them may be nested.

    Raises:
        TypeError: An array holds no numbers.
        ValueError: There is such a number; the error names the array and counts its rows.
    """
    check_are_numbers(arrays)
    for name, array in rows.flatten(arrays).items():
        values = rows.whole(array)
        if values.dtype.kind == "f":
            _check_rows(name, values, lambda x: ~np.isfinite(x), "is NaN or infinite")
        if name == "masks":
            _check_rows(name, values, lambda x: (x != 0) & (x != 1), _WRONG_MASK)


def check_allowed(observations: PyTree, actions: np.ndarray) -> None:
    """Raises if a discrete action was taken that the mask of its observation forbids.

    Where a mask allows no action at all, as after the end of an episode, all count as allowed.

    Args:
        observations: Arrays with a first axis of rows.
        actions: The action of each row.

    Raises:
        ValueError: There is such an action; the error names its row.
    """
    mask = action_mask(observations)
    if mask is None or (np.ndim(actions), np.ndim(mask)) != (1, 2):
        return
    allowed = np.asarray(rows.whole(mask), bool)
    is_taken = actions[:, None] == np.arange(allowed.shape[-1])
    wrong = np.flatnonzero(allowed.any(axis=-1) & ~(allowed & is_taken).any(axis=-1))
    if wrong.size:
        row = wrong[0]
        raise ValueError(
            f"The dataset takes action {actions[row]} in row {row}, whose action_mask allows only "
            f"{np.flatnonzero(allowed[row]).tolist()}, and one that is forbidden in {len(wrong)} of "
            f"{len(actions)} rows: leave these rows out, with get_subset, or mend the masks."
        )


def _check_rows(
    name: str, values: np.ndarray, is_wrong: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    starts = range(0, len(values), _ROWS_AT_ONCE)
    parts = [values[start : start + _ROWS_AT_ONCE] for start in starts] if values.size else []
    found = [is_wrong(part).reshape(len(part), -1).any(axis=-1) for part in parts]
    wrong = np.flatnonzero(np.concatenate(found)) if found else np.zeros(0, int)
    if wrong.size:
        row = np.atleast_1d(values[wrong[0]])
        value = row[is_wrong(row)][0]
        raise ValueError(
            f"{name!r} {message.format(value=value)} in {len(wrong)} of {len(values)} rows, the first "
            f"of which is row {wrong[0]}: leave these rows out, with get_subset, or mend them."
        )
