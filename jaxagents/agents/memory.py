"""The memory that an agent has of its last training."""

from typing import Any, Generic

import jax
import numpy as np

from jaxagents.agents.continuing import (
    check_metrics_of_one,
    check_not_used_up,
    check_single,
    is_deleted,
)
from jaxagents.core.metrics import Metrics
from jaxagents.running.sweeps import SweepResult
from jaxagents.running.trainable import RunnerT


class Remembers(Generic[RunnerT]):
    """Mixin of agents that remember a runner and its metrics. Nothing else about an agent changes."""

    _memory: dict[str, Any]

    def collect_training(
        self, runner: RunnerT, metrics: Metrics, previous_training_max_step: int | None = None
    ) -> None:
        """Makes the agent remember a runner and its metrics, as a plain `train` does by itself.

        Args:
            runner: Runner of one training (not a stack of several).
            metrics: Its metrics, or `{}`.
            previous_training_max_step: Number of updates made, if other than the runner's own
                count.

        Raises:
            TypeError: It is no runner, or the metrics are no dict.
            ValueError: The runner or the metrics are those of several trainings, or of none.
        """
        check_single(runner)
        check_metrics_of_one(metrics)
        self._memory["runner"] = runner
        self._memory["metrics"] = jax.tree.map(np.array, metrics)  # whose caller may change its own
        self._memory["max_step"] = previous_training_max_step

    def select(
        self, trainings: tuple[RunnerT, Metrics] | SweepResult, *index: int
    ) -> tuple[RunnerT, Metrics]:
        """Takes one training out of many, which the agent then remembers.

        ```python
        result = agent.sweep(keys, sets)
        agent.select(result, result.best, 0)  # the first seed of the best set
        agent.eval(key)
        ```

        Args:
            trainings: Runners and metrics with leading axes, as `sweep` or `jax.vmap(agent.train)` gives
                them.
            *index: Position along each of those axes: of a sweep, those of the set and of the seed.

        Returns:
            The runner and the metrics of that training.

        Raises:
            TypeError: The trainings are missing.
            IndexError: There is no such training, or there are not as many positions as axes.
        """
        if not isinstance(trainings, tuple):
            raise TypeError(
                "select takes what sweep or jax.vmap(agent.train) returned, and then positions, as in "
                f"agent.select(result, result.best, 0), got {trainings!r} first."
            )
        runners, metrics = trainings[:2]
        shape = np.shape(runners.update_step)
        if len(index) != len(shape) or not all(
            hasattr(i, "__index__") and -n <= i < n for i, n in zip(index, shape, strict=True)
        ):
            raise IndexError(
                f"There are trainings along axes of lengths {shape}: give one position along each, got "
                f"{index}."
            )
        runner, metrics = jax.tree.map(lambda x: x[index], (runners, metrics))
        self.collect_training(runner, metrics)
        return runner, metrics

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
        """A copy of the metrics of the last training, with those of the trainings before it."""
        return jax.tree.map(np.array, self._memory.get("metrics"))

    @property
    def previous_training_max_step(self) -> int:
        """Number of updates behind the last runner; zero before any training."""
        if not self.agent_trained:
            return 0
        given = self._memory.get("max_step")
        return int(self._trained_runner().update_step) if given is None else given

    @property
    def eval_steps_in_training(self) -> np.ndarray | None:
        """Update steps of the evaluation points of `training_metrics`."""
        metrics = self._memory.get("metrics")
        return None if metrics is None else np.array(metrics["update_step"])

    def _trained_runner(self) -> RunnerT:
        if not self.agent_trained:
            raise RuntimeError(
                "This agent has not been trained: call train or restore first, or collect_training "
                "with the results of a compiled train."
            )
        runner = self._memory["runner"]
        if is_deleted(runner.update_step):  # as all of its arrays, which would take longer to ask
            check_not_used_up(runner)
        return runner
