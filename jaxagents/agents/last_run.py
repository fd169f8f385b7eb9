"""The last run that an agent remembers."""

import warnings
from typing import Any, Generic

import jax
import numpy as np

from jaxagents.agents.continuing import (
    check_fits,
    check_metrics_of_one,
    check_not_used_up,
    check_same_metrics,
    check_single,
    is_at_end,
    is_deleted,
)
from jaxagents.checkpoints.records import saved_steps
from jaxagents.core.metrics import Metrics
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.executors import RunnerT


class LastRun(Generic[RunnerT]):
    """The runner and the metrics of an agent's last run. Nothing else about an agent changes."""

    def __init__(self) -> None:
        """Remembers nothing yet."""
        self._noted: tuple[RunnerT, Metrics, int | None] | None = None

    def note(self, runner: RunnerT, metrics: Metrics, n_updates: int | None) -> None:
        """Takes a runner and its metrics; see `Agent.collect_training`."""
        check_single(runner)
        check_metrics_of_one(metrics)
        copies = jax.tree.map(np.array, metrics)  # whose caller may change its own
        self._noted = runner, copies, n_updates

    @property
    def exists(self) -> bool:
        """Whether there is a run."""
        return self._noted is not None

    @property
    def runner(self) -> RunnerT | None:
        """Its runner."""
        return None if self._noted is None else self._noted[0]

    @property
    def usable_runner(self) -> RunnerT:
        """Its runner, whose arrays are there.

        Raises:
            RuntimeError: There is no run.
            ValueError: The runner is used up.
        """
        if self._noted is None:
            raise RuntimeError(
                "This agent has not been trained: call train or restore first, or collect_training "
                "with the results of a compiled train."
            )
        runner: Any = self._noted[0]
        if is_deleted(runner.update_step):  # as all of its arrays, which would take longer to ask
            check_not_used_up(runner)
        return runner

    @property
    def metrics(self) -> Metrics | None:
        """A copy of its metrics, with those of the runs before it."""
        return None if self._noted is None else jax.tree.map(np.array, self._noted[1])

    @property
    def n_updates(self) -> int:
        """Number of updates behind its runner; zero if there is no run."""
        if self._noted is None:
            return 0
        given = self._noted[2]
        runner: Any = self.usable_runner
        return int(runner.update_step) if given is None else given

    @property
    def is_evaluated(self) -> bool:
        """Whether the last point of the metrics is after the last update, and not before it."""
        metrics = self.metrics
        return bool(metrics) and metrics["update_step"][-1] == self.n_updates

    def metrics_until(self, runner: Any, agent: Behaviour) -> Metrics | None:
        """The metrics that a training of an agent goes on with from a runner, if they are known.

        Raises:
            TypeError: It is no runner of such an agent.
            ValueError: It is used up or does not fit, or the metrics do not.
        """
        last = self.runner
        if runner is not last:
            check_fits(agent, runner)
        check_not_used_up(runner)
        is_known = last is not None and is_at_end(runner, last, agent.vital_arrays)
        earlier = self.metrics if is_known else None
        if earlier:
            check_same_metrics(agent, earlier, runner)
        folder = agent.config.checkpoint_dir
        if not earlier and folder is not None and saved_steps(folder):
            warnings.warn(
                "This runner is not at the end of the training that the agent remembers, so that the "
                f"metrics in {folder} begin anew. They go on from the runner of agent.restore('last').",
                stacklevel=4,
            )
        return earlier


def select_run(runs: object, index: tuple[int, ...]) -> tuple[Any, Metrics]:
    """One run out of many; see `Agent.select`."""
    if not isinstance(runs, tuple):
        raise TypeError(
            "select takes what sweep or jax.vmap(agent.train) returned, and then positions, as in "
            f"agent.select(result, result.best, 0), got {runs!r} first."
        )
    runners, metrics = runs[:2]
    shape = np.shape(runners.update_step)
    if len(index) != len(shape) or not all(
        hasattr(i, "__index__") and -n <= i < n for i, n in zip(index, shape, strict=True)
    ):
        raise IndexError(
            f"There are trainings along axes of lengths {shape}: give one position along each, got "
            f"{index}."
        )
    runner, metrics = jax.tree.map(lambda x: x[index], (runners, metrics))
    return runner, metrics
