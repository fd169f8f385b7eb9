"""The updates of a learner on the host, and the numbers that they report."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import without_weak_types
from jaxagents.core.compilation import jit_by_structure
from jaxagents.core.trees import check_same_tree
from jaxagents.host.learner_like import LearnerLike, observes
from jaxagents.learners.learner import Batch, Info

Sums = dict[str, tuple[float, int]]
"""Sums of numbers, and how many there are in each, by name."""


def added(first: Mapping[str, Any], second: Mapping[str, Any]) -> Sums:
    """The sums of all numbers of both."""
    sums = {name: tuple(pair) for name, pair in first.items()}
    for name, (total, count) in second.items():
        earlier, earlier_count = sums.get(name, (0.0, 0))
        sums[name] = (earlier + total, earlier_count + count)
    return sums


def means(sums: Sums) -> dict[str, float]:
    """The mean of each; NaN of no numbers."""
    return {name: total / count if count else math.nan for name, (total, count) in sums.items()}


class Updates:
    """A learner, and the sums of the numbers that its updates report, which stay on the device.

    Attributes:
        learner: The learner after the last update, which may still be running.
        names: The names of the numbers that updates report.
    """

    def __init__(
        self, learner: LearnerLike, example: Mapping[str, PyTree], observe_batches: bool = False
    ) -> None:
        """Takes a learner.

        Args:
            learner: The learner.
            example: A transition, or the shapes of one.
            observe_batches: Whether a learner with running statistics observes what it learns from.

        Raises:
            KeyError: The learner needs a key that transitions do not have.
            ValueError: The learner cannot learn from such transitions.
        """
        self.learner = without_weak_types(learner)
        self.names = sorted(_traced_info(self.learner, example))
        self._update = _update_and_observe if observe_batches else _update
        self._totals = self._zeros()
        self._n_updates = 0
        self._previous = self._totals

    def make(self, batches: Batch) -> None:
        """Starts an update from each of several batches, and waits for those before the last call.

        Args:
            batches: Arrays with leading axes of batches and of transitions.
        """
        jax.block_until_ready(self._previous)  # else the host would run ahead of the device
        self._previous = self._totals
        self.learner, self._totals = self._update(self.learner, self._totals, batches)
        self._n_updates += len(jax.tree.leaves(batches)[0])

    def drain(self) -> Sums:
        """The sums of the reports since the last call; they then start again from zero."""
        sums = self.state()
        self._totals, self._n_updates = self._zeros(), 0
        return sums

    def state(self) -> Sums:
        """The sums of the reports since the last `drain`."""
        totals = jax.device_get(self._totals)
        return {name: (float(total), self._n_updates) for name, total in totals.items()}

    def load(self, learner: LearnerLike, state: Mapping[str, Any]) -> None:
        """Goes on from a learner and a state."""
        self.learner = learner
        self._totals = {name: jnp.float32(total) for name, (total, _) in state.items()}
        self._n_updates = max((count for _, count in state.values()), default=0)

    def _zeros(self) -> dict[str, jax.Array]:
        return {name: jnp.float32(0) for name in self.names}


@jit_by_structure
def _update(
    learner: LearnerLike, totals: dict[str, jax.Array], batches: Batch
) -> tuple[LearnerLike, dict[str, jax.Array]]:
    learner, info = learner.update_many(batches)
    sums = {name: jnp.sum(values, dtype=jnp.float32) for name, values in info.items()}
    return learner, {name: total + sums[name] for name, total in totals.items()}


@jit_by_structure
def _update_and_observe(
    learner: LearnerLike, totals: dict[str, jax.Array], batches: Batch
) -> tuple[LearnerLike, dict[str, jax.Array]]:
    learner, totals = _update(learner, totals, batches)
    return learner.observe(batches["observations"]) if observes(learner) else learner, totals


def _traced_info(learner: LearnerLike, example: Mapping[str, PyTree]) -> Info:
    """The shapes of the numbers that updates report, found by tracing one."""
    name = type(learner).__name__
    try:
        # A function of its own: JAX would take learners of another class for one traced before.
        updated, info = jax.eval_shape(
            lambda learner, batches: learner.update_many(batches),
            learner,
            jax.tree.map(_one_batch, dict(example)),
        )
    except (KeyError, AttributeError):
        raise
    except Exception as error:
        shapes = {key: jax.tree.map(np.shape, value) for key, value in example.items()}
        raise ValueError(
            f"{name} cannot learn from transitions of the shapes {shapes}: {error}"
        ) from error
    check_same_tree(learner, updated, name, "create", "update_many")
    if "weights" in example:
        info.pop("td_errors", None)  # of samples, for their priorities
    for key, values in info.items():
        if values.shape != (1,):
            raise ValueError(
                f"{name}.update_many must report one number for each update, but {key!r} has shape "
                f"{values.shape} for a single one."
            )
    return info


def _one_batch(x: np.ndarray | np.generic | jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((1, 1, *np.shape(x)), jax.dtypes.canonicalize_dtype(x.dtype))
