"""The returns of a dataset's episodes, by which its rewards are scaled."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core import processes
from jaxagents.data import rows
from jaxagents.data.dataset import Dataset
from jaxagents.data.values import check_values


def reward_factor(dataset: Dataset | Mapping[str, PyTree]) -> np.float32:
    """The factor by which rewards are multiplied, by the parts that all processes have of a dataset.

    Args:
        dataset: The part of this process; see `ReturnRange.of`.

    Returns:
        The factor.
    """
    own = ReturnRange.of(dataset)
    if jax.process_count() == 1:
        return own.factor
    longest, highest, lowest = processes.gathered(np.asarray(own, np.float32)).T
    return ReturnRange(longest.max(), highest.max(), lowest.min()).factor


class ReturnRange(NamedTuple):
    """The range of the undiscounted returns of a dataset's whole episodes.

    Attributes:
        longest: Number of rows of the longest episode; 0 if no episode is whole.
        highest: The highest return.
        lowest: The lowest.
    """

    longest: float
    highest: float
    lowest: float

    @classmethod
    def of(cls, dataset: Dataset | Mapping[str, PyTree]) -> "ReturnRange":
        """The range of a dataset's returns.

        Args:
            dataset: Has `rewards` and `ends`, and its rows follow each other in time. Rows after the
                last end do not count. That of [`n_step`][jaxagents.data.Dataset.n_step] has the range
                of the single steps.

        Returns:
            The range.

        Raises:
            KeyError: A key is missing.
            ValueError: There is not one reward and end for each row, a reward is NaN or infinite, a row
                with a mask of 0 is not an end, or the rewards of single steps are not known.
        """
        if isinstance(dataset, Dataset):
            dataset = dataset.single_steps
        if "discounts" in dataset:
            raise ValueError(
                "normalise_rewards needs the rewards of single steps, but those of a dataset with "
                "'discounts' are sums over several. Give the dataset that n_step returns, not a copy of "
                "its arrays: it knows them."
            )
        for key in ("rewards", "ends"):
            if key not in dataset:
                raise KeyError(
                    f"normalise_rewards needs {key!r}, by which it finds the returns of episodes; the "
                    f"dataset has {sorted(dataset)}."
                )
            if np.ndim(dataset[key]) != 1:
                raise ValueError(
                    f"normalise_rewards needs one number of {key!r} for each row, got shape "
                    f"{np.shape(dataset[key])}."
                )
        check_values({"rewards": dataset["rewards"]})
        if "masks" in dataset:
            rows.check_ends(dataset["masks"], dataset["ends"])
        last = np.flatnonzero(np.asarray(dataset["ends"], bool))
        if not last.size:
            return cls(0.0, -np.inf, np.inf)
        first = np.concatenate([[0], last[:-1] + 1])
        rewards = np.asarray(dataset["rewards"], np.float64)[: last[-1] + 1]
        returns = np.add.reduceat(rewards, first)
        return cls(float((last - first).max() + 1), float(returns.max()), float(returns.min()))

    @property
    def factor(self) -> np.float32:
        r"""The factor by which rewards are multiplied.

        $$\frac{L}{R_\text{max} - R_\text{min}}$$

        with the length $L$ of the longest episode, and the highest and the lowest return. It is the
        rule of Kostrikov et al., 2021, "Offline reinforcement learning with implicit Q-learning", for
        the MuJoCo tasks, whose episodes have 1000 steps.

        Raises:
            ValueError: There are no two whole episodes whose returns differ.
        """
        if not self.highest > self.lowest:
            found = (
                f"has only episodes that return {self.highest:g}" if self.longest else "has none"
            )
            raise ValueError(
                "normalise_rewards needs whole episodes, with 'ends', whose returns differ, but the "
                f"dataset {found}."
            )
        return np.float32(self.longest / (self.highest - self.lowest))
