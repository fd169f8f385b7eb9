"""Progress bars in terminals and notebooks."""

import sys

import numpy as np
from jaxtyping import PyTree, Shaped
from tqdm.auto import tqdm

from jaxagents.core.metrics import Metrics


class ProgressBar:
    """Shows the updates (or other steps) made and the last mean return."""

    def __init__(
        self,
        title: object,
        first: int,
        n_steps: int,
        disable: bool = False,
        unit: str = "update",
    ) -> None:
        """Makes a bar.

        Args:
            title: A text, or an object whose `repr` is shown without its brackets.
            first: Number of updates made earlier.
            n_steps: Number of updates to make.
            disable: Whether to show nothing.
            unit: The name of what is counted.
        """
        self._title = title if isinstance(title, str) else repr(title).strip("<>")
        self._unit = unit
        self._first = self._done = first
        self._n_steps = n_steps
        self._disable = disable or sys.stderr is None  # as in programs without a console

    def __enter__(self) -> "ProgressBar":
        """Opens the bar."""
        self._bar = tqdm(
            total=self._first + self._n_steps,
            initial=self._first,
            desc=self._title,
            unit=self._unit,
            dynamic_ncols=True,
            disable=self._disable,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        """Closes the bar."""
        self._bar.close()

    def on_chunk(self, runner: PyTree, n_updates: int) -> None:
        """Moves the bar."""
        self._done += n_updates
        self._bar.update(n_updates)

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Shows the returns of the newest point."""
        if "returns" in history:
            self.show(self._summary(history["returns"][-1]))

    def show(self, text: str) -> None:
        """Shows a text behind the bar."""
        self._bar.set_postfix_str(text, refresh=False)

    def _summary(self, returns: Shaped[np.ndarray, "..."]) -> str:
        by_actor = np.atleast_1d(np.mean(returns, axis=0))
        return "return " + " / ".join(f"{mean:.4g}" for mean in by_actor)

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Says where training stopped."""
        total = self._first + self._n_steps
        self.say(f"Interrupted after {self._done} of {total} {self._unit}s.")

    def say(self, text: str) -> None:
        """Writes a line to the standard error, above the bar, unless nothing is to be shown."""
        if not self._disable:
            tqdm.write(text, file=sys.stderr)


class SweepBar(ProgressBar):
    """Shows the updates made by every member, and the range of their last mean returns."""

    def _summary(self, returns: Shaped[np.ndarray, "..."]) -> str:
        means = returns.reshape(len(returns), -1).mean(axis=1)
        return f"returns {means.min():.4g} to {means.max():.4g}"
