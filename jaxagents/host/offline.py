"""A learner that learns from a dataset."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike, PyTree

from jaxagents.core.report import FirstNonfinite
from jaxagents.data import Dataset
from jaxagents.data.values import moments_of_rows, reward_factor
from jaxagents.host.config import OfflineConfig
from jaxagents.host.learner_like import LearnerLike, observes
from jaxagents.host.randomness import Stream, generator
from jaxagents.host.updates import Sums, Updates
from jaxagents.learners.batches import OPTIONAL_KEYS


class OfflineTraining:
    """Draws batches from a dataset and learns from them; a step is an update.

    Attributes:
        step: Number of updates made.
        updates: The learner and its updates.
        names: The names of the numbers that are reported.
        steps_per_call: Number of updates that end at its multiples, and are made in one call.
        first_spoilt: Nothing: a dataset is checked before it is learned from.
    """

    unit = "update"

    def __init__(self, learner: LearnerLike, dataset: Dataset, config: OfflineConfig) -> None:
        """Prepares it.

        Args:
            learner: The learner.
            dataset: The dataset.
            config: The configuration.
        """
        self.step = 0
        self.first_spoilt: FirstNonfinite = {}
        self.steps_per_call = config.updates_per_call
        self._dataset = dataset
        self._keys = _keys(learner, dataset)
        self._config = config
        self._factor = reward_factor(dataset) if config.normalise_rewards else None
        if observes(learner):
            learner = learner.observe(moments_of_rows(dataset["observations"]))
        self.updates = Updates(learner, jax.tree.map(lambda x: x[0], self._rows(1, [0])))
        self.names = self.updates.names

    def advance(self, n_steps: int) -> None:
        """Starts a call of several updates."""
        stop = self.step + n_steps
        indices = np.stack([self._indices(update) for update in range(self.step, stop)])
        self.updates.make(self._rows(self._config.batch_size, indices))
        self.step = stop

    def drain(self) -> Sums:
        """Sums of what updates reported since the last call."""
        return self.updates.drain()

    def state(self) -> dict[str, Any]:
        """Everything needed to continue from here, besides the learner, as JSON."""
        return {"updates": self.updates.state()}

    def load(self, step: int, learner: LearnerLike, state: Mapping[str, Any]) -> None:
        """Continues from a step, with its learner and state."""
        self.step = step
        self.updates.load(learner, state["updates"])

    def _rows(self, batch_size: int, indices: ArrayLike | list[int]) -> dict[str, PyTree]:
        rows = self._dataset.sample(batch_size, indx=indices)
        if self._factor is not None:
            rows = {**rows, "rewards": rows["rewards"] * self._factor}
        return {key: rows[key] for key in self._keys}

    def _indices(self, update: int) -> np.ndarray:
        rng = generator(self._config.seed, Stream.BATCHES, update)
        return rng.integers(len(self._dataset), size=self._config.batch_size)


def _keys(learner: LearnerLike, dataset: Dataset) -> list[str]:
    """The keys that a learner is given: those that it declares and optional ones, or else all."""
    declared = getattr(learner, "batch_keys", None)
    if declared is None or not set(declared) <= set(dataset):
        return list(dataset)
    return [key for key in dataset if key in {*declared, *OPTIONAL_KEYS}]
