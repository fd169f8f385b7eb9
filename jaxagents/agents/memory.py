"""The memory that an agent has of its last training."""

from typing import Any, Generic, TypeVar

import jax
import numpy as np

from jaxagents.agents.continuing import check_single
from jaxagents.core.metrics import Metrics

RunnerT = TypeVar("RunnerT")


class Remembers(Generic[RunnerT]):
    """Mixin of agents that remember a runner and its metrics. Nothing else about an agent changes."""

    _memory: dict[str, Any]

    def collect_training(
        self, runner: RunnerT, metrics: Metrics, previous_training_max_step: int | None = None
    ) -> None:
        """Makes the agent remember a runner and its metrics, as a plain `train` does by itself.

        Args:
            runner: Runner of one training (not a stack of several).
            metrics: Its metrics.
            previous_training_max_step: Number of updates made, if other than the runner's own
                count.
        """
        check_single(runner)
        self._memory["runner"] = runner
        self._memory["metrics"] = jax.tree.map(np.asarray, metrics)
        self._memory["max_step"] = previous_training_max_step

    @property
    def agent_trained(self) -> bool:
        """Whether the agent remembers a training."""
        return "runner" in self._memory

    @property
    def training_runner(self) -> RunnerT | None:
        """The last runner."""
        return self._memory.get("runner")

    @property
    def training_metrics(self) -> Metrics | None:
        """The metrics of the last training, with those of the trainings that it went on from."""
        return self._memory.get("metrics")

    @property
    def previous_training_max_step(self) -> int:
        """Number of updates behind the last runner; zero before any training."""
        if not self.agent_trained:
            return 0
        given = self._memory.get("max_step")
        return int(self._memory["runner"].update_step) if given is None else given

    @property
    def eval_steps_in_training(self) -> np.ndarray | None:
        """Update steps of the evaluation points of `training_metrics`."""
        metrics = self.training_metrics
        return None if metrics is None else metrics["update_step"]

    def _trained_runner(self) -> RunnerT:
        if not self.agent_trained:
            raise RuntimeError(
                "This agent has not been trained: call train or restore first, or collect_training "
                "with the results of a compiled train."
            )
        return self._memory["runner"]
