"""Checks of a dataset's values, and statistics for scaling observations and rewards."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents import ops
from jaxagents.core import processes
from jaxagents.data import rows
from jaxagents.data.dataset import Dataset, Normalisation

_KINDS = "biufV"
"""Kinds of the dtypes that JAX supports, including its own, such as `bfloat16`."""
_MOST_AXES = 3
"""Arrays with more axes, rows included, hold images, which are not normalised."""
_WRONG_MASK = (
    "must be 0 where the environment ended the episode and 1 elsewhere, got values such as "
    "{value:g}"
)


def check_are_numbers(arrays: Mapping[str, Any]) -> None:
    """Raises if an array holds anything but real numbers, such as objects.

    Args:
        arrays: Arrays by key, rows first, in a possibly nested dict.

    Raises:
        TypeError: An array does; the message names it.
    """
    for name, array in rows.flatten(arrays).items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(
                f"{name!r} must hold real numbers, got an array of type {array.dtype}: cast it, as "
                "astype(np.float32) does."
            )


def check_values(arrays: Mapping[str, Any]) -> None:
    """Raises if a value is non-finite, or if a mask is neither 0 nor 1.

    Args:
        arrays: Arrays by key, rows first, in a possibly nested dict.

    Raises:
        TypeError: An array does not hold numbers.
        ValueError: There is such a value; the message names the array and counts the rows.
    """
    check_are_numbers(arrays)
    for name, values in rows.flatten(arrays).items():
        tests: list[tuple[Callable[[np.ndarray], np.ndarray], str]] = []
        if values.dtype.kind == "f":
            tests.append((np.isfinite, "is NaN or infinite"))
        if name == "masks":
            tests.append((lambda x: (x == 0) | (x == 1), _WRONG_MASK))
        for is_right, message in tests:
            wrong = np.flatnonzero(~_by_row(is_right, values))
            if wrong.size:
                row = np.atleast_1d(values[wrong[0]])
                value = row[~is_right(row)][0]
                raise ValueError(
                    f"{name!r} {message.format(value=value)} in {len(wrong)} of {len(values)} "
                    f"rows, first in row {wrong[0]}: leave these rows out, with get_subset, or "
                    "correct them."
                )


def check_order(user: str, dataset: Dataset) -> None:
    """Raises if consecutive rows of an episode are not consecutive in time.

    It compares `next_observations`, if there are any, and checks how the dataset was derived.

    Args:
        user: Name of the recurrent agent.
        dataset: Transitions, with `observations` and `ends`.

    Raises:
        ValueError: Rows are missing or out of order.
    """
    found = "" if dataset.in_order else "split or get_subset removed or moved rows"
    observed, successors = (
        rows.flatten({"x": dataset.get(key, {})}) for key in ("observations", "next_observations")
    )
    if observed.keys() == successors.keys():
        same = [_by_row(_same, successors[key][:-1], x[1:]) for key, x in observed.items()]
        wrong = np.flatnonzero(~(np.all(same, axis=0) | np.asarray(dataset["ends"], bool)[:-1]))
        if wrong.size:
            found = (
                f"the 'next_observations' of row {wrong[0]} are not the 'observations' of the "
                f"next row, as in {len(wrong)} of {len(dataset)} rows"
            )
    if found:
        raise ValueError(
            f"{user} has a memory, which follows episodes step by step, but {found}: keep the "
            "rows of each episode together, in time order, with the last one marked in 'ends'."
        )


def _same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x == y if x.dtype.kind in "biu" else np.isclose(x, y, equal_nan=True)


def _by_row(
    function: Callable[..., np.ndarray], *arrays: np.ndarray, rows_at_once: int = 2**12
) -> np.ndarray:
    """Whether a function is true for all elements of each row, evaluated in chunks of rows."""
    starts = range(0, max(1, len(arrays[0])), rows_at_once)
    parts = (function(*(x[i : i + rows_at_once] for x in arrays)) for i in starts)
    return np.concatenate([part.all(axis=tuple(range(1, part.ndim))) for part in parts])


def moments_of_rows(arrays: PyTree) -> PyTree:
    """Computes moments of arrays over their rows, on the host in double precision.

    Constant components get a variance of 1, so that other values stay moderate.

    Args:
        arrays: An array, rows first, or a pytree of arrays.

    Returns:
        [`Moments`][jaxagents.ops.Moments] of each array; for images the moments of no samples.
    """

    def moments(array: np.ndarray) -> ops.Moments:
        if array.ndim > _MOST_AXES:
            return ops.no_moments()
        mean, std = (x.astype(np.float32) for x in Normalisation.of(array))
        count = np.asarray(min(len(array), ops.MOST_SAMPLES), np.int32)
        return ops.Moments(mean, np.square(std), count)

    return jax.tree.map(moments, arrays)


def reward_factor(dataset: Dataset | Mapping[str, PyTree]) -> np.float32:
    r"""Computes the reward scale of a dataset.

    $$\frac{L}{R_\text{max} - R_\text{min}}$$

    with the length $L$ of the longest whole episode, and the highest and lowest undiscounted returns,
    over the parts of the dataset in all processes. This is the rule of Kostrikov et al., 2021, "Offline
    reinforcement learning with implicit Q-learning", for the MuJoCo tasks, whose episodes have 1000
    steps.

    Args:
        dataset: This process's part, with `rewards` and `ends`, in time order. Rows after the last end
            do not count. After [`n_step`][jaxagents.data.Dataset.n_step], the single-step rewards are
            used.

    Returns:
        The factor.

    Raises:
        KeyError: A key is missing.
        ValueError: There is not one reward and end per row, a reward is non-finite, a row with a mask of
            0 is not an end, the single-step rewards are unknown, or no two whole episodes have different
            returns.
    """
    longest, highest, lowest = _return_range(dataset)
    if jax.process_count() > 1:
        of_all = processes.gathered(np.asarray([longest, highest, lowest], np.float32)).T
        longest, highest, lowest = of_all[0].max(), of_all[1].max(), of_all[2].min()
    if not highest > lowest:
        found = f"has only episodes with a return of {highest:g}" if longest else "has none"
        raise ValueError(
            "normalise_rewards needs whole episodes, with 'ends', and with different returns, "
            f"but the dataset {found}."
        )
    return np.float32(longest / (highest - lowest))


def _return_range(dataset: Dataset | Mapping[str, PyTree]) -> tuple[float, float, float]:
    """Length of the longest whole episode, 0 if there is none, and highest and lowest return."""
    if isinstance(dataset, Dataset):
        dataset = dataset.single_steps
    if "discounts" in dataset:
        raise ValueError(
            "normalise_rewards needs the rewards of single steps, but in a dataset with "
            "'discounts' they are sums over several steps. Pass the dataset that n_step "
            "returned, which knows them, not a copy of its arrays."
        )
    rows.check_columns("normalise_rewards", ("rewards", "ends"), dataset, "the dataset")
    check_values({"rewards": dataset["rewards"]})
    if "masks" in dataset:
        rows.check_ends(dataset["masks"], dataset["ends"])
    last = np.flatnonzero(np.asarray(dataset["ends"], bool))
    if not last.size:
        return 0.0, -np.inf, np.inf
    first = np.concatenate([[0], last[:-1] + 1])
    rewards = np.asarray(dataset["rewards"], np.float64)[: last[-1] + 1]
    returns = np.add.reduceat(rewards, first)
    return float((last - first).max() + 1), float(returns.max()), float(returns.min())
