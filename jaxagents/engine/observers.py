"""Observers of a run: progress bar, loggers, callbacks, and the watch for NaN."""

import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from jaxtyping import PyTree, Shaped
from tqdm.auto import tqdm

from jaxagents.callbacks import Callback, Progress
from jaxagents.core import processes
from jaxagents.core.metrics import Metrics, join, mean_metrics
from jaxagents.core.report import FirstNonfinite, in_words, not_finite
from jaxagents.loggers import Logger


class NotFiniteError(FloatingPointError):
    """A value of a run became NaN or infinite."""


class Observer(Protocol):
    """Watches a run, and ends it if a method returns true."""

    def on_chunk(self, runner: PyTree, n_updates: int, first: FirstNonfinite) -> bool | None:
        """Called after every chunk of updates, with the first of them with non-finite values."""

    def on_point(self, runner: PyTree, history: Metrics) -> bool | None:
        """Called after every evaluation point."""

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Called if the run stops between evaluation points, such as on Ctrl-C or after an error."""


class ProgressBar(Observer):
    """Shows the number of updates and the last mean return, in terminals and notebooks."""

    def __init__(
        self,
        title: object,
        first: int,
        n_steps: int,
        disable: bool = False,
        steps_per_update: int = 0,
    ) -> None:
        """Makes a bar.

        Args:
            title: A text, or an object whose `repr` is shown without its brackets.
            first: Number of updates made earlier.
            n_steps: Number of updates to make.
            disable: Whether to show nothing.
            steps_per_update: Environment steps per update, to show steps per second; 0 hides the speed.
        """
        self._title = title if isinstance(title, str) else repr(title).strip("<>")
        self._first = self._done = first
        self._n_steps = n_steps
        self._steps_per_update = steps_per_update
        self._returns = ""
        self._disable = disable or sys.stderr is None  # in programs without a console

    def __enter__(self) -> "ProgressBar":
        """Opens the bar."""
        self._bar = tqdm(
            total=self._first + self._n_steps,
            initial=self._first,
            desc=self._title,
            unit="update",
            dynamic_ncols=True,
            disable=self._disable,
            bar_format="{desc}: {n_fmt}/{total_fmt} updates, compiling",
        )
        return self

    def __exit__(self, *exception: object) -> None:
        """Closes the bar."""
        self._bar.close()

    def on_chunk(self, runner: PyTree, n_updates: int, first: FirstNonfinite) -> None:
        """Moves the bar. Timing starts after the first chunk, which compiles."""
        self._done += n_updates
        self._show()
        if self._bar.disable or self._bar.bar_format is None:
            self._bar.update(n_updates)
            return
        self._bar.bar_format = None
        self._bar.start_t = self._bar.last_print_t = time.time()
        self._bar.initial = self._bar.n = self._bar.last_print_n = self._done
        self._bar.refresh()

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Shows the returns of the newest point."""
        if "returns" in history:
            self._returns = self._summary(history["returns"][-1])
            self._show()

    def _show(self) -> None:
        """Shows the speed and the last returns after the bar."""
        rate = self._bar.format_dict["rate"]
        speed = f"{rate * self._steps_per_update:,.0f} steps/s" if rate else ""
        texts = speed if self._steps_per_update else "", self._returns
        self._bar.set_postfix_str(", ".join(filter(None, texts)), refresh=False)

    def _summary(self, returns: Shaped[np.ndarray, "..."]) -> str:
        by_actor = np.atleast_1d(np.mean(returns, axis=0))
        return "return " + " / ".join(f"{mean:.4g}" for mean in by_actor)

    def on_interruption(self, runner: PyTree, history: Metrics) -> None:
        """Leaves the bar where the run stopped."""
        self._bar.set_description_str(f"{self._title}, stopped")

    def say(self, text: str) -> None:
        """Writes a line to standard error, above the bar, unless disabled."""
        if not self._disable:
            tqdm.write(text, file=sys.stderr)


class SweepBar(ProgressBar):
    """Shows the updates made by every member, and the range of their last mean returns."""

    def _summary(self, returns: Shaped[np.ndarray, "..."]) -> str:
        means = returns.reshape(len(returns), -1).mean(axis=1)
        return f"returns {means.min():.4g} to {means.max():.4g}"


