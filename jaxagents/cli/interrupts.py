"""Ctrl-C that is not lost."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def noting_ctrl_c() -> Iterator[Callable[[], None]]:
    """Notes Ctrl-C as well as raising `KeyboardInterrupt`.

    Python drops the error where nothing can be raised, such as in what JAX does at each garbage
    collection, and imported modules may swallow it.

    Yields:
        A function that raises `KeyboardInterrupt` if Ctrl-C was pressed.
    """
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    previous = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, previous)
