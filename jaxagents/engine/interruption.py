"""Stopping a long run at a moment when nothing is lost."""

import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Notes Ctrl-C and SIGTERM, so that a run can stop between two chunks; a second one stops at once.

    On leaving, a noted SIGTERM is raised again for whoever handled it before. Outside of the main
    thread, where Python receives no signals, it does nothing.
    """

    def __init__(self) -> None:
        """Makes one that has not been requested."""
        self._received: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the run should stop."""
        return self._received is not None

    def __enter__(self) -> "Interruption":
        """Installs the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._note) for s in _SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        """Puts the previous handlers back."""
        self._restore_handlers()
        if self._received == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._restore_handlers()
            raise KeyboardInterrupt
        self._received = number

    def _restore_handlers(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