class LoggerObserver(Observer):
    """Passes the mean metrics of each point to loggers, with the environment steps and the time.

    The speed only counts updates, from the end of the first chunk, which compiles.
    """

    def __init__(
        self, loggers: Sequence[Logger], known_steps: Sequence[int], steps_per_update: int = 0
    ) -> None:
        """Takes the loggers.

        Args:
            loggers: Receive the metrics.
            known_steps: Update steps that are already logged.
            steps_per_update: Environment steps per update; 0 omits them and their speed.
        """
        self._loggers = loggers
        self._known_steps = known_steps
        self._steps_per_update = steps_per_update
        self._began = self._last = time.monotonic()
        self._is_compiled = False
        self._timed, self._seconds = 0, 0.0

    def on_chunk(self, runner: PyTree, n_updates: int, first: FirstNonfinite) -> None:
        """Times the updates."""
        now = time.monotonic()
        if self._is_compiled:
            self._timed += n_updates
            self._seconds += now - self._last
        self._is_compiled, self._last = True, now

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Logs the newest point."""
        point = {name: values[-1] for name, values in history.items()}
        step = int(point.pop("update_step"))
        times: dict[str, float] = {"seconds": round(time.monotonic() - self._began, 3)}
        if self._steps_per_update:
            times = {"env_steps": step * self._steps_per_update, **times}
            if self._seconds:
                speed = self._timed * self._steps_per_update / self._seconds
                times["steps_per_second"] = round(speed, 1)
        if step not in self._known_steps:
            self.log(step, point, **times)
        self._timed, self._seconds = 0, 0.0
        self._last = time.monotonic()

    def log(self, step: int, point: Metrics, **labels: float) -> None:
        """Logs the means of a point.

        Args:
            step: Number of updates before the point.
            point: The metrics.
            **labels: Numbers to log with them.
        """
        means = mean_metrics(point)
        if step == 0:  # no update has reported anything
            means = {name: x for name, x in means.items() if not math.isnan(x)}
        for logger in self._loggers:
            logger.log(step, {**labels, **means})


class CallbackObserver(Observer):
    """Calls callbacks after each chunk and point, and stops the run if one of them returns true."""

    what = "training"

    def __init__(
        self,
        callbacks: Sequence[Callback],
        first: int,
        n_steps: int,
        say: Callable[[str], None],
        together: bool = False,
        earlier: Metrics | None = None,
    ) -> None:
        """Calls nothing yet.

        Args:
            callbacks: The callbacks.
            first: Number of updates made earlier.
            n_steps: Number of updates to make.
            say: Shows a line.
            together: Whether several processes train together. The first process calls, and all end
                together.
            earlier: Metrics of the runs that this one continues.
        """
        self._callbacks = callbacks
        self._step = first
        self._total = first + n_steps
        self._say = say
        self._together = together
        self._earlier = earlier
        self._history = earlier or {}
        self._began = time.monotonic()

    def on_chunk(self, runner: PyTree, n_updates: int, first: FirstNonfinite) -> bool:
        """Calls the callbacks."""
        self._step += n_updates
        return bool(self._history) and self._any_ends("on_chunk", runner)

    def on_point(self, runner: PyTree, history: Metrics) -> bool:
        """Calls the callbacks."""
        self._history = join(self._earlier, history)
        return self._any_ends("on_point", runner)

    def _any_ends(self, when: str, runner: PyTree) -> bool:
        ends = (not self._together or processes.leads()) and self._call(when, runner)
        return processes.any_process(ends) if self._together else ends

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
        return mean_metrics(point)


def _is_yes(answer: object, callback: Callback) -> bool:
    """Whether a callback returned that the run should end.

    Raises:
        TypeError: It returned something other than a truth value or `None`.
    """
    said = np.asarray(False if answer is None else answer)
    if said.dtype != bool or said.size != 1:
        raise TypeError(
            f"{callback!r} must return True to end the run, False, or nothing, got {answer!r}."
        )
    return bool(said)


class Watch(Observer):
    """Looks for non-finite values after every chunk of updates, and ends the run at the first."""

    def __init__(
        self,
        vital_arrays: Callable[[PyTree], dict[str, PyTree]],
        first: int,
        stops: bool,
        together: bool = False,
    ) -> None:
        """Looks at nothing yet.

        Args:
            vital_arrays: Maps a runner to the arrays to watch, by name.
            first: Number of updates made earlier.
            stops: Whether to end the run, rather than warn once.
            together: Whether all processes do this together, and so stop together.
        """
        self._vital_arrays = vital_arrays
        self._seen = self._step = first
        self._together = together
        self._stops = stops
        self._warned = self._warned_of_returns = False

    def on_chunk(self, runner: PyTree, n_updates: int, first: FirstNonfinite) -> None:
        """Checks the runner.

        Raises:
            NotFiniteError: Some values are non-finite, and the run should stop.
        """
        self._step += n_updates
        if self._warned:
            return
        before, self._seen = self._seen, self._step
        found = not_finite(self._vital_arrays(runner))
        told = [f"since update {text}" for text in in_words(first)]
        is_nonfinite = bool(found or told)
        if not (processes.any_process(is_nonfinite) if self._together else is_nonfinite):
            return
        if found or not told:
            names = ", ".join(found) or "arrays of another process"
            told.append(f"{self._when(before, bool(told))}: {names}")
        text = f"Non-finite numbers {'; '.join(told)}."
        if self._stops:
            raise NotFiniteError(
                f"{text} This was not saved; the last checkpoint before it is intact. Set "
                "stop_if_not_finite=False in the configuration to continue anyway."
            )
        warnings.warn(f"{text} Training continues, as configured.", stacklevel=3)
        self._warned = True

    def _when(self, before: int, is_after_others: bool) -> str:
        if is_after_others:
            return f"and by update {self._step}"
        if self._step == before + 1:
            return f"since update {self._step}"
        return f"since some update after {before} and up to {self._step}"

    def on_point(self, runner: PyTree, history: Metrics) -> None:
        """Warns once of non-finite returns: such a checkpoint is never the best."""
        returns = np.atleast_1d(history["returns"][-1] if "returns" in history else 0.0)
        episodes = np.flatnonzero(~np.isfinite(returns.reshape(len(returns), -1)).all(axis=1))
        if self._warned_of_returns or not len(episodes):
            return
        self._warned_of_returns = True
        warnings.warn(
            f"The evaluation after update {self._step} met non-finite rewards or observations, "
            f"in episodes {episodes.tolist()}: this checkpoint is never the best.",
            stacklevel=3,
        )
