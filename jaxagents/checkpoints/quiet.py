"""Keeping orbax quiet where it fails, since what went wrong is said in other words."""

import asyncio
import contextlib
import gc
import logging
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def quiet_orbax() -> Iterator[None]:
    """A context in which orbax logs no errors: they are raised as well."""
    with _filtered("absl", lambda record: "orbax" not in record.pathname):
        yield


@contextlib.contextmanager
def quiet_tasks() -> Iterator[None]:
    """A context in which tasks of orbax that failed do not complain of it once they are collected."""
    with _filtered(asyncio.__name__, lambda record: "orbax" not in record.getMessage()):
        yield


def ignore_late_reads() -> None:
    """Ignores complaints of reads that fail or end after orbax gave up, from now on."""
    logging.getLogger(asyncio.__name__).addFilter(_is_no_late_read)
    if not isinstance(sys.unraisablehook, _WithoutLateReads):
        sys.unraisablehook = _WithoutLateReads(sys.unraisablehook)


def collect_what_orbax_left() -> None:
    """Collects what orbax leaves unfinished where it fails; later on, that would complain by itself."""
    ignore_late_reads()
    with _filtered(asyncio.__name__, lambda record: False):
        gc.collect()


def _is_no_late_read(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    return not ("never retrieved" in text and ("tensorstore" in text or "orbax" in text))


class _WithoutLateReads:
    """A hook that passes on all but reads that end after orbax gave up, and closed their event loop."""

    def __init__(self, hook: Callable[["sys.UnraisableHookArgs"], object]) -> None:
        self._hook = hook

    def __call__(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            self._hook(unraisable)


@contextlib.contextmanager
def _filtered(logger: str, keeps: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    logging.getLogger(logger).addFilter(keeps)
    try:
        yield
    finally:
        logging.getLogger(logger).removeFilter(keeps)
