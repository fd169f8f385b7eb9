"""Watching a training for numbers that are not finite, from which it cannot recover."""

import warnings
from collections.abc import Callable
from typing import Protocol

from jaxtyping import PyTree

from jaxagents.core import processes
from jaxagents.core.finite import not_finite
from jaxagents.core.metrics import Metrics


class NotFiniteError(FloatingPointError):
    """A training came upon numbers that are not a number or infinite."""


class Watchable(Protocol):
    """An agent whose numbers are watched."""

    def vital_arrays(self, runner: PyTree, /) -> dict[str, PyTree]:
        """The arrays of a runner that must stay finite, by what they are."""
        ...


class Watch:
    """Looks at a training after every chunk of updates, and ends it if a number is not finite."""

    def __init__(
        self,
        agent: Watchable,
        first: int,
        stops: bool,
        unit: str = "update",
        is_due: Callable[[int], bool] = lambda step: True,
        together: bool = False,
    ) -> None:
        """Looks at nothing yet.

        Args:
            agent: Says which arrays to watch.
            first: Number of updates made earlier.
            stops: Whether to end the training, rather than to warn once.
            unit: The unit of its steps, in messages.
            is_due: Whether to look after a number of updates.
            together: Whether all processes do this at once, and so stop at once.
        """
        self._agent = agent
        self._seen = self._step = first
        self._is_due = is_due
        self._together = together
        self._stops = stops
        self._unit = unit
        self._warned = False

    def on_chunk(self, runner: PyTree, n_updates: int) -> None:
        """Looks at the runner.

        Raises:
            NotFiniteError: Some of its numbers are not finite, and the training is to stop.
        """
        self._step += n_updates
        if self._warned or not self._is_due(self._step):
            return
        before, self._seen = self._seen, self._step
        found = not_finite(self._agent.vital_arrays(runner))
        if not (processes.in_any(bool(found)) if self._together else found):
            return
        text = (
            f"Numbers that are not finite, since some {self._unit} after {before} and up to "
            f"{self._step}: {', '.join(found) or 'those of another process'}{_losses(runner)}."
        )
        if self._stops:
            raise NotFiniteError(
                f"{text} No checkpoint was made of this; the last one before it is whole. "
                "stop_if_not_finite=False in the configuration goes on nevertheless."
            )
        warnings.warn(f"{text} Training goes on, as configured.", stacklevel=3)
        self._warned = True

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Does nothing."""

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Does nothing."""


def _losses(runner: PyTree) -> str:
    """The last report of a runner, as far as it is not finite."""
    names = not_finite(getattr(runner, "info", {}))
    return f"; of the last report: {', '.join(names)}" if names else ""
