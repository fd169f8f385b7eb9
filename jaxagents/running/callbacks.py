"""Calling the callbacks of users during a training."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import PyTree

from jaxagents.callbacks import Callback, Progress
from jaxagents.core import processes
from jaxagents.core.metrics import Metrics, join, mean_metrics


class CallbackObserver:
    """Calls callbacks after each chunk and point, and ends the training if one of them says so."""

    what = "training"

    def __init__(
        self,
        callbacks: Sequence[Callback],
        first: int,
        n_steps: int,
        say: Callable[[str], None],
        together: bool = False,
        earlier: Metrics | None = None,
        step_name: str = "update_step",
    ) -> None:
        """Calls nothing yet.

        Args:
            callbacks: The callbacks.
            first: Number of updates made earlier.
            n_steps: Number of updates to make.
            say: Shows a line.
            together: Whether several processes train together. The first of them calls, and all end
                at once.
            earlier: Metrics of the trainings that this one goes on from.
            step_name: Name of the steps among the metrics.
        """
        self._callbacks = callbacks
        self._step = first
        self._total = first + n_steps
        self._say = say
        self._together = together
        self._earlier = earlier
        self._step_name = step_name
        self._history = earlier or {}
        self._began = time.monotonic()

    def on_chunk(self, runner: PyTree, n_updates: int) -> bool:
        """Calls the callbacks."""
        self._step += n_updates
        return bool(self._history) and self._any_ends("on_chunk", runner)

    def on_point(self, runner: PyTree, history: Metrics) -> bool:
        """Calls the callbacks."""
        self._history = join(self._earlier, history, self._step_name)
        return self._any_ends("on_point", runner)

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Does nothing."""

    def _any_ends(self, when: str, runner: PyTree) -> bool:
        ends = (not self._together or processes.leads()) and self._call(when, runner)
        return processes.in_any(ends) if self._together else ends

    def _call(self, when: str, runner: PyTree) -> bool:
        progress = Progress(
            step=self._step,
            n_steps=self._total,
            seconds=time.monotonic() - self._began,
            metrics=self._means({name: values[-1] for name, values in self._history.items()}),
            history=self._history,
            runner=runner,
        )
        ending = [
            callback
            for callback in self._callbacks
            if _is_yes(getattr(callback, when)(progress), callback)
        ]
        if ending and self._step < self._total:
            names = " and ".join(map(repr, ending))
            self._say(f"{names} ends the {self.what}.")
        return bool(ending)

    def _means(self, point: Metrics) -> dict[str, float]:
        """The means of a point."""
        return mean_metrics(point)


def _is_yes(answer: object, callback: Callback) -> bool:
    """Whether a callback says that the training is to end.

    Raises:
        TypeError: It says something else, such as what a function that it calls last returns.
    """
    said = np.asarray(False if answer is None else answer)
    if said.dtype != bool or said.size != 1:
        raise TypeError(
            f"{callback!r} must return whether the training is to end, True or False, or nothing, got "
            f"{answer!r}."
        )
    return bool(said)
